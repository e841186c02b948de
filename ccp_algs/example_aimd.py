"""The smallest algorithm that fills a link: slow start, then a segment more a round trip, half at a loss.

The fold program sums up what the kernel saw in a round trip; Python decides once a round trip, and at once on
loss. Source: RFC 5681 sections 3.1 and 3.2. Deviations: decisions are taken a round trip at a time, not ACK
by ACK, and a loss is answered about 40 us late, as it has to come to Python and back. Copy this file to begin
your own.
"""

from ccp_algs import Algorithm, Param, register
from ccp_algs.api import FlowInfo
from ccp_algs.fold import Ack, Flow, FoldProgram, count, every, latest, total


class AimdFold(FoldProgram):
    """What Python wants to know, and when."""

    acked = total(Ack.bytes_acked)
    lost = total(Ack.lost_pkts_sample)
    limited = count(Flow.cwnd_limited)  # ACKs on which the window, not the application, limited sending
    srtt_us = latest(Flow.srtt_us)
    when = every(Flow.srtt_us) | (Ack.lost_pkts_sample > 0)


@register("aimd")
class Aimd(Algorithm):
    """Additive increase, multiplicative decrease."""

    program = AimdFold
    increase_pkts = Param(1.0, min=0.1, max=100.0, unit="segments", doc="growth in a round trip")
    decrease = Param(0.5, min=0.1, max=0.9, doc="window behind a loss, as part of that before")

    def on_create(self, info: FlowInfo) -> None:
        """Begin in slow start."""
        self.cwnd_bytes = float(info.init_cwnd_bytes)
        self.ssthresh_bytes = float("inf")
        self.calm_until_us = 0  # losses until then belong to a reduction that was made

    def on_report(self, report: AimdFold) -> None:
        """Grow by what was acknowledged in slow start, else by a segment a round trip; halve once a loss."""
        cwnd, mss = float(report.cwnd_bytes), self.flow.info.mss_bytes
        if report.lost > 0:
            if report.now_us < self.calm_until_us:
                return
            self.calm_until_us = report.now_us + report.srtt_us
            # After a timeout the kernel has already set the window to a segment: slow start begins there.
            self.ssthresh_bytes = max(self.decrease * max(cwnd, self.cwnd_bytes), 2 * mss)
            cwnd = min(cwnd, self.ssthresh_bytes)
        elif report.limited:
            acked = min(report.acked, cwnd)
            slow_start = cwnd < self.ssthresh_bytes
            cwnd += acked if slow_start else self.increase_pkts * mss * acked / cwnd
        self.cwnd_bytes = cwnd
        self.flow.set(cwnd_bytes=cwnd)
