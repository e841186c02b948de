"""The part of CUBIC and its variants that runs in Python: parameters, W_max and K after a reduction, undo.

`CubicAnswers` has the parameters and computes answers to reports. `CubicControl` applies these answers for
one flow and is the base of most classes; variants override what differs. The fold programs of these classes
consist of the parts in `cubic_core.py`, `episodes.py` and `slow_start.py`; this module sets the registers of
these parts.

Source: RFC 9438 sections 4.2, 4.7 and 4.9. Deviation: none.
"""

from __future__ import annotations

from typing import Any

from ccp_algs.api import Algorithm, Common, FlowInfo
from ccp_algs.cubic_core import (
    BETA,
    C_PER_S3,
    CubicReport,
    alpha_permille,
    cubic_scale,
    k_us,
    w_max_bytes,
)
from ccp_algs.episodes import CUT, STARTED, UNDO, regular_reports, report_interval_us
from ccp_algs.params import Param
from ccp_algs.reduction import prr_param, prr_register


class CubicAnswers(Common):
    """Computes the answer to a report, as control registers."""

    beta = Param(BETA, min=0.3, max=0.95, doc="window after a loss episode, as a fraction of that before")
    c_per_s3 = Param(C_PER_S3, min=0.01, max=100.0, unit="segments/s^3", doc="steepness of the curve")
    fast_convergence = Param(
        True, doc="aim lower if the window did not reach the last W_max, to make room for new flows"
    )
    hystart = Param(True, doc="leave the first slow start before the queue overflows (HyStart)")
    css_rounds = Param(
        0, min=0, max=20, unit="rounds", doc="0: HyStart as in Linux; more: HyStart++ (RFC 9406 has 5)"
    )
    prr = prr_param()

    def registers(self, mss_bytes: int) -> dict[str, int]:
        """Return the registers that parameters and segment size determine."""
        return {
            "cut_permille": round(1000 * self.beta),
            "alpha_permille": alpha_permille(self.beta),
            "cubic_scale": cubic_scale(mss_bytes, self.c_per_s3),
            "hystart": int(self.hystart),
            "css_limit": self.css_rounds,
            "prr": prr_register(self.prr),
        }

    def answer(self, report: CubicReport) -> dict[str, int]:
        """Return the answer to a report: a new curve, or the previous one after a spurious reduction."""
        if report.event == CUT:
            return self.registers(report.mss_bytes) | self.curve(report)
        if report.event == UNDO:
            return self.restored(report)
        if report.event == STARTED:
            return self.registers(report.mss_bytes)
        return {}

    def curve(self, report: CubicReport) -> dict[str, int]:
        """Return W_max and K after a reduction (RFC 9438 sections 4.2 and 4.7)."""
        w_max = w_max_bytes(
            report.prior_bytes, report.old_w_max_bytes, self.beta, fast_convergence=self.fast_convergence
        )
        left_bytes = max(self.window_left_bytes(report), 2 * report.mss_bytes)
        return {"w_max_bytes": w_max, "k_us": self.k_us(w_max, left_bytes, report.mss_bytes)}

    def window_left_bytes(self, report: CubicReport) -> float:
        """Return the window that a reduction left [bytes]."""
        return report.prior_bytes * self.beta

    def k_us(self, w_max_bytes: float, cwnd_epoch_bytes: float, mss_bytes: int) -> int:
        """Return K [us]; same arguments as `cubic_core.k_us`."""
        return k_us(w_max_bytes, cwnd_epoch_bytes, mss_bytes, self.c_per_s3)

    def restored(self, report: CubicReport) -> dict[str, int]:
        """Return the epoch that a spurious reduction ended (RFC 9438 section 4.9).

        The fold program itself restores the window, ssthresh and cwnd_prior.
        """
        return {
            "w_max_bytes": report.old_w_max_bytes,
            "k_us": report.old_k_us,
            "epoch": report.old_epoch,
            "t_us": report.old_t_us,
            "w_est_bytes": report.old_w_est_bytes,
        }


class CubicControl(CubicAnswers, Algorithm):
    """Answers the reports of one flow's fold program."""

    report_ms = regular_reports(0.0)

    def registers(self, mss_bytes: int) -> dict[str, int]:
        """Return the registers that parameters and segment size determine."""
        return super().registers(mss_bytes) | {"report_us": report_interval_us(self.report_ms)}

    def on_create(self, info: FlowInfo) -> None:
        """Hand the parameters to the fold program."""
        self.flow.set(**self.registers(info.mss_bytes))

    def on_report(self, report: Any) -> None:
        """Answer a report."""
        if registers := self.answer(report):
            self.flow.set(**registers)

    def on_params(self, names: frozenset[str]) -> None:
        """Hand the changed parameters over."""
        self.flow.set(**self.registers(self.flow.info.mss_bytes))
