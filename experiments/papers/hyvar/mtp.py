"""Hyvar: effect of the initial MTP, compared with hybrids that have a fixed MTP."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pandas as pd

from experiments import plots
from experiments.papers.estimates import less, of_pairs
from experiments.papers.hyvar.claims import (
    CLAIM_CPU,
    CLAIM_DELAY,
    CLAIM_THROUGHPUT,
    CPU,
    CPU_OVER_IDLE,
    DELAY,
    HYBRID,
    HYVAR,
    MTPS_MS,
    THROUGHPUT,
)
from experiments.papers.hyvar.runs import CLAIMED, VALUES, came_to, one_flow
from experiments.papers.paper import Findings, Part, Runs, Size
from experiments.papers.tables import Check, Table
from experiments.papers.variants import rounds, steered
from experiments.results import Result
from experiments.sweep import Grid

IDLE: Final = "idle"
IDLE_MTP_MS: Final = 60_000
"""An MTP longer than any run, so that only CUBIC acts and the agent receives only losses."""

_COSTLY_MS: Final = 10


def _grids(size: Size) -> list[Grid]:
    mtps: Sequence[int] = (_COSTLY_MS, 50, 200) if size.quick else MTPS_MS
    points = {
        f"{algorithm} {mtp_ms} ms": steered(algorithm, mtp_ms=float(mtp_ms))
        for mtp_ms in mtps
        for algorithm in (HYVAR, HYBRID)
    }
    points[IDLE] = steered(HYBRID, mtp_ms=float(IDLE_MTP_MS))
    base = one_flow("MTP", CLAIMED, size.seconds(6, 15))
    return rounds(base, size.name, size.times(6, 10), "variant", points)


def row(result: Result) -> dict[str, Any]:
    """Return the conditions and figures of a run; `algorithm` is `IDLE` for the idle agent."""
    found = came_to(result)
    if found["mtp_ms"] == IDLE_MTP_MS:
        found["algorithm"] = IDLE
    return found


def _findings(runs: Runs) -> Findings:
    table = runs.table.sort_values(["algorithm", "mtp_ms"], kind="stable")
    compared = table[table["algorithm"] != IDLE]
    values = [*VALUES, "fluctuation_ratio", "reports_per_s", "agent_cpu_pct"]
    drawn = {
        "mtp-throughput": ("throughput_bytes_per_s", "Throughput"),
        "mtp-delay": ("delay_us", "Delay"),
        "mtp-reports": ("reports_per_s", "Reports"),
        "mtp-cpu": ("agent_cpu_pct", "CPU time of the agent"),
    }
    return Findings(
        [Table.of(table, "48 Mbit/s, 30 ms, 1 BDP", ["algorithm", "mtp_ms"], values)],
        {
            name: plots.lines(compared, column, "mtp_ms", title=f"{what} by (initial) MTP")
            for name, (column, what) in drawn.items()
            if compared[column].notna().any()
        },
        checks(table),
    )


def checks(table: pd.DataFrame) -> list[Check]:
    """Check the slides' claims."""

    def of(algorithm: str, mtp_ms: float, column: str) -> pd.Series:
        own = table[(table["algorithm"] == algorithm) & (table["mtp_ms"] == mtp_ms)]
        return own.set_index("seed")[column].astype(float)

    fixed = table[table["algorithm"] == HYBRID].groupby("mtp_ms")[["throughput_bytes_per_s", "delay_us"]]
    medians = fixed.median()
    if medians.empty:
        return []
    best_ms = float(medians.index[int((medians["throughput_bytes_per_s"] / medians["delay_us"]).argmax())])
    fastest_ms = float(medians.index[int(medians["throughput_bytes_per_s"].argmax())])
    idle_pct = of(IDLE, IDLE_MTP_MS, "agent_cpu_pct")
    costly_pct = of(HYBRID, _COSTLY_MS, "agent_cpu_pct")
    found = []
    for mtp_ms in sorted(table.loc[table["algorithm"] == HYVAR, "mtp_ms"].unique()):
        at, behind = f"from an initial MTP of {mtp_ms:g} ms", f"-{mtp_ms:g}"
        own_pct = of(HYVAR, mtp_ms, "agent_cpu_pct")
        found += [
            Check(
                f"ratio of Hyvar's throughput {at} to the highest with a fixed MTP ({fastest_ms:g} ms)",
                of_pairs(
                    of(HYVAR, mtp_ms, "throughput_bytes_per_s"),
                    of(HYBRID, fastest_ms, "throughput_bytes_per_s"),
                ),
                low=CLAIM_THROUGHPUT,
                name=THROUGHPUT + behind,
            ),
            Check(
                f"ratio of Hyvar's delay {at} to the best fixed MTP's ({best_ms:g} ms by throughput / delay)",
                of_pairs(of(HYVAR, mtp_ms, "delay_us"), of(HYBRID, best_ms, "delay_us")),
                high=CLAIM_DELAY,
                name=DELAY + behind,
            ),
            Check(
                f"share of the CPU time at a fixed MTP of {_COSTLY_MS} ms that Hyvar saves {at}",
                less(1, of_pairs(own_pct, costly_pct)),
                low=CLAIM_CPU,
                name=CPU + behind,
            ),
            Check(
                f"share of the CPU time at a fixed MTP of {_COSTLY_MS} ms that Hyvar saves {at}, minus idle",
                less(1, of_pairs(own_pct - idle_pct, costly_pct - idle_pct)),
                low=CLAIM_CPU,
                name=CPU_OVER_IDLE + behind,
            ),
        ]
    return found


MTP: Final = Part("mtp", "the (initial) MTP: throughput, delay, CPU time", _grids, _findings, row)
