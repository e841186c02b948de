"""An algorithm as one might write it first: more each round trip, less after a loss."""

from __future__ import annotations

from ccplane import Algorithm, register
from ccplane.fold import Ack, Flow, FoldProgram, every, latest, total


class Fold(FoldProgram):
    """What the kernel sums up between reports."""

    lost = total(Ack.lost_pkts_sample)
    srtt_us = latest(Flow.srtt_us)
    min_rtt_us = latest(Flow.min_rtt_us)
    when = every(Flow.srtt_us)


@register("mine")
class Mine(Algorithm):
    """A tenth more each round trip, three tenths less when the path is congested."""

    program = Fold

    def on_report(self, report: Fold) -> None:
        """Decide the window for the next round trip."""
        congested = report.lost > 0
        factor = 0.7 if congested else 1.1
        self.flow.set(cwnd_bytes=max(factor * report.cwnd_bytes, 2 * self.flow.info.mss_bytes))
