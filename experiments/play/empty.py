"""An algorithm to begin with: the window stays the same. Write what `on_report` should do.

`acked`, `lost` and `srtt_us` of a report cover the time since the report before.
"""

from ccplane import Algorithm, FlowInfo, Param, register
from ccplane.fold import Ack, Flow, FoldProgram, every, latest, total


class Summary(FoldProgram):
    """What a report contains, and when it is sent: once per round trip, and at a loss."""

    acked = total(Ack.bytes_acked)
    lost = total(Ack.lost_pkts_sample)
    srtt_us = latest(Flow.srtt_us)
    min_rtt_us = latest(Flow.min_rtt_us)
    when = every(Flow.srtt_us) | (Ack.lost_pkts_sample > 0)


@register("empty")
class Empty(Algorithm):
    """A constant window."""

    program = Summary
    window_pkts = Param(100, min=1, max=100_000, unit="segments", doc="the window")

    def on_create(self, info: FlowInfo) -> None:
        """Begin with the window."""
        self.flow.set(cwnd_bytes=self.window_pkts * info.mss_bytes)

    def on_report(self, report: Summary) -> None:
        """Set the window again, so that a changed parameter takes effect."""
        self.flow.set(cwnd_bytes=self.window_pkts * self.flow.info.mss_bytes)
