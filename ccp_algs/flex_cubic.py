"""Flex-Cubic: CUBIC that reacts to a loss only if the RTT shows a queue.

    loss with RTT <  k * minRTT: spared; window, threshold and curve stay
    loss with RTT >= k * minRTT: congestion, as in CUBIC

Everything else is CUBIC, from the same code: growth, HyStart, the Reno-friendly region, fast convergence, and
the reduction itself. The classification (`inflation.py`) runs in the fold program, on each ACK that shows a
loss.

* RTT is the sample of that ACK, or else the previous sample; minRTT is the kernel's minimum of the last 5
  minutes.
* A loss without a queue is not an event for CUBIC. Window, threshold, W_max, K, epoch and W_est stay
  unchanged. While the kernel repairs the loss, the window follows the delivered data as in Linux, and is
  restored afterwards (`spared_recovery.py`). With `spared_window=0` it keeps growing if it is used up: with
  2 % loss and a window of 400 segments, the kernel hardly ever leaves recovery.
* A later loss of the same recovery is classified separately. There is one reduction per window of data, so
  losses of data that a reduction has already answered cause no further one.
* ECN echoes and full queues on this host are congestion at any RTT.
* A timeout is classified like a loss, by the last RTT before the timeout. The kernel collapses the window in
  any case; if that RTT shows no queue, threshold and curve stay unchanged, so that slow start leads back to
  the previous window.

Sources: P. P. P. Filho, M. R. N. Ribeiro, M. Martinello, G. F. Miguel, "Flex-Cubic: A Runtime-Adaptive
Loss-Tolerant TCP Cubic", sections 3.1, 3.3 and 3.4; RFC 9438; for `queue_fraction` see `inflation.py`.

Parameters: those of `cubic.py`; `rtt_multiplier` (k = 2, section 3.4). Beyond the paper, and off by default:
`congestion_memory_ms`, `min_rtt_window_ms`, `queue_fraction` (all in `inflation.py`). `beta_of` and
`c_per_s3_of` convert the paper's units.

Deviations: those of `cubic.py`. The paper does not say which RTT is meant, nor how the window develops during
a recovery without a reduction, nor how ECN and timeouts are treated; the list above says what ccplane does.
The authors' program, bpf_cubic.c of github.com/nerds-ufes/Flex-Cubic, differs from the paper: it reduces the
window at every loss, only the reset after a timeout depends on the RTT (measured in slow start and not
updated later), and k is 5. Its cube root truncates a 64-bit number to 32 bits before it shifts it, so K is 0
if the window is 26 segments or more below W_max: a window of 87 segments or more is back at W_max about a
round trip after a reduction. Beta is not checked: with the script for beta 0.9, a loss increases the window.

Limits: k = 2 misses queues that delay by less than minRTT. With a buffer below the bandwidth-delay product
every loss is therefore ignored, and the window grows until most packets are dropped. `docs/flex-cubic.md` has
figures, and the effect of `queue_fraction`.
"""

from __future__ import annotations

from typing import Final

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
from ccp_algs.fold import Ack, FoldProgram, Statement, control, total
from ccp_algs.inflation import inflation
from ccp_algs.params import Param
from ccp_algs.registry import register
from ccp_algs.slow_start import hystart
from ccp_algs.spared_recovery import GROWS, PRR, growing, spared_recovery

RTT_MULTIPLIER: Final = 2.0
"""The factor k of section 3.4."""


def beta_of(beta_1024: int) -> float:
    """Return beta of RFC 9438 for a value in the paper's unit, 1/1024: 717 gives 0.7."""
    return beta_1024 / 1024


def c_per_s3_of(scale: int) -> float:
    """Return C of RFC 9438 [segments/s^3] for the paper's "C", in units of 10/1024: 41 gives 0.4."""
    return 10 * scale / 1024


_cubic = cubic_state()
_inflation = inflation(round(1000 * RTT_MULTIPLIER))
_tally = tally()


def _also(verdict: Verdict) -> list[Statement]:
    return [*_cubic.restart(verdict), *_tally.count(verdict)]


class FlexCubicFold(FoldProgram):
    """CUBIC's fold program, after lines that classify losses."""

    acked = total(Ack.bytes_acked)
    cubic = _cubic
    inflation = _inflation
    tally = _tally
    loss = loss_episodes(round(1000 * BETA), also=_also, evidence=_inflation.evidence())
    spared_window = control(PRR)
    may_grow_on = growing(loss, spared_window)
    growth = cubic_growth(cubic, loss, may_grow_on)
    start = hystart(loss, growing=may_grow_on)
    spared = spared_recovery(loss, spared_window)
    report_us = control(report_interval_us(REPORT_MS))
    when = reports(loss, report_us)
    metrics = _inflation.report(when)


@register("flex_cubic")
class FlexCubic(CubicControl):
    """CUBIC that reacts to a loss only if the RTT shows a queue.

    Use it against random loss, with deep buffers. The buffer should hold well over one BDP.
    Do not use it with shallow buffers or next to CUBIC. A full queue of less than one BDP never doubles the
        RTT, so the window grows without bound: with a buffer of 25 % of the BDP, 29 % of the data is
        retransmitted.
    Evidence: 9 of 18 claims tested on real sockets hold, 5 of 18 in the simulator
        (docs/papers/flex-cubic.md).
    More: docs/flex-cubic.md
    """

    program = FlexCubicFold
    report_ms = regular_reports(REPORT_MS)
    rtt_multiplier = Param(
        RTT_MULTIPLIER,
        min=1.0,
        max=100.0,
        doc="k: a loss is congestion if its RTT >= k * minRTT; 1: every loss is",
    )
    congestion_memory_ms = Param(
        0.0,
        min=0.0,
        max=60_000.0,
        unit="ms",
        doc="how long further losses count as congestion after a loss with an inflated RTT",
    )
    min_rtt_window_ms = Param(
        0.0, min=0.0, max=600_000.0, unit="ms", doc="window of minRTT; 0: the kernel's, 5 minutes"
    )
    queue_fraction = Param(
        0.0, min=0.0, max=1.0, doc="a loss also counts from this fraction of the flow's own RTT range; 0: off"
    )
    persist_rounds = Param(
        0,
        min=0,
        max=100,
        unit="rounds",
        doc="rounds that the RTT must stay inflated before it counts; 0: none",
    )
    spared_window = Param(
        PRR,
        min=GROWS,
        max=PRR,
        doc="window while spared losses are repaired: 0 grows, 1 stays, 2 follows PRR, as in Linux",
    )

    def registers(self, mss_bytes: int) -> dict[str, int]:
        """Return the registers that parameters and segment size determine."""
        return super().registers(mss_bytes) | {
            "k_permille": round(1000 * self.rtt_multiplier),
            "memory_us": round(1000 * self.congestion_memory_ms),
            "window_us": round(1000 * self.min_rtt_window_ms),
            "queue_permille": round(1000 * self.queue_fraction),
            "persist_rounds": self.persist_rounds,
            "spared_window": self.spared_window,
        }
