"""CUBIC: the window follows a cubic curve of time around the window of the last loss.

    slow start, HyStart --(threshold, delay)--> congestion avoidance: max(cubic curve, W_est of Reno)
         ^                                            |        ^
         +------------- timeout ----------------------+--------+ loss, ECN: beta * cwnd, new W_max and K

The fold program grows the window, leaves slow start, and reduces the window on the ACK that shows a loss.
Python then decides where the curve goes: W_max with fast convergence, and K, which needs a cube root. Until
its answer arrives (tens of microseconds, within the recovery that lasts a round trip) only the Reno-friendly
window grows.

Sources: RFC 9438 (sections 4.2 to 4.10); for slow start see `slow_start.py`.

Parameters: `beta` (0.7, section 4.6), `c_per_s3` (0.4, section 5.1), `fast_convergence` (on, section 4.7),
`hystart` (on, section 4.10), `css_rounds` (0: HyStart as in Linux, so that the two can be compared; RFC 9406
has 5, for HyStart++).

Deviations: those of `cubic_core.py`, `episodes.py` and `slow_start.py`. Growth stops while the window is not
used up, as the kernel judges it; before the first loss the kernel counts a half-used window as used.

History: 1, first version.
"""

from __future__ import annotations

from typing import Any

from ccp_algs.api import Algorithm, FlowInfo
from ccp_algs.cubic_core import (
    BETA,
    C_PER_S3,
    alpha_permille,
    cubic_growth,
    cubic_scale,
    cubic_state,
    k_us,
    w_max_bytes,
)
from ccp_algs.episodes import CUT, STARTED, UNDO, loss_episodes, reports
from ccp_algs.fold import Ack, FoldProgram, total
from ccp_algs.params import Param
from ccp_algs.registry import register
from ccp_algs.slow_start import hystart


class CubicFold(FoldProgram):
    """Growth, slow start and immediate reduction."""

    acked = total(Ack.bytes_acked)
    cubic = cubic_state()
    loss = loss_episodes(round(1000 * BETA), also=cubic.restart)
    growth = cubic_growth(cubic, loss)
    start = hystart(loss)
    when = reports(loss)


@register("cubic")
class Cubic(Algorithm):
    """CUBIC of RFC 9438; see the module."""

    program = CubicFold
    beta = Param(BETA, min=0.3, max=0.95, doc="window behind a loss episode, as part of that before")
    c_per_s3 = Param(C_PER_S3, min=0.01, max=100.0, unit="segments/s^3", doc="steepness of the curve")
    fast_convergence = Param(True, doc="aim lower where the last W_max was not reached, to make room")
    hystart = Param(True, doc="leave the first slow start before the queue overflows")
    css_rounds = Param(
        0, min=0, max=20, unit="rounds", doc="0: HyStart as in Linux; more: HyStart++ (RFC 9406 has 5)"
    )

    def on_create(self, info: FlowInfo) -> None:
        """Hand the parameters to the fold program."""
        self.flow.set(**self.registers(info.mss_bytes))

    def on_report(self, report: Any) -> None:
        """Give the curve its new shape behind a reduction, or its old one if that was spurious."""
        if report.event == CUT:
            self.flow.set(**self.registers(report.mss_bytes), **self.curve(report))
        elif report.event == UNDO:
            self.flow.set(**self.restored(report))
        elif report.event == STARTED or self.params_changed():
            self.flow.set(**self.registers(self.flow.info.mss_bytes))

    def registers(self, mss_bytes: int) -> dict[str, int]:
        """Return the registers that parameters and segment size determine."""
        return {
            "cut_permille": round(1000 * self.beta),
            "alpha_permille": alpha_permille(self.beta),
            "cubic_scale": cubic_scale(mss_bytes, self.c_per_s3),
            "hystart": int(self.hystart),
            "css_limit": self.css_rounds,
        }

    def curve(self, report: Any) -> dict[str, int]:
        """Return W_max and K behind a reduction (RFC 9438 sections 4.2 and 4.7)."""
        w_max = w_max_bytes(
            report.prior_bytes, report.old_w_max_bytes, self.beta, fast_convergence=self.fast_convergence
        )
        cwnd_epoch_bytes = max(report.prior_bytes * self.beta, 2 * report.mss_bytes)
        return {
            "w_max_bytes": w_max,
            "k_us": k_us(w_max, cwnd_epoch_bytes, report.mss_bytes, self.c_per_s3),
        }

    def restored(self, report: Any) -> dict[str, int]:
        """Return the epoch that a spurious reduction ended (RFC 9438 section 4.9)."""
        return {
            "w_max_bytes": report.old_w_max_bytes,
            "k_us": report.old_k_us,
            "epoch": report.old_epoch,
            "t_us": report.old_t_us,
            "w_est_bytes": report.old_w_est_bytes,
        }
