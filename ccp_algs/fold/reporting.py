"""When a fold program reports: `every` and `never`. Other conditions are comparisons and flags."""

from __future__ import annotations

from typing import Final

from ccp_algs.errors import FoldError, caller
from ccp_algs.fold.expressions import Flag, Num, number


class Every(Flag):
    """True once `period_us` has passed since the last report; see `every`."""

    def __init__(self, period_us: Num) -> None:
        """Take the period [us]."""
        self.period_us = period_us

    def __invert__(self) -> Flag:
        """Raise an error: `~every(...)` has no meaning.

        Raises:
            FoldError: `fold.negated_flag`.
        """
        raise FoldError(
            "fold.negated_flag", "`~every(...)` has no meaning", where=caller(), fix="remove the `~`"
        )

    def render(self) -> str:
        """Return the test; a missing RTT sample reads as 71 minutes, so the test needs no guard."""
        return f"(> Micros {self.period_us.render()})"


def every(period_us: Num | int) -> Flag:
    """Return a report condition that holds once `period_us` has passed since the last report.

    Args:
        period_us: Period [us], for example `Flow.srtt_us` or 10_000.

    Returns:
        The condition, for `when`.
    """
    return Every(number(period_us))


class Never(Flag):
    """No report; see `never`."""

    def render(self) -> str:
        """Return a condition that never holds."""
        return "(< 1 0)"


never: Final = Never()
"""`when = never`: the program does not report."""
