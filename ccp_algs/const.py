"""A constant window or a constant rate: no congestion control at all.

For measurements of a path, and as the counterpart of algorithms that give way. The fold program keeps the
window where it shall be, also when the kernel collapses it after a timeout. It does not react to loss: never
run it where others need the path.

Parameters: `cwnd_bytes`, the window; 0 lets it be as large as the rate needs, twice the product of rate and
RTT, and 10 segments at least (RFC 6928). `rate_bytes_per_s`, the pacing rate; 0 does not pace. Both can be
given.

Source: none, there is no algorithm here.
"""

from __future__ import annotations

from ccp_algs.api import Algorithm, FlowInfo
from ccp_algs.fold import Ack, Cwnd, Flow, FoldProgram, Rate, control, every, field, max_, on, state, total
from ccp_algs.params import Param
from ccp_algs.registry import register

_US_PER_S = 1_000_000


class ConstFold(FoldProgram):
    """Keeps window and rate where Python put them."""

    acked = total(Ack.bytes_acked)
    lost = total(Ack.lost_pkts_sample)
    fixed_cwnd_bytes = control(0)
    fixed_rate_bytes_per_s = control(0)
    running = state(0)
    started = field(0)  # 1: the registers have their initial values, Python has to set them again
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
    """Constant window or rate; see the module."""

    program = ConstFold
    cwnd_bytes = Param(0, min=0, max=1 << 30, unit="bytes", doc="the window; 0: as large as the rate needs")
    rate_bytes_per_s = Param(0, min=0, max=125_000_000_000, unit="bytes/s", doc="the rate; 0: not paced")

    def on_create(self, info: FlowInfo) -> None:
        """Set window and rate."""
        self._configure()

    def on_report(self, report: ConstFold) -> None:
        """Set them again after the program started anew."""
        if report.started:
            self._configure()

    def on_params(self, names: frozenset[str]) -> None:
        """Set what was set."""
        self._configure()

    def _configure(self) -> None:
        self.flow.set(fixed_cwnd_bytes=self.cwnd_bytes, fixed_rate_bytes_per_s=self.rate_bytes_per_s)
