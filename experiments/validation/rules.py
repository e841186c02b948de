"""Which runs of the kernel say nothing about TCP, because the machine was not there for them.

The rules look at the emulator and the machine alone, never at what a run came to.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

import pandas as pd

from experiments.left_out import LATE_US

LATE_P99_US: Final = 1_000
"""A run in which the emulator was so late with a packet in a hundred does not count [us]."""
TAKEN_MOST: Final = 0.1
"""A run in which others had more of the processors does not count."""
IDLE_LEAST: Final = 0.1
"""A run in which less of the processors was idle does not count: hosts waited for the emulator."""

REASONS: Final = {
    "stalled": f"the emulator was once more than {LATE_US / 1e3:g} ms late",
    "late": f"it was more than {LATE_P99_US / 1e3:g} ms late with one packet in a hundred",
    "overrun": "it did not take packets from a host, which are lost then",
    "taken": f"others had more than {TAKEN_MOST:.0%} of the processors, for which hosts wait then",
    "full": f"less than {IDLE_LEAST:.0%} of the processors was idle: the run wants more than there is",
}
"""Why a run does not count -> for people."""


def reason(row: pd.Series) -> str | None:
    """Return why a run does not count, one of `REASONS`; None if it does.

    Args:
        row: As of `running.row_of`; kept ones of before may not know what others had.
    """
    if row["late_us"] > LATE_US:
        return "stalled"
    if row["late_p99_us"] > LATE_P99_US:
        return "late"
    if row["untaken_pkts"]:
        return "overrun"
    if row.get("taken_ratio", 0.0) > TAKEN_MOST:
        return "taken"
    return "full" if row.get("idle_ratio", 1.0) < IDLE_LEAST else None


def judged(rows: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, int]]:
    """Return the runs that count, and how many do not for which reason."""
    reasons = pd.Series([reason(row) for _, row in rows.iterrows()], rows.index, dtype=object)
    left_out = Counter(reasons.dropna())
    return rows[reasons.isna()], {name: left_out[name] for name in REASONS}
