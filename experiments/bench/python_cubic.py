"""CUBIC with everything in `on_report`: what a researcher writes who leaves all but measuring to Python.

The fold program only sums up; window, slow start and reductions are decided in Python, once a round trip but
not more often than every millisecond, and at once where a loss or a timeout shows. Benchmarks measure it
beside `cubic`, whose fold program decides on every ACK.

Source: RFC 9438 sections 4.2 to 4.8 and 4.10 (HyStart by delay).

Deviations: a report's ACKs grow the window at once; nothing conserves packets while a loss is repaired; no
HyStart by trains of ACKs, no undo.
"""

from __future__ import annotations

from typing import Final

from ccp_algs.api import Algorithm, FlowInfo
from ccp_algs.cubic_core import BETA, C_PER_S3, alpha_permille, k_us, w_max_bytes
from ccp_algs.episodes import DISORDER
from ccp_algs.fold import Ack, Flow, FoldProgram, count, every, latest, max_, minimum, total
from ccp_algs.slow_start import MAX_RTT_THRESH_US, MIN_RTT_DIVISOR, MIN_RTT_THRESH_US

REPORT_US: Final = 1_000
"""Shortest time between regular reports [us]."""


class Sums(FoldProgram):
    """What Python decides from."""

    acked = total(Ack.bytes_acked)
    lost = total(Ack.lost_pkts_sample)
    limited = count(Flow.cwnd_limited)
    timeouts = count(Flow.was_timeout)
    srtt_us = latest(Flow.srtt_us)
    rtt_us = minimum(Flow.rtt_sample_us)
    min_rtt_us = latest(Flow.min_rtt_us)
    ca_state = latest(Flow.ca_state)
    delivered_bytes = latest(Flow.delivered_bytes)
    when = every(max_(Flow.srtt_us, REPORT_US)) | (Ack.lost_pkts_sample > 0) | Flow.was_timeout


class PythonCubic(Algorithm):
    """CUBIC; see the module."""

    name = "py_cubic"
    program = Sums

    def on_create(self, info: FlowInfo) -> None:
        """Begin in slow start."""
        self.cwnd_bytes = float(info.init_cwnd_bytes)
        self.ssthresh_bytes = float("inf")
        self.w_max_bytes = self.w_est_bytes = self.prior_bytes = 0.0
        self.k_us = self.epoch_us = 0
        self.recover_bytes = 0  # losses of data until there belong to a reduction that was made

    def on_report(self, report: Sums) -> None:
        """Decide."""
        prior_bytes, self.cwnd_bytes = self.cwnd_bytes, float(report.cwnd_bytes)
        if report.timeouts:
            self._reduce(max(prior_bytes, self.cwnd_bytes), report)
            return  # the kernel has collapsed the window
        if report.lost > 0 and report.delivered_bytes >= self.recover_bytes:
            self._reduce(self.cwnd_bytes, report)
            self.cwnd_bytes = self.ssthresh_bytes
        elif report.limited and report.ca_state <= DISORDER:
            self._grow(report)
        else:
            return
        self.flow.set(cwnd_bytes=self.cwnd_bytes)

    def _reduce(self, prior_bytes: float, report: Sums) -> None:
        mss_bytes = self.flow.info.mss_bytes
        self.w_max_bytes = w_max_bytes(round(prior_bytes), round(self.w_max_bytes))
        self.prior_bytes = prior_bytes
        self.ssthresh_bytes = self.w_est_bytes = max(BETA * prior_bytes, 2.0 * mss_bytes)
        self.k_us = k_us(self.w_max_bytes, self.ssthresh_bytes, mss_bytes)
        self.epoch_us = report.now_us
        self.recover_bytes = report.delivered_bytes + round(1.25 * prior_bytes)  # as `episodes.recover_at`

    def _grow(self, report: Sums) -> None:
        if self.cwnd_bytes >= self.ssthresh_bytes:
            self._follow_curve(report)
            return
        rise_us = max(MIN_RTT_THRESH_US, min(report.min_rtt_us // MIN_RTT_DIVISOR, MAX_RTT_THRESH_US))
        if report.rtt_us >= report.min_rtt_us + rise_us and self.ssthresh_bytes == float("inf"):
            self.ssthresh_bytes = self.w_max_bytes = self.w_est_bytes = self.cwnd_bytes
            self.epoch_us = report.now_us
        self.cwnd_bytes = min(self.cwnd_bytes + report.acked, self.ssthresh_bytes)

    def _follow_curve(self, report: Sums) -> None:
        """Grow as RFC 9438 sections 4.3 to 4.5 have it, for all that was acknowledged."""
        cwnd_bytes, mss_bytes = self.cwnd_bytes, self.flow.info.mss_bytes
        ahead_s = (report.now_us - self.epoch_us + report.srtt_us - self.k_us) / 1e6
        curve_bytes = self.w_max_bytes + C_PER_S3 * mss_bytes * ahead_s**3
        target_bytes = max(min(curve_bytes, 1.5 * cwnd_bytes), cwnd_bytes)
        rounds = min(report.acked / cwnd_bytes, 1.0)
        alpha = 1.0 if self.w_est_bytes >= self.prior_bytes else alpha_permille(BETA) / 1000
        self.w_est_bytes += alpha * mss_bytes * rounds
        self.cwnd_bytes = max(cwnd_bytes + (target_bytes - cwnd_bytes) * rounds, self.w_est_bytes)
