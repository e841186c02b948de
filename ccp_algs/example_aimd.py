"""The smallest algorithm that fills a link: slow start, then a segment per round trip; halves at a loss.

The fold program summarises each round trip; Python decides once per round trip, and immediately on loss.
Source: RFC 5681 sections 3.1 and 3.2. Deviations: decisions are made once per round trip, not per ACK, and a
loss is answered about 40 us late, because the report travels to Python and the answer back.
"""

from ccp_algs import Algorithm, Param, register
from ccp_algs.api import FlowInfo
from ccp_algs.fold import Ack, Flow, FoldProgram, count, every, latest, total


class AimdFold(FoldProgram):
    """The contents of the report, and when it is sent."""

    acked = total(Ack.bytes_acked)
    lost = total(Ack.lost_pkts_sample)
    limited = count(Flow.cwnd_limited)  # ACKs on which the window, not the application, limited sending
    srtt_us = latest(Flow.srtt_us)
    when = every(Flow.srtt_us) | (Ack.lost_pkts_sample > 0)


@register("aimd")
class Aimd(Algorithm):
    """Additive increase, multiplicative decrease."""

    program = AimdFold
    increase_pkts = Param(1.0, min=0.1, max=100.0, unit="segments", doc="growth per round trip")
    decrease = Param(0.5, min=0.1, max=0.9, doc="window after a loss, as a fraction of the window before it")

    def on_create(self, info: FlowInfo) -> None:
        """Begin in slow start."""
        self.cwnd_bytes = float(info.init_cwnd_bytes)
        self.ssthresh_bytes = float("inf")
        self.calm_until_us = 0  # losses until then belong to the last reduction

    def on_report(self, report: AimdFold) -> None:
        """Grow as in slow start, or by a segment per round trip; halve the window once per loss."""
        cwnd, mss = float(report.cwnd_bytes), self.flow.info.mss_bytes
        if report.lost > 0:
            if report.now_us < self.calm_until_us:
                return
            self.calm_until_us = report.now_us + report.srtt_us
            # After a timeout the kernel has set the window to a segment: slow start begins there.
            self.ssthresh_bytes = max(self.decrease * max(cwnd, self.cwnd_bytes), 2 * mss)
            cwnd = min(cwnd, self.ssthresh_bytes)
        elif report.limited:
            acked = min(report.acked, cwnd)
            slow_start = cwnd < self.ssthresh_bytes
            cwnd += acked if slow_start else self.increase_pkts * mss * acked / cwnd
        self.cwnd_bytes = cwnd
        self.flow.set(cwnd_bytes=cwnd)
