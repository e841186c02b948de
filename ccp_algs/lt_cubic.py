"""Loss-tolerant CUBIC: like CUBIC, unless losses at low RTTs show that the path loses packets at random.

    loss, RTT high in the flow's own range, or too many at once --> congestion: as CUBIC
    loss, RTT low -------------------------------------------> spared: window, threshold and curve stay
    two of these --------------------------------------------> tolerant for 4 s from the last one

A tolerant flow reduces to what the path carries, grows only while the RTT is low, and is paced: it fills the
path almost without a queue. `tolerance.py` has the rules. Without losses at a low RTT, every window equals
that of `cubic`.

This algorithm is the successor of `flex_cubic`, whose threshold of twice the minimum RTT cannot be reached in
buffers below one BDP. Here the threshold is relative to the queue that the flow has seen;
`docs/flex-cubic.md` compares the two.

Sources: RFC 9438, and those of `tolerance.py`; the idea to ignore losses at a low RTT is from P. P. P. Filho,
M. R. N. Ribeiro, M. Martinello, G. F. Miguel, "Flex-Cubic: A Runtime-Adaptive Loss-Tolerant TCP Cubic".

Parameters: those of `cubic.py`; `memory_ms` (4 s), the time that a flow stays tolerant after a loss at a low
    RTT; 0 disables tolerance.

Deviations: those of `cubic.py`.

Limits: a buffer of a few packets looks like no queue at all, so that drops there make the flow tolerant. If
RTTs vary for other reasons, the flow behaves like CUBIC.
"""

from __future__ import annotations

from typing import Any

from ccp_algs.cubic_control import CubicControl
from ccp_algs.cubic_core import BETA, cubic_growth, cubic_state
from ccp_algs.episodes import (
    REPORT_MS,
    Verdict,
    loss_episodes,
    regular_reports,
    report_interval_us,
    reports,
    tally,
)
from ccp_algs.fold import Ack, FoldProgram, Statement, control, field, on, total
from ccp_algs.params import Param
from ccp_algs.registry import register
from ccp_algs.slow_start import hystart
from ccp_algs.tolerance import MEMORY_MS, lenience, tolerance

_cubic = cubic_state()
_tolerance = tolerance()
_tally = tally()


def _also(verdict: Verdict) -> list[Statement]:
    return [*_cubic.restart(verdict), *_tally.count(verdict)]


class LtCubicFold(FoldProgram):
    """CUBIC's fold program, after lines that classify losses and before lines for tolerant flows."""

    acked = total(Ack.bytes_acked)
    cubic = _cubic
    tolerance = _tolerance
    tally = _tally
    loss = loss_episodes(
        round(1000 * BETA), also=_also, evidence=_tolerance.evidence(), min_bytes=_tolerance.min_bytes
    )
    growth = cubic_growth(cubic, loss, loss.may_grow & _tolerance.may_grow, eager=tolerance.is_tolerant)
    start = hystart(loss)
    lenience = lenience(_tolerance, loss, start)
    report_us = control(report_interval_us(REPORT_MS))
    reduced_to_bytes = field(volatile=False)
    report_reduced = on(loss.event > 0, reduced_to_bytes.set(loss.ssthresh_bytes))
    when = reports(loss, report_us)


@register("lt_cubic")
class LtCubic(CubicControl):
    """CUBIC that ignores losses while the RTT is low in the flow's own range.

    Use it against random loss (radio, optics).
    Do not use it with buffers of a few packets. A queue of less than a twelfth of the minimum RTT looks like
        none.
    Evidence: 56 simulated cases (docs/evaluate.md). At 1 % random loss it has 15 times kernel CUBIC's
        goodput; behind a policer it retransmits 5 %, kernel CUBIC 0.2 %.
    More: docs/flex-cubic.md
    """

    program = LtCubicFold
    report_ms = regular_reports(REPORT_MS)
    memory_ms = Param(
        MEMORY_MS,
        min=0.0,
        max=60_000.0,
        unit="ms",
        doc="time that a flow stays tolerant after a low loss; 0: never tolerant",
    )

    def registers(self, mss_bytes: int) -> dict[str, int]:
        """Return the registers that parameters and segment size determine."""
        return super().registers(mss_bytes) | {"memory_us": round(1000 * self.memory_ms)}

    def window_left_bytes(self, report: Any) -> float:
        """Return the window that a reduction left [bytes]."""
        return float(min(report.reduced_to_bytes, report.prior_bytes))
