from __future__ import annotations

import pytest

from agent.exits import stay
from tests.unit.agent.fakes import FakeStats

NOW_US = 200_000_000


@pytest.mark.parametrize(
    ("stats", "expected"),
    [
        (
            FakeStats(1, law=True, law_cause="silent", law_entered_us=196_800_000),
            "agent silent for 3.2 s",
        ),
        (FakeStats(1, law=True, law_entered_us=NOW_US), "no program yet for 0.0 s"),
        (
            FakeStats(
                1,
                law=False,
                law_entries=2,
                law_cause="failed",
                law_entered_us=20_000_000,
                law_left_us=20_250_000,
            ),
            "its algorithm raised for 0.2 s, 180 s ago",
        ),
        (FakeStats(1, law=False, law_left_us=5), None),
    ],
)
def test_says_why_how_long_and_when(stats: FakeStats, expected: str | None) -> None:
    assert stay(stats, NOW_US) == expected
