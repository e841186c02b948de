"""Planted defect: after an idle period the window is set to the value before, and leaves in one burst."""

from ccp_algs.example_aimd import Aimd, AimdFold


class Restored(Aimd):
    """AIMD that remembers its window, whatever the kernel did to it while the flow was idle."""

    def on_report(self, report: AimdFold) -> None:
        """Set the remembered window before deciding."""
        before_bytes = self.cwnd_bytes
        super().on_report(report)
        if not report.lost and self.cwnd_bytes < before_bytes:
            self.cwnd_bytes = before_bytes
            self.flow.set(cwnd_bytes=before_bytes)
