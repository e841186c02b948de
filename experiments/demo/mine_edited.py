"""`mine.py` with one line changed: a queue is congestion, a loss is not."""

from __future__ import annotations

from ccplane import Algorithm, register
from ccplane.fold import Ack, Cwnd, Flow, FoldProgram, Rate, count, every, latest, total


class Fold(FoldProgram):
    """What the kernel accumulates between reports."""

    lost = total(Ack.lost_pkts_sample + Ack.ecn_packets)  # an ECN mark counts as a loss
    limited = count(Flow.cwnd_limited)  # ACKs on which the window, not the application, limited sending
    srtt_us = latest(Flow.srtt_us)
    min_rtt_us = latest(Flow.min_rtt_us)
    pace = Rate.set(1_250_000 * Cwnd // Flow.srtt_us)  # 1.25 windows per round trip, without bursts
    when = every(Flow.srtt_us)


@register("mine")
class Mine(Algorithm):
    """Add 10 % to a used-up window each round trip; cut it by 40 % when the path is congested."""

    program = Fold

    def on_report(self, report: Fold) -> None:
        """Set the window for the next round trip."""
        congested = report.srtt_us > 1.25 * report.min_rtt_us
        if congested or report.limited:
            # Simple: no slow start; shares of two flows can stay unequal; losses in two reports cut twice.
            factor = 0.6 if congested else 1.1
            self.flow.set(cwnd_bytes=max(factor * report.cwnd_bytes, 2 * self.flow.info.mss_bytes))
