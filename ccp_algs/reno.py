"""Reno: slow start, additive increase by one segment per round trip, halving once per loss episode.

The whole algorithm is in its fold program, so that it reacts at the speed of the kernel; Python only
observes.
The window grows by byte counting: one segment for each window acknowledged.

    slow start --(window reaches ssthresh)--> congestion avoidance
         ^                                             |
         +---------- timeout: 2 segments --------------+---- loss: half the window, see episodes.py

Sources: RFC 5681 sections 3.1 and 3.2, RFC 3465 section 2.1, RFC 6582 section 3.2.

Parameters: `beta` (0.5, RFC 5681 equation 4), `report_ms` (0: a flow reports events only).

Deviations: those of `episodes.py` and `slow_start.py`. The kernel detects losses (SACK, RACK), so this is RFC
6675 rather than three duplicate ACKs.
"""

from __future__ import annotations

from ccp_algs.avoidance import additive_increase, credit
from ccp_algs.configured import Configured
from ccp_algs.episodes import loss_episodes, regular_reports, reports
from ccp_algs.fold import INFINITY, Ack, FoldProgram, control, total
from ccp_algs.params import Param
from ccp_algs.registry import register
from ccp_algs.slow_start import slow_start


class RenoFold(FoldProgram):
    """The algorithm; reports each event."""

    acked = total(Ack.bytes_acked)
    credit = credit()
    loss = loss_episodes(500, also=credit.restart)
    avoidance = additive_increase(loss, credit)
    start = slow_start(loss)
    report_us = control(INFINITY)
    when = reports(loss, report_us)


@register("reno")
class Reno(Configured):
    """Reno: a segment per round trip; half the window after a loss (RFC 5681).

    Use it as a reference.
    Do not use it on fast long paths. After a loss it regains half a BDP at one segment per round trip.
    Evidence: simulator against kernel (docs/validation.md).
    """

    program = RenoFold
    beta = Param(0.5, min=0.1, max=0.9, doc="window after a loss episode, as a fraction of that before")
    report_ms = regular_reports(0.0)

    def registers(self) -> dict[str, int]:
        """Return the registers that parameters determine."""
        return super().registers() | {"cut_permille": round(1000 * self.beta)}
