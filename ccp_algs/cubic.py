"""CUBIC: the window follows a cubic curve of time around the window of the last loss.

    slow start, HyStart --(threshold, delay)--> congestion avoidance: max(cubic curve, W_est of Reno)
         ^                                            |        ^
         +------------- timeout ----------------------+--------+ loss, ECN: beta * cwnd, new W_max and K

The fold program grows the window, leaves slow start, and reduces the window on the ACK that shows a loss.
Python (`cubic_control.py`) then computes the new curve: W_max with fast convergence, and K, which needs a
cube root. Until Python's answer arrives (tens of microseconds, within a recovery that lasts a round trip),
only the Reno-friendly window grows.

Source: RFC 9438; for slow start see `slow_start.py`. Sections of the RFC, with the code for each:

    4.1    constants, variables          BETA, C_PER_S3, CubicState in cubic_core.py
    4.2    the curve and K               cubic_growth and k_us in cubic_core.py; CubicAnswers.curve
    4.3    Reno-friendly region, W_est   cubic_growth; alpha_permille
    4.4-5  concave and convex region     cubic_growth: one formula, with the sign of t - K
    4.6    multiplicative decrease       loss_episodes in episodes.py, by `cut_permille`
    4.7    fast convergence              w_max_bytes in cubic_core.py, CubicAnswers.curve
    4.8    timeout                       loss_episodes; CubicState.restart forgets W_max
    4.9    spurious reductions           loss_episodes (UNDO), CubicAnswers.restored
    4.10   slow start                    hystart in slow_start.py

Parameters: `beta` (0.7, section 4.6), `c_per_s3` (0.4, section 5.1), `fast_convergence` (on, section 4.7),
`hystart` (on, section 4.10), `css_rounds` (0: HyStart as in Linux, so that ccplane's and Linux's CUBIC can be
compared; RFC 9406 has 5, for HyStart++), `prr` (`echo`: `reduction.py`), `report_ms` (0: a flow reports only
what needs an answer).

Deviations: those of `cubic_core.py`, `episodes.py` and `slow_start.py`. The window does not grow while it is
not used up, as judged by the kernel; before the first loss the kernel counts a half-used window as used up.

Linux differs in three points: alpha stays 0.53 when W_est has reached cwnd_prior (section 4.3 has 1); an undo
does not restore W_max and K (section 4.9); and growth is computed at most every 31 ms while the window stays
the same, so with RTTs far below that and frequent marks its window hardly grows.
"""

from __future__ import annotations

from ccp_algs.cubic_control import CubicControl
from ccp_algs.cubic_core import BETA, cubic_growth, cubic_state
from ccp_algs.episodes import loss_episodes, reports
from ccp_algs.fold import INFINITY, Ack, FoldProgram, control, total
from ccp_algs.registry import register
from ccp_algs.slow_start import hystart


class CubicFold(FoldProgram):
    """Growth, slow start and the immediate reduction."""

    acked = total(Ack.bytes_acked)
    cubic = cubic_state()
    loss = loss_episodes(round(1000 * BETA), also=cubic.restart)
    growth = cubic_growth(cubic, loss)
    start = hystart(loss)
    report_us = control(INFINITY)
    when = reports(loss, report_us)


@register("cubic")
class Cubic(CubicControl):
    """CUBIC of RFC 9438, with HyStart, as in Linux.

    Use it as default.
    Do not use it under random loss. At 0.1 % loss, 100 Mbit/s and RTT 100 ms, kernel CUBIC has
        7 % of the link (docs/papers/published.md).
    Evidence: 56 simulated cases (docs/evaluate.md). Most do not distinguish it from kernel CUBIC.
    """

    program = CubicFold

    def registers(self, mss_bytes: int) -> dict[str, int]:
        """Return the registers that parameters and segment size determine."""
        return super().registers(mss_bytes) | {"configured": 1}
