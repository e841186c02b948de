"""A constant window or a constant pacing rate, without congestion control.

`const` serves to measure a path, and as a competitor of algorithms that yield. The fold program keeps the
window constant even after a timeout, when the kernel collapses it. `const` does not react to loss: do not run
it on a path that other users need.

Parameters: `cwnd_bytes`, the window; 0 derives it from the rate: twice rate times RTT, at least 10 segments
(RFC 6928). `rate_bytes_per_s`, the pacing rate; 0 disables pacing. Window and rate can both be set.

Source and deviations: none.
"""

from __future__ import annotations

from ccp_algs.api import Algorithm, FlowInfo
from ccp_algs.fold import Ack, Cwnd, Flow, FoldProgram, Rate, control, every, field, max_, on, state, total
from ccp_algs.params import Param
from ccp_algs.registry import register

_US_PER_S = 1_000_000


class ConstFold(FoldProgram):
    """Keeps window and pacing rate at the values that Python set."""

    acked = total(Ack.bytes_acked)
    lost = total(Ack.lost_pkts_sample)
    fixed_cwnd_bytes = control(0)
    fixed_rate_bytes_per_s = control(0)
    running = state(0)
    started = field(0)  # 1: the program restarted, Python has to set its registers again
    notice = on(running == 0, started.set(1), running.set(1))
    keep = Cwnd.set(fixed_cwnd_bytes, when=fixed_cwnd_bytes > 0)
    fit = Cwnd.set(
        max_(2 * fixed_rate_bytes_per_s * Flow.srtt_us // _US_PER_S, 10 * Flow.mss),
        when=fixed_cwnd_bytes == 0,
    )
    pace = Rate.set(fixed_rate_bytes_per_s)
    when = every(max_(Flow.srtt_us, 10_000)) | (started > 0)


@register("const")
class Const(Algorithm):
    """A constant window or pacing rate, without congestion control.

    Use it to measure a path.
    Do not use it on shared paths. It does not react to loss.
    Evidence: tests only.
    """

    program = ConstFold
    cwnd_bytes = Param(0, min=0, max=1 << 30, unit="bytes", doc="window; 0: as large as the rate needs")
    rate_bytes_per_s = Param(0, min=0, max=125_000_000_000, unit="bytes/s", doc="pacing rate; 0: no pacing")

    def on_create(self, info: FlowInfo) -> None:
        """Set window and rate."""
        self._configure()

    def on_report(self, report: ConstFold) -> None:
        """Set window and rate again after the program restarted."""
        if report.started:
            self._configure()

    def on_params(self, names: frozenset[str]) -> None:
        """Apply the changed parameters."""
        self._configure()

    def _configure(self) -> None:
        self.flow.set(fixed_cwnd_bytes=self.cwnd_bytes, fixed_rate_bytes_per_s=self.rate_bytes_per_s)
