from __future__ import annotations

import pytest

from ccplane.agent.exits import slotless, stay
from tests.unit.agent.fakes import FakeStats

NOW_US = 200_000_000


@pytest.mark.parametrize(
    ("stats", "expected"),
    [
        (
            FakeStats(1, fallback=True, fallback_cause="silent", fallback_entered_us=196_800_000),
            "agent silent for 3.2 s",
        ),
        (FakeStats(1, fallback=True, fallback_entered_us=NOW_US), "no program yet for 0.0 s"),
        (
            FakeStats(
                1,
                fallback=False,
                fallback_entries=2,
                fallback_cause="failed",
                fallback_entered_us=20_000_000,
                fallback_left_us=20_250_000,
            ),
            "its algorithm raised for 0.2 s, 180 s ago",
        ),
        (FakeStats(1, fallback=False, fallback_left_us=5), None),
    ],
)
def test_says_why_how_long_and_when(stats: FakeStats, expected: str | None) -> None:
    assert stay(stats, NOW_US) == expected


@pytest.mark.parametrize(
    ("counters", "expected"),
    [
        ({}, None),
        ({"flows_over_limit": 0, "flows_over_quota": 0, "flows_reaped": 0}, None),
        (
            {"flows_over_limit": 4, "without_slot_limit": 1},
            "4 sockets found no slot (--max-flows); without one now: 1 for the limit",
        ),
        (
            {"flows_over_limit": 4, "flows_over_quota": 1, "without_slot_limit": 2, "without_slot_quota": 1},
            "4 sockets found no slot (--max-flows); 1 socket over a user's or cgroup's quota; "
            "without one now: 2 for the limit, 1 for the quota",
        ),
        ({"flows_reaped": 7}, "slots taken from silent flows: 7"),
    ],
)
def test_says_why_sockets_have_no_slot(counters: dict[str, int], expected: str | None) -> None:
    assert slotless(counters) == expected
