"""Flex-Cubic: CUBIC that reacts to a loss only if the RTT shows a queue.

    loss with RTT <  k * minRTT: spared; window, threshold and curve stay, the window grows on
    loss with RTT >= k * minRTT: congestion; as CUBIC

Everything else is CUBIC, from the same code: growth, HyStart, the Reno-friendly region, fast convergence, and
the reduction itself. The judgement (`inflation.py`) runs in the fold program, on each ACK that shows a loss.

* RTT: the sample of that ACK, else the last one. minRTT: the kernel's, of the last 5 minutes.
* A spared loss is no event for CUBIC. Window, threshold, W_max, K, epoch and W_est stay; the window grows on
  while the kernel repairs, if it is used up, and is not tied to what is delivered: nothing is to be reduced.
  It has to grow then: with 2 % loss and a window of 400 segments the kernel leaves recovery hardly ever.
* A later loss of the same recovery is judged for itself. Losses of data that a reduction has answered already
  are part of that: one reduction a window, as everywhere.
* ECN echoes and full queues of this host are congestion at any RTT.
* Timeout: spared or not like a loss, by the last RTT before it. The kernel collapses the window in any case;
  spared, threshold and curve stay, so that slow start leads back to where the window was.

Sources: P. P. P. Filho, M. R. N. Ribeiro, M. Martinello, G. F. Miguel, "Flex-Cubic: A Runtime-Adaptive
Loss-Tolerant TCP Cubic", sections 3.1, 3.3 and 3.4; RFC 9438; for `queue_fraction` see `inflation.py`.

Parameters: those of `cubic.py`; `rtt_multiplier` (k = 2, section 3.4); off by default and beyond the paper:
`congestion_memory_ms`, `min_rtt_window_ms`, `queue_fraction` (all in `inflation.py`). The paper's units are
converted by `beta_of` and `c_per_s3_of`.

Deviations: those of `cubic.py`. The paper does not say which RTT is meant, nor what happens to the window
during a spared recovery, to ECN, and to timeouts: see above for what is done here. The authors' program does
something else than the paper: it reduces at every loss, and only a timeout depends on the RTT.

Limits: k = 2 sees no queue that delays by less than minRTT, so that with a buffer below the bandwidth-delay
product every loss is spared, and the window grows until most packets are dropped. `docs/flex-cubic.md` has
figures, and what `queue_fraction` does about it.
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
"""k of section 3.4."""


def beta_of(beta_1024: int) -> float:
    """Return beta of RFC 9438 for one in the paper's unit, 1/1024: 717 is 0.7."""
    return beta_1024 / 1024


def c_per_s3_of(scale: int) -> float:
    """Return C of RFC 9438 [segments/s^3] for the paper's "C", a scale in 10/1024: 41 is 0.4."""
    return 10 * scale / 1024


_cubic = cubic_state()
_inflation = inflation(round(1000 * RTT_MULTIPLIER))
_tally = tally()


def _also(verdict: Verdict) -> list[Statement]:
    return [*_cubic.restart(verdict), *_tally.count(verdict)]


class FlexCubicFold(FoldProgram):
    """CUBIC's program, and the judgement of losses in front of it."""

    acked = total(Ack.bytes_acked)
    cubic = _cubic
    inflation = _inflation
    tally = _tally
    loss = loss_episodes(round(1000 * BETA), also=_also, evidence=_inflation.evidence())
    spared_window = control(GROWS)
    may_grow_on = growing(loss, spared_window)
    growth = cubic_growth(cubic, loss, may_grow_on)
    start = hystart(loss, growing=may_grow_on)
    spared = spared_recovery(loss, spared_window)
    report_us = control(report_interval_us(REPORT_MS))
    when = reports(loss, report_us)
    metrics = _inflation.report(when)


@register("flex_cubic")
class FlexCubic(CubicControl):
    """Flex-Cubic; see the module."""

    program = FlexCubicFold
    report_ms = regular_reports(REPORT_MS)
    rtt_multiplier = Param(
        RTT_MULTIPLIER,
        min=1.0,
        max=100.0,
        doc="k: a loss is congestion if its RTT >= k * minRTT; 1: always",
    )
    congestion_memory_ms = Param(
        0.0, min=0.0, max=60_000.0, unit="ms", doc="how long losses count behind one that showed inflation"
    )
    min_rtt_window_ms = Param(
        0.0, min=0.0, max=600_000.0, unit="ms", doc="minRTT is that of so long; 0: the kernel's, of 5 minutes"
    )
    queue_fraction = Param(
        0.0, min=0.0, max=1.0, doc="losses this far up in the flow's own RTT range count, too; 0: off"
    )
    persist_rounds = Param(
        0, min=0, max=100, unit="rounds", doc="k * minRTT counts only when it lasted so long; 0: at once"
    )
    spared_window = Param(
        GROWS,
        min=GROWS,
        max=PRR,
        doc="while spared losses are repaired, the window 0: grows, 1: is held, 2: PRR",
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
