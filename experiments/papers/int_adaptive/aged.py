"""CUBIC with in-band telemetry that tells how old the telemetry was that it judged losses by."""

from __future__ import annotations

from ccp_algs.api import Sample
from ccp_algs.int_cubic import INT_SUMMARY, IntCubic, IntReport
from experiments.runs.noted import JUDGED


class AgedIntCubic(IntCubic):
    """Tells with each report of a loss how long before the newest packet had left that it was judged by.

    By an echo, that is what the fold program says of the last loss. By summaries, it is since the last packet
    of the one in force came, and as long as its packets took.
    """

    _left_us: int | None = None

    def on_telemetry(self, sample: Sample) -> None:
        """Answer it, and remember of when it is."""
        if sample.kind == INT_SUMMARY and sample.body.latency_us is not None:
            self._left_us = sample.received_us - sample.age_at_receipt_us - sample.body.latency_us
        super().on_telemetry(sample)

    def on_report(self, report: IntReport) -> None:
        """Answer it, and tell."""
        if report.lost and report.echo_age_us:
            self.flow.tell(JUDGED, age_us=report.echo_age_us)
        elif report.lost and self._left_us is not None:
            self.flow.tell(JUDGED, age_us=report.now_us - self._left_us)
        super().on_report(report)
