"""Hyvar: algorithms, paths, and the row of a run.

One flow sends for the whole run. Delay is the mean of the kernel's smoothed RTT. The agent's CPU time is the
user and system time of its process, per time in which it served flows.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import pandas as pd

from experiments.events import ParamValue
from experiments.metrics import NAN, within
from experiments.netlab.cellular import Cellular
from experiments.netlab.spec import Buffer, Direction
from experiments.papers.hyvar.claims import BBR, HYBRID, HYVAR, POLICY
from experiments.papers.kept_traces import trace_file
from experiments.papers.tables import figures_of
from experiments.papers.variants import KERNEL
from experiments.results import Result
from experiments.runs.shapes import Dumbbell
from experiments.scenario import FlowSpec, Scenario

ALGORITHMS: Final = (HYVAR, HYBRID, POLICY, KERNEL, BBR)

_REWARDED: Final[Mapping[str, ParamValue]] = MappingProxyType({"policy_file": "slides"})
SLIDES_PARAMS: Final[Mapping[str, Mapping[str, ParamValue]]] = MappingProxyType(
    {
        HYVAR: {**_REWARDED, "trains": False, "loss_price": 0.0, "thr_window_rtts": 1e9},
        HYBRID: _REWARDED,
        POLICY: _REWARDED,
    }
)
"""Parameters without ccplane's additions: the slides' reward, no packet trains, no price of losses, and the
maximum throughput of the whole flow."""

VALUES: Final = ("throughput_bytes_per_s", "delay_us", "rtt_p95_us", "retrans_pct")
"""Columns that `came_to` returns in every part."""

CLAIMED: Final = Direction(rate_bytes_per_s=6e6, delay_us=15_000, buffer=Buffer(bdp=1.0))
"""The path of the slides: 48 Mbit/s, 30 ms, 1 BDP."""

INITIAL_S: Final = 2.0
"""Length of the initial phase, in which, according to the slides, rates fluctuate [s]."""

_TRACE_S: Final = 60.0
_CELL_DELAY_US: Final = 20_000
_CELL_BUFFER: Final = Buffer(packets=250)

CELLS: Final[Mapping[str, tuple[Cellular, int]]] = MappingProxyType(
    {
        "cellular-1": (Cellular(mean_bytes_per_s=1.5e6, variation_ratio=0.5, outage_every_s=None), 1),
        "cellular-2": (Cellular(), 2),
    }
)
"""Distribution and seed of the cellular paths: a good one, and one that varies like LTE recordings."""
_BETWEEN_ROUNDS: Final = 100
"""Difference between the seeds of two rounds' traces."""


def cell(trace: Path) -> Direction:
    """Return a path with the opportunities of a Mahimahi trace."""
    return Direction(trace=str(trace), delay_us=_CELL_DELAY_US, buffer=_CELL_BUFFER)


def drawn(name: str, number: int = 0) -> Path:
    """Return the trace file of a path of `CELLS` in a round; write the file if it is missing."""
    link, seed = CELLS[name]
    return trace_file(f"hyvar-{name}-{number}", link, _TRACE_S, seed + _BETWEEN_ROUNDS * number)


def paths(number: int = 0) -> dict[str, Direction]:
    """Return two wired and two cellular paths of a round, by name."""
    return {
        "wired-1": Direction(rate_bytes_per_s=6e6, delay_us=10_000, buffer=Buffer(bdp=2.0)),
        "wired-2": Direction(rate_bytes_per_s=12.5e6, delay_us=30_000, buffer=Buffer(bdp=0.5)),
        **{name: cell(drawn(name, number)) for name in CELLS},
    }


def one_flow(name: str, path: Direction, duration_s: float) -> Scenario:
    """Return a scenario with one flow; the reverse direction has the same delay and no queue."""
    back = Direction(delay_us=path.delay_us)
    return Scenario(
        name=f"hyvar: {name}",
        topology=Dumbbell(pairs=1, bottleneck=path, backward=back),
        flows=(FlowSpec("flow", "s1", "r1", HYVAR),),
        duration_s=duration_s,
    )


def came_to(result: Result) -> dict[str, Any]:
    """Return the conditions and figures of a run.

    Returns:
        `algorithm` and its parameters; the columns of `figures_of`; `delay_us`, mean smoothed RTT;
        `fluctuation_ratio`, mean difference between the sending rates of successive tenths of a second,
        divided by their mean, over the initial phase; `reports_per_s` to the agent; `agent_cpu_pct`, its CPU
        time, 100 is one processor. The last two are NaN without an agent, CPU time also in the simulator.
    """
    flow = result.scenario.flows[0]
    agent = result.metadata.get("agent") or {}
    served_us = agent.get("serving_us", NAN)
    return {
        "algorithm": flow.algorithm,
        **flow.params,
        **figures_of(result),
        "delay_us": float(result.flows["srtt_mean_us"].mean()),
        "fluctuation_ratio": _fluctuation_ratio(result.flow_samples),
        "reports_per_s": agent.get("reports", NAN) / result.scenario.duration_s,
        "agent_cpu_pct": 100 * agent.get("cpu_us", NAN) / served_us,
    }


def _fluctuation_ratio(samples: pd.DataFrame) -> float:
    early = within(samples, 0, INITIAL_S)
    rates = early["bytes_sent"].diff() / early["t_s"].diff()
    return float(rates.diff().abs().mean() / rates.mean()) if len(rates) > 2 else NAN
