"""A flow with R-TCP and a flow without R-TCP, to one client behind one limiter (Figure 22)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

import pandas as pd

from experiments import plots
from experiments.metrics import goodput_bytes_per_s, jain_index, within
from experiments.papers.paper import Findings, Part, Runs, Size
from experiments.papers.r_tcp.download import MB
from experiments.papers.r_tcp.operators import OPERATORS, Pair, download, side_by_side
from experiments.papers.r_tcp.runs import BBR, LIMITED_BY, R_BBR, R_CUBIC, apart, conditions, name_of
from experiments.papers.tables import Table
from experiments.papers.variants import KERNEL
from experiments.plots import Plot, label
from experiments.results import Result
from experiments.scenario import Scenario
from experiments.sweep import Grid

LATER_S: Final = 10.0
"""Delay of the second flow [s]."""
SHARED_S: Final = (12.0, 18.0)
"""Evaluated time [s]: both flows have settled, and neither has ended."""
SIZE_BYTES: Final = 4 * MB
APART_S: Final = 1.0
DURATION_S: Final = 45.0

ORDERS: Final = (
    (BBR, R_BBR),
    (R_BBR, BBR),
    (BBR, BBR),
    (KERNEL, R_CUBIC),
    (R_CUBIC, KERNEL),
    (KERNEL, KERNEL),
)
"""First and second algorithm; the pairs without R-TCP are for comparison."""


def joined(name: str, numbers: Sequence[int]) -> Scenario:
    """Return a run of pairs of flows to one client of operator 1, for each order and limiter."""
    pairs: list[Pair] = []
    for number in numbers:
        for order in ORDERS:
            start_s = APART_S * len(pairs)
            flows = [
                download(
                    name_of("op1", number, algorithm, ORDERS.index(order), place),
                    algorithm,
                    SIZE_BYTES,
                    start_s=start_s + place * LATER_S,
                )
                for place, algorithm in enumerate(order)
            ]
            pairs.append(OPERATORS["op1"].pair(number, flows, 0.0))
    return side_by_side(name, pairs, APART_S * len(pairs) + DURATION_S, seed=numbers[0])


def shares(result: Result) -> pd.DataFrame:
    """Return a row for each pair: `order`, `share_of_first_ratio` of the goodput, and `jain_index`."""
    rows = []
    flows = result.scenario.flows
    for first, second in zip(flows[::2], flows[1::2], strict=True):
        together = within(result.flow_samples, *(first.start_s + at_s for at_s in SHARED_S))
        goodput = goodput_bytes_per_s(together).reindex([first.name, second.name])
        rows.append(
            {
                "order": f"{label(first.algorithm)}, then {label(second.algorithm)}",
                "share_of_first_ratio": goodput.iloc[0] / goodput.sum(skipna=False),
                "jain_index": jain_index(goodput),
            }
        )
    return pd.DataFrame(rows)


def _grids(size: Size) -> list[Grid]:
    return apart(size.name, size.times(6, 10), partial(joined, "R-TCP: fairness"))


def _findings(runs: Runs) -> Findings:
    values = ["share_of_first_ratio", "jain_index"]
    return Findings(
        [Table.of(runs.rows(shares), "Two flows to one client", ["order"], values)],
        {
            f"figure-22-{place}": over_time(runs.results[0], place)
            for place, order in enumerate(ORDERS)
            if set(order) & {*LIMITED_BY.values()}
        },
    )


def over_time(result: Result, place: int) -> Plot:
    """Return goodput over time of the first pair with an order, by its place in `ORDERS`."""
    flows = result.scenario.flows[2 * place : 2 * place + 2]
    own = result.flow_samples[result.flow_samples["flow"].isin([flow.name for flow in flows])]
    return plots.time_series(
        own.assign(t_s=own["t_s"] - flows[0].start_s),
        pd.DataFrame([{"flow": flow.name, "algorithm": flow.algorithm} for flow in flows]),
        panels=("goodput_bytes_per_s",),
        goodput_interval_s=0.5,
        title=f"{label(flows[0].algorithm)}, then {label(flows[1].algorithm)}",
        subtitle="4 MB each to one client of operator 1, the second from 10 s on",
    )


FAIRNESS: Final = Part(
    "fairness",
    "Figure 22: flows with and without R-TCP to one client",
    _grids,
    _findings,
    conditions,
    compared=lambda runs: runs.rows(shares),
)
