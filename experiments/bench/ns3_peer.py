"""`ccp bench sim --peer ns3`: the same flows here and in ns-3, their cost, and who is nearer to the kernel.

ns-3 comes as a wheel (extra `ns3`), and runs in a process of its own (`ns3_process`). There it is set up as
Linux is, where it can be: segments of 1,448 bytes, an initial window of 10, timestamps, SACK, PRR, an RTO of
at least 200 ms, delayed ACKs of 40 ms. Its timestamps have a resolution of 1 ms, and so have its RTTs.

Cost is simulated time by CPU time: in ns-3 of its event loop alone, as its start takes ten seconds; here of
the whole run, from the scenario to its tables. Goodput is in ns-3 what receivers got by the time since the
flow's start, and otherwise what was acknowledged between the first and the last sample.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pandas as pd

from experiments.bench.ns3_process import Ns3
from experiments.bench.progress import RoundsProgress
from experiments.bench.result import BenchResult
from experiments.bench.rounds import UNFIT, Plan, Tally
from experiments.disturbance import Watch
from experiments.netlab.spec import Buffer, Direction, DropTail
from experiments.run import run as run_scenario
from experiments.runs.check import SIM
from experiments.runs.shapes import Dumbbell
from experiments.scenario import KERNEL as OF_KERNEL
from experiments.scenario import Scenario
from experiments.units import MBIT
from experiments.validation import rules
from experiments.validation.cases import dumbbell, in_round
from experiments.validation.comparison import KERNEL, row_of

NS3: Final = "ns3"
SIDES: Final = ("kernel", "ccplane", NS3)
TYPES: Final = {
    "kernel/cubic": "ns3::TcpCubic",
    "kernel/reno": "ns3::TcpLinuxReno",
    "kernel/bbr": "ns3::TcpBbr",
    "dctcp": "ns3::TcpDctcp",
}
"""Congestion control of a flow -> its type in ns-3."""

FIGURES: Final = {
    "goodput": ("goodput_bytes_per_s", 8e-6, "Mbit/s"),
    "rtt_p50": ("rtt_p50_us", 1e-3, "ms"),
    "rtt_p95": ("rtt_p95_us", 1e-3, "ms"),
    "retrans": ("retrans_pkts", 1.0, "packets"),
}
"""Name of a figure -> column of a run's row, its factor, its unit."""

_SECONDS: Final = 10.0
_PACKET_BYTES: Final = 1500


def _case(
    name: str, rate_mbit: float, rtt_ms: float, packets: int, *algorithms: str, mark_pkts: int | None = None
) -> Scenario:
    queue = DropTail(ce_threshold_bytes=mark_pkts * _PACKET_BYTES if mark_pkts else None)
    bottleneck = Direction(
        rate_bytes_per_s=rate_mbit * MBIT,
        delay_us=round(rtt_ms * 500),
        buffer=Buffer(packets=packets),
        queue=queue,
    )
    return dumbbell(name, bottleneck, algorithms, seconds=_SECONDS, ecn=mark_pkts is not None)


CASES: Final = {
    one.name: one
    for one in (
        _case("cubic-100", 100, 50, 417, "kernel/cubic"),
        _case("reno-20", 20, 40, 67, "kernel/reno"),
        _case("bbr-20", 20, 40, 133, "kernel/bbr"),
        _case("two-cubic-20", 20, 40, 67, "kernel/cubic", "kernel/cubic"),
        _case("cubic-bbr-20", 20, 40, 133, "kernel/cubic", "kernel/bbr"),
        _case("dctcp-100", 100, 10, 200, "dctcp", mark_pkts=20),
    )
}
"""Name -> scenario of its first round. DCTCP is ccplane's: the simulator has none of the kernel's."""


def run(plan: Plan, *, beside_kernel: bool) -> BenchResult:
    """Measure.

    Args:
        plan: How many rounds: as many as `plan.rounds`. Of the kernel's runs that do not count,
            `plan.max_rounds` are repeated.
        beside_kernel: Whether the kernel runs those of its own congestion controls, too (needs root).

    Returns:
        For each of `CASES` `simulated_ratio.CASE.SIDE`, simulated time by CPU time, and for each of `FIGURES`
        `FIGURE.CASE.SIDE`, of the flows together.

    Raises:
        LoadError: `load.no_extra`, if there is no ns-3.
        BenchError: `bench.peer_failed`, if a run of ns-3 fails, or none of the kernel's counts.
    """
    result = BenchResult(f"sim-{NS3}", plan, {"beside_kernel": beside_kernel})
    values: dict[str, list[float]] = {}
    tally = Tally(stopped="max_rounds")
    sides = SIDES if beside_kernel else SIDES[1:]
    with Ns3() as ns3, RoundsProgress(result.name, plan.rounds) as progress:
        for number in range(1, plan.rounds + 1):
            with Watch() as watch:
                _round(number, sides, ns3, values, tally, plan.max_rounds)
            tally.taken_ratio = max(tally.taken_ratio, watch.seen.taken_ratio)
            tally.counted = number
            progress.show(tally.counted, tally.disturbed)
    result.rounds[result.name] = tally
    for metric in (f"{figure}.{name}.{side}" for name in CASES for figure in _figures() for side in sides):
        if metric in values:
            result.add(metric, values[metric], _figures()[metric.partition(".")[0]])
    return result


def _round(
    number: int,
    sides: Sequence[str],
    ns3: Ns3,
    values: dict[str, list[float]],
    tally: Tally,
    most_disturbed: int,
) -> None:
    for name, first in CASES.items():
        for side in sides if _is_kernels(first) else SIDES[1:]:
            while (found := measured(side, in_round(first, number), ns3)) is None:
                tally.disturbed += 1
                tally.causes[UNFIT] += 1
                if tally.disturbed > most_disturbed:
                    break
            for figure, value in (found or {}).items():
                values.setdefault(f"{figure}.{name}.{side}", []).append(value)


def _is_kernels(scenario: Scenario) -> bool:
    """Return whether the kernel's own congestion controls are all that it takes."""
    return all(flow.algorithm.startswith(OF_KERNEL) for flow in scenario.flows)


def _figures() -> dict[str, str]:
    return {"simulated_ratio": "ratio", **{name: unit for name, (_, _, unit) in FIGURES.items()}}


def measured(side: str, scenario: Scenario, ns3: Ns3) -> dict[str, float] | None:
    """Run a scenario on one side.

    Returns:
        Figure -> value; None for a run of the kernel that does not count (`experiments.validation.rules`).
    """
    if side == NS3:
        plan = plan_of(scenario)
        return figures_of(plan, ns3.run(plan))
    begin_s = time.process_time()
    done = run_scenario(scenario, datapath=SIM if side == "ccplane" else KERNEL)
    cpu_s = time.process_time() - begin_s
    row = row_of(done)
    if rules.reason(pd.Series(row)) is not None:
        return None
    found = {name: float(row[column] * factor) for name, (column, factor, _) in FIGURES.items()}
    return found if side == "kernel" else {"simulated_ratio": scenario.duration_s / cpu_s} | found


# --- ns-3 --------------------------------------------------------------------------------------------------


def plan_of(scenario: Scenario) -> dict[str, Any]:
    """Return a scenario as `ns3_run.py` reads it.

    Args:
        scenario: Of `CASES`.
    """
    assert isinstance(scenario.topology, Dumbbell)
    bottleneck = scenario.topology.bottleneck
    assert isinstance(bottleneck.queue, DropTail)
    assert bottleneck.buffer is not None
    return {
        "rate_bytes_per_s": bottleneck.rate_bytes_per_s,
        "delay_us": float(bottleneck.delay_us),
        "buffer_pkts": bottleneck.buffer.packets,
        "mark_pkts": (bottleneck.queue.ce_threshold_bytes or 0) // _PACKET_BYTES,
        "duration_s": scenario.duration_s,
        "sample_s": scenario.sample_interval_us / 1e6,
        "seed": scenario.seed,
        "flows": [{"algorithm": TYPES[flow.algorithm], "start_s": flow.start_s} for flow in scenario.flows],
    }


def figures_of(plan: Mapping[str, Any], told: Mapping[str, Any]) -> dict[str, float]:
    """Return what a run of ns-3 comes to.

    Args:
        plan: As of `plan_of`.
        told: As of `ns3_run.run`.

    Returns:
        Figure -> value, in the units of `FIGURES`: percentiles are means over the flows.
    """
    flows = told["flows"]
    goodputs = [
        flow["received_bytes"] / (plan["duration_s"] - planned["start_s"])
        for flow, planned in zip(flows, plan["flows"], strict=True)
    ]
    rtts_us = [
        np.quantile(flow["rtts_us"], (0.5, 0.95)) if flow["rtts_us"] else (math.nan, math.nan)
        for flow in flows
    ]
    values = {
        "goodput_bytes_per_s": sum(goodputs),
        "rtt_p50_us": float(np.mean([median for median, _ in rtts_us])),
        "rtt_p95_us": float(np.mean([high for _, high in rtts_us])),
        "retrans_pkts": float(sum(flow["retrans_pkts"] for flow in flows)),
    }
    found = {name: values[column] * factor for name, (column, factor, _) in FIGURES.items()}
    return {"simulated_ratio": plan["duration_s"] / told["cpu_s"]} | found
