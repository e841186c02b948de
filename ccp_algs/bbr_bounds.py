"""Parts of BBR's model that live in Python: the full-pipe check, the short-term bounds, and the undo state.

Source: draft-ietf-ccwg-bbr-06; each class names its section.
"""

from __future__ import annotations

import dataclasses
from typing import Final

from ccp_algs.bbr_model import Bbr3Fold
from ccp_algs.fold import INFINITY

FULL_BW_GROWTH: Final = 1.25
FULL_BW_ROUNDS: Final = 3


@dataclasses.dataclass
class FullPipe:
    """Whether the delivery rate stopped growing (section 5.3.1.2).

    Attributes:
        is_full: The pipe has been full once: STARTUP is over.
        now: The pipe is full in this probe.
        bw_bytes_per_s: The rate that a new sample has to exceed by a quarter [bytes/s].
        rounds: Number of rounds in a row that did not exceed it.
    """

    is_full: bool = False
    now: bool = False
    bw_bytes_per_s: int = 0
    rounds: int = 0

    def restart(self, bw_bytes_per_s: int = 0) -> None:
        """Start the check again, from a rate."""
        self.bw_bytes_per_s, self.rounds, self.now = bw_bytes_per_s, 0, False

    def check(self, report: Bbr3Fold) -> None:
        """Update with the rate in a report."""
        if self.now or not report.rounds or report.is_limited:
            return
        if report.round_bw_bytes_per_s >= FULL_BW_GROWTH * self.bw_bytes_per_s:
            self.restart(report.round_bw_bytes_per_s)
            return
        self.rounds += report.rounds
        self.now = self.rounds >= FULL_BW_ROUNDS
        self.is_full |= self.now

    def end(self) -> None:
        """Consider the pipe full because of losses (section 5.3.1.3)."""
        self.is_full = self.now = True


@dataclasses.dataclass
class ShortBounds:
    """Bounds that losses set until the next probe (section 5.5.10.3).

    Attributes:
        bw_bytes_per_s: Bound of the rate [bytes/s].
        inflight_bytes: Bound of the data in flight [bytes].
    """

    bw_bytes_per_s: int = INFINITY
    inflight_bytes: int = INFINITY

    def reset(self) -> None:
        """Remove both bounds."""
        self.bw_bytes_per_s = self.inflight_bytes = INFINITY

    def lower(self, report: Bbr3Fold, beta: float) -> None:
        """Lower the bounds to the amount that a lossy round delivered, but at most by the factor `beta`."""
        bw_bytes_per_s, inflight_bytes = self.bw_bytes_per_s, self.inflight_bytes
        if bw_bytes_per_s == INFINITY:
            bw_bytes_per_s = report.max_bw_bytes_per_s
        if inflight_bytes == INFINITY:
            inflight_bytes = report.cwnd_bytes
        self.bw_bytes_per_s = max(report.bw_latest_bytes_per_s, int(beta * bw_bytes_per_s))
        self.inflight_bytes = max(report.inflight_latest_bytes, int(beta * inflight_bytes))

    def widen(self, other: ShortBounds) -> None:
        """Raise each bound to the bound of `other`, if the latter is larger."""
        self.bw_bytes_per_s = max(self.bw_bytes_per_s, other.bw_bytes_per_s)
        self.inflight_bytes = max(self.inflight_bytes, other.inflight_bytes)


@dataclasses.dataclass
class Undo:
    """State that a spurious recovery has to restore (section 5.5.11).

    Attributes:
        recoveries: Number of the recovery.
        short: Short-term bounds before the recovery.
        inflight_long_bytes: Long-term bound of the data in flight before it [bytes].
        state: STARTUP or UP if the recovery ended that state, else empty.
    """

    recoveries: int
    short: ShortBounds
    inflight_long_bytes: int
    state: str = ""
