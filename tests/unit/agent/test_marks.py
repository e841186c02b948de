from __future__ import annotations

from typing import Any

import pytest

from ccplane.agent.events import KINDS
from ccplane.agent.marks import mark_of


@pytest.mark.parametrize(
    ("kind", "detail", "mark"),
    [
        ("param:set", {"name": "beta", "value": 0.5}, ("parameter", "cubic.beta = 0.5")),
        (
            "algorithm:reloaded",
            {"new_sha256": "9ae2" * 16, "flows": 3},
            ("version", "cubic: new version 9ae29ae2, 3 flows"),
        ),
        (
            "algorithm:switched",
            {"flows": 1, "before": "reno"},
            ("version", "1 flow switched from reno to cubic"),
        ),
        ("algorithm:switched", {"flows": 2, "before": None}, ("version", "2 flows switched to cubic")),
        ("program:replaced", {"program": "slow"}, ("version", "cubic: fold program slow replaced")),
        (
            "algorithm:refused",
            {"error": {"message": "syntax\nerror"}},
            ("error", "cubic: new version refused: syntax error"),
        ),
        (
            "flow:failed",
            {"error": "ZeroDivisionError", "callback": "on_report", "where": "mine.py:7"},
            ("error", "cubic: ZeroDivisionError in on_report, mine.py:7"),
        ),
        (
            "flows:fallback",
            {"flows": 4, "cause": "silent"},
            ("error", "4 flows moved to the fallback: silent"),
        ),
    ],
)
def test_changes_and_errors_have_a_line_of_text(kind: str, detail: dict[str, Any], mark: object) -> None:
    assert mark_of(kind, "cubic", detail) == mark


@pytest.mark.parametrize("kind", [*KINDS, "mine:own"])
def test_no_event_is_too_bare(kind: str) -> None:
    mark = mark_of(kind, "cubic", {})
    assert (mark is None) == kind.startswith(
        ("flow:created", "flow:closed", "flows:reaped", "telemetry:", "mine:")
    )
