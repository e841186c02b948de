"""R-TCP: what it costs a server with 8,000 connections (Appendix N), in CPU time and kernel memory.

The paper has 8,000 HTTP connections, says that R-TCP keeps 250 bytes for each, and that the server is as busy
with it as without. Measured as by `ccp bench rtcp`, which says how; each connection has a client of its own.
"""

from __future__ import annotations

from typing import Any, Final

import pandas as pd

from experiments import plots
from experiments.bench import rtcp
from experiments.bench.rounds import Plan
from experiments.papers.estimates import over_runs
from experiments.papers.paper import Findings, Measurement, Part, Runs, Size, nothing_to_run
from experiments.papers.tables import Check, Table

CONNECTIONS: Final = 8_000
MOST_CPU: Final = 1.05
"""CPU time for the same bytes, by that without R-TCP: what "negligible" is taken for."""
MEMORY_MB: Final = 2.0
"""Of the kernel for 8,000 connections, as the paper has it [MB]."""
MEMORY_WITH: Final = "cubic"
"""What the claim of memory is judged with."""
_ROUND_S: Final = 240.0
_QUICK_ROUND_S: Final = 100.0


def _rounds(size: Size) -> int:
    return size.times(1, 10)


def _count(size: Size) -> int:
    return CONNECTIONS // 8 if size.quick else CONNECTIONS


def rows(size: Size) -> list[dict[str, Any]]:
    """Measure; a row for each round of each load, of each state of the detector, and of one client."""
    count, times = _count(size), _rounds(size)
    plan = Plan(times, times)
    found: list[dict[str, Any]] = []
    for load in rtcp.Load:
        pairs, _ = rtcp.measure(plan, rtcp.Clients(count, load))
        found += [{"what": "load", **row_of(pair), "connections": count} for pair in pairs]
    for state, took_ns in rtcp.core_ns(plan).samples.items():
        found += [{"what": "detector", "state": state, "ack_ns": one} for one in took_ns]
    memory = rtcp.memory_with_one_client(plan, count).samples["cubic"]
    return [*found, *({"what": "one client", "connections": count, "memory_bytes": one} for one in memory)]


def row_of(pair: rtcp.Pair) -> dict[str, Any]:
    """Return a pair as a row of the table."""
    cost = pair.cost
    return {
        "load": str(pair.load),
        "congestion": pair.congestion,
        "cpu_quotient": pair.cpu_per_gb_ratio,
        "kernel_cpu_s_per_gb": pair.kernel.cpu_s_per_gb,
        "rtcp_cpu_s_per_gb": pair.rtcp.cpu_s_per_gb,
        "kernel_goodput_bytes_per_s": pair.kernel.goodput_bytes_per_s,
        "rtcp_goodput_bytes_per_s": pair.rtcp.goodput_bytes_per_s,
        "kernel_retrans_pct": 100 * pair.kernel.retrans_ratio,
        "rtcp_retrans_pct": 100 * pair.rtcp.retrans_ratio,
        "ack_ns": cost.ack_ns,
        "rtcp_share_pct": 100 * cost.cpu_share,
        "memory_bytes": cost.memory_bytes,
        "clients": cost.clients,
        "limited": cost.limited,
    }


def _findings(runs: Runs) -> Findings:
    table = runs.table
    loads, detector, shared = (
        table[table["what"] == what].dropna(axis="columns") for what in ("load", "detector", "one client")
    )
    by = ["load", "congestion", "connections"]
    cpu = ["cpu_quotient", "kernel_cpu_s_per_gb", "rtcp_cpu_s_per_gb", "rtcp_share_pct", "ack_ns"]
    reached = [
        f"{side}_{value}" for value in ("goodput_bytes_per_s", "retrans_pct") for side in ("kernel", "rtcp")
    ]
    figure = plots.bars(
        loads,
        "cpu_quotient",
        group="load",
        by="congestion",
        title="CPU time for the same bytes, by that without R-TCP",
        subtitle=f"{CONNECTIONS:,} connections, each to a client of its own",
    )
    return Findings(
        [
            Table.of(loads, "CPU time with R-TCP", by, cpu),
            Table.of(loads, "What connections reach", by, reached),
            Table.of(loads, "Kernel memory by connection with its client", by, _MEMORY),
            Table.of(shared, "Kernel memory by connection, all to one client", ["connections"], _MEMORY[:1]),
            Table.of(detector, "The detector alone, for an ACK", ["state"], ["ack_ns"]),
        ],
        {"overhead": figure},
        claims(loads),
    )


_MEMORY: Final = ["memory_bytes", "clients", "limited"]


def claims(loads: pd.DataFrame) -> list[Check]:
    """Return what the paper says, held against measured loads: as much CPU time, and 2 MB of memory.

    Args:
        loads: Rows as of `row_of`, with `connections`.
    """
    free = loads[loads["load"] == rtcp.Load.FREE]
    checks = [
        Check(
            f"{name}: CPU time for the same bytes with R-TCP, by that without",
            over_runs(own, "cpu_quotient"),
            high=MOST_CPU,
            name=f"cpu, {name}",
        )
        for name, own in free.groupby("congestion", sort=False)
    ]
    memory = free.assign(mb=free["memory_bytes"] * CONNECTIONS / 1e6)
    return [
        *checks,
        Check(
            f"kernel memory of {CONNECTIONS:,} connections and as many clients [MB] (paper: {MEMORY_MB:g})",
            over_runs(memory[memory["congestion"] == MEMORY_WITH], "mb"),
            high=MEMORY_MB,
            name="memory",
        ),
    ]


OVERHEAD: Final = Part(
    "overhead",
    f"CPU time and memory with {CONNECTIONS:,} connections (Appendix N)",
    nothing_to_run,
    _findings,
    measurement=Measurement(rows, lambda size: _rounds(size) * (_QUICK_ROUND_S if size.quick else _ROUND_S)),
)
