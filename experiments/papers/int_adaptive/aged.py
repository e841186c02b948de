"""CUBIC with in-band telemetry that tells how old the echoes were that it judged losses by."""

from __future__ import annotations

from typing import Final

from ccp_algs.int_cubic import IntCubic, IntReport

JUDGED: Final = "int_cubic:judged"


class AgedIntCubic(IntCubic):
    """Tells the age of the echo that the last loss before a report was judged by."""

    def on_report(self, report: IntReport) -> None:
        """Answer it."""
        if report.lost and report.echo_age_us:
            self.flow.tell(JUDGED, age_us=report.echo_age_us)
        super().on_report(report)
