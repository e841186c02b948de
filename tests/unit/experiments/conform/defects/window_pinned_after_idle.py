"""Planted defect: after an idle period the window never grows again."""

from ccp_algs.example_aimd import Aimd, AimdFold

IDLE_US = 500_000


class Pinned(Aimd):
    """AIMD that pauses at the first report after an idle period, and never ends the pause."""

    last_us = 0
    paused = False

    def on_report(self, report: AimdFold) -> None:
        """Decide, unless paused."""
        if self.last_us and report.now_us - self.last_us > IDLE_US:
            self.paused = True
        self.last_us = report.now_us
        if self.paused and not report.lost:
            self.flow.set(cwnd_bytes=min(self.cwnd_bytes, 4 * self.flow.info.mss_bytes))
            return
        super().on_report(report)
