"""Base of algorithms that consist of a fold program only: Python hands it the parameters."""

from __future__ import annotations

from ccp_algs.api import Algorithm, FlowInfo
from ccp_algs.episodes import STARTED, LossReport, report_interval_us
from ccp_algs.params import Param
from ccp_algs.reduction import prr_param, prr_register


class Configured(Algorithm):
    """Sets the registers that parameters determine, and sets them again whenever the fold program restarts.

    Attributes:
        report_ms: To be declared by the algorithm, after its other parameters.
    """

    report_ms: Param[float]
    prr = prr_param()

    def on_create(self, info: FlowInfo) -> None:
        """Hand the parameters to the fold program."""
        self._configure()

    def on_report(self, report: LossReport) -> None:
        """Hand the parameters over again after a restart of the program."""
        if report.event == STARTED:
            self._configure()

    def on_params(self, names: frozenset[str]) -> None:
        """Hand the changed parameters to the fold program."""
        self._configure()

    def registers(self) -> dict[str, int]:
        """Return the registers that parameters determine."""
        return {
            "configured": 1,
            "prr": prr_register(self.prr),
            "report_us": report_interval_us(self.report_ms),
        }

    def _configure(self) -> None:
        self.flow.set(**self.registers())
