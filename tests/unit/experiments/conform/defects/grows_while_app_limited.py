"""Planted defect: the window grows although the application does not use it."""

from ccp_algs.example_aimd import Aimd, AimdFold


class Eager(Aimd):
    """AIMD that takes each acknowledgment for a reason to grow."""

    def on_report(self, report: AimdFold) -> None:
        """Grow, whether the window limits the flow or not."""
        cwnd = float(report.cwnd_bytes)
        if not report.lost and not report.limited:
            cwnd += report.acked
            self.cwnd_bytes = cwnd
            self.flow.set(cwnd_bytes=cwnd)
            return
        super().on_report(report)
