"""Formulas for Reno and CUBIC under random loss: Mathis et al., Padhye et al., RFC 9438."""

from __future__ import annotations

from typing import Any, Final

from experiments import plots
from experiments.metrics import goodput_bytes_per_s, within
from experiments.papers.paper import Findings, Part, Runs, Size
from experiments.papers.published.claims import FORMULA_LOSSES, RENO
from experiments.papers.published.network import MSS_BYTES, MTU_BYTES, network
from experiments.papers.tables import Table
from experiments.papers.two_flows import LOSS_RATIO
from experiments.papers.variants import KERNEL, steered
from experiments.results import Result
from experiments.sweep import Grid
from experiments.theory import cubic_pkts, mathis_pkts, padhye_pkts_per_s
from experiments.units import MBIT

RATE_MBIT: Final = 100
RTT_US: Final = 50_000
RTO_S: Final = RTT_US / 1e6 + 0.2
"""First timeout of Linux: the RTT plus the minimum variation of 200 ms."""
SETTLED_S: Final = 10.0
"""Start of the evaluated time [s], after slow start."""


def _grids(size: Size) -> list[Grid]:
    base = network("formulas", RATE_MBIT, RTT_US, 1.0, [RENO], size.seconds(60, 120))
    axes: dict[str, Any] = {
        LOSS_RATIO: list(FORMULA_LOSSES),
        "variant": {name: steered(name) for name in (RENO, KERNEL)},
    }
    return [Grid(base, axes, size.name, size.times(6, 10))]


def row(result: Result) -> dict[str, Any]:
    """Return goodput, and its ratio to each formula, reduced by the lost packets.

    Returns:
        `loss_ratio`, `goodput_bytes_per_s`; `by_mathis_ratio` and `by_padhye_ratio` of Reno,
        `by_rfc9438_ratio` of CUBIC.
    """
    loss, rtt_s = float(result.axes[LOSS_RATIO]), RTT_US / 1e6
    goodput = float(goodput_bytes_per_s(within(result.flow_samples, SETTLED_S)).sum())
    found: dict[str, Any] = {"loss_ratio": loss, "goodput_bytes_per_s": goodput}
    goodput_pkts_per_s = goodput / MSS_BYTES
    max_pkts_per_s = RATE_MBIT * MBIT / MTU_BYTES

    def by(pkts_per_s: float) -> float:
        return goodput_pkts_per_s / min(max_pkts_per_s, (1 - loss) * pkts_per_s)

    if result.scenario.flows[0].algorithm == RENO:
        found["by_mathis_ratio"] = by(mathis_pkts(loss) / rtt_s)
        found["by_padhye_ratio"] = by(padhye_pkts_per_s(loss, rtt_s, RTO_S))
    else:
        found["by_rfc9438_ratio"] = by(cubic_pkts(loss, rtt_s) / rtt_s)
    return found


def _findings(runs: Runs) -> Findings:
    title = "One flow over 100 Mbit/s, RTT 50 ms, one BDP, compared with formulas"
    ratios = ["by_mathis_ratio", "by_padhye_ratio", "by_rfc9438_ratio"]
    table = runs.table.sort_values(["variant", "loss_ratio"], kind="stable")
    figure = plots.lines(
        table,
        "goodput_bytes_per_s",
        "loss_ratio",
        by="variant",
        log=True,
        title=title,
        subtitle="random loss",
    )
    known = [one for one in ratios if one in table]
    return Findings(
        [Table.of(table, title, ["variant", "loss_ratio"], ["goodput_bytes_per_s", *known])],
        {"formulas": figure},
    )


FORMULAS: Final = Part(
    "formulas", "Mathis, Padhye, RFC 9438: goodput under random loss", _grids, _findings, row
)
