"""Runs of the kernel that are excluded because the machine disturbed them.

The rules look at emulator and machine, never at a run's figures.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

import pandas as pd

from experiments.left_out import LATE_US

LATE_P99_US: Final = 1_000
"""Maximum 99th percentile of the emulator's lateness [us]."""
TAKEN_MAX: Final = 0.1
"""Maximum share of the processors that other processes may use."""
IDLE_MIN: Final = 0.1
"""Minimum idle share of the processors; below it hosts wait for the emulator."""

REASONS: Final = {
    "stalled": f"the emulator was at least once more than {LATE_US / 1e3:g} ms late",
    "late": f"the emulator was more than {LATE_P99_US / 1e3:g} ms late with one packet in a hundred",
    "overrun": "the emulator missed packets of a host",
    "taken": f"other processes used more than {TAKEN_MAX:.0%} of the processors",
    "full": f"less than {IDLE_MIN:.0%} of the processors was idle",
}
"""Reason why a run does not count -> text."""


def reason(row: pd.Series) -> str | None:
    """Return why a run of `running.row_of` does not count, one of `REASONS`, or None.

    Old kept results lack `taken_ratio` and `idle_ratio`.
    """
    if row["late_us"] > LATE_US:
        return "stalled"
    if row["late_p99_us"] > LATE_P99_US:
        return "late"
    if row["untaken_pkts"]:
        return "overrun"
    if row.get("taken_ratio", 0.0) > TAKEN_MAX:
        return "taken"
    return "full" if row.get("idle_ratio", 1.0) < IDLE_MIN else None


def judged(rows: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, int]]:
    """Return the valid runs and, for each reason, the number of runs excluded for it."""
    reasons = pd.Series([reason(row) for _, row in rows.iterrows()], rows.index, dtype=object)
    left_out = Counter(reasons.dropna())
    return rows[reasons.isna()], {name: left_out[name] for name in REASONS}
