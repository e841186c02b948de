from __future__ import annotations

from typing import Any

import pytest

from ccplane.agent.commands.canary import describe

ROW: dict[str, Any] = {
    "algorithm": "mine",
    "share": "5 % of new flows",
    "age_s": 4.04,
    "for_s": 60.0,
    "flows": 5,
    "other_flows": 161,
    "figures": {},
    "outcome": None,
    "why": "",
}
FIGURES = {
    "goodput": {"new": 135_000.0, "old": 648_000.0, "p": 1e-5},
    "rtt": {"new": 23_506.0, "old": 24_505.0, "p": 1.0},
    "greed": {"new": 135_000.0, "old": 648_000.0, "p": 1.0},
}


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({}, "mine: 5 % of new flows, 4 of 60 s, 5 flows, 161 others"),
        (
            {"figures": FIGURES},
            "mine: 5 % of new flows, 4 of 60 s, 5 flows, 161 others;"
            " goodput 1.08 (5.18) Mbit/s, RTT 23.5 (24.5) ms",
        ),
        (
            {"outcome": "taken back", "why": "goodput 1.08 Mbit/s, control group 5.19 Mbit/s (p = 1e-05)"},
            "mine: taken back after 4.0 s (5 flows, 161 others):"
            " goodput 1.08 Mbit/s, control group 5.19 Mbit/s (p = 1e-05)",
        ),
    ],
)
def test_how_a_trial_stands_is_a_sentence(more: dict[str, Any], said: str) -> None:
    assert describe(ROW | more) == said
