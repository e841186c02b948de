"""Suites of behaviour for congestion controls: `ccp conform SUITE ALGORITHM`.

    from experiments.conform import Lab, case

    @case("RFC 5681 section 3.1")
    def halves_its_window(lab: Lab) -> None:
        net = lab.path(rate_mbit=20, rtt_ms=40, buffer_bdp=1)
        ...
        lab.compare("window after the loss / before", after / before, at_most=0.75)

Cases run in the simulator, or on real sockets; nothing imports this package but those who judge algorithms.
"""

from experiments.conform.cases import Case, CaseResult, Comparison, case
from experiments.conform.lab import Lab
from experiments.conform.net import Net
from experiments.conform.running import run_suite

__all__ = ["Case", "CaseResult", "Comparison", "Lab", "Net", "case", "run_suite"]
