"""Planted defect: slow start that never ends, because no loss sets the threshold."""

from ccp_algs.example_aimd import Aimd, AimdFold


class Endless(Aimd):
    """AIMD that forgets its threshold."""

    def on_report(self, report: AimdFold) -> None:
        """Decide as in slow start."""
        super().on_report(report)
        self.ssthresh_bytes = float("inf")
