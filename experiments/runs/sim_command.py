"""The work of `ccp simulate`: run algorithms over a simulated path, or in scenarios."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, Final

import msgspec
import pandas as pd
import typer
from rich.table import Table

from ccplane.agent import params
from ccplane.agent.algorithms import find, name_of
from experiments import statistics
from experiments.printing import console, print_json, show, shown_progress, summary
from experiments.results import Result
from experiments.run import run as run_scenario
from experiments.runs import one_path
from experiments.runs.check import SIM, is_own
from experiments.runs.figures import median
from experiments.runs.own_network import own_network
from experiments.runs.sim_order import SimOrder
from experiments.scenario import FlowSpec, Scenario
from experiments.units import MBIT
from experiments.writing import file_name

MAX_SHOWN: Final = 100
"""Maximum flows of a table of repeats."""


def run(order: SimOrder) -> None:
    """Simulate what an order describes, and print the results.

    Raises:
        CcpError: The problem, if there is one.
        Several: All problems, if there are several.
    """
    scenarios = scenarios_of(order)
    for scenario in scenarios:
        scenario.validate()
    summaries = []
    for scenario in scenarios:
        results = []
        for variant in variants_of(scenario, order):
            out = order.out
            if out is not None and len(scenarios) > 1:
                out /= file_name(scenario.name)
            if out is not None and order.repeat > 1:
                out /= f"seed-{variant.seed}"
            with shown_progress(variant) as progress:
                results.append(run_scenario(variant, out, progress=progress))
        summaries += [summary(result) for result in results]
        if order.as_json:
            continue
        if order.repeat > 1:
            _show_repeats(results)
        else:
            show(results[0])
        if out is not None:
            typer.echo(f"result: {out if order.repeat == 1 else out.parent}")
    if order.as_json:
        print_json(summaries)


def variants_of(scenario: Scenario, order: SimOrder) -> list[Scenario]:
    """Return a scenario's runs: itself, or variants whose start times and delays are drawn from seeds."""
    if order.seed is None and order.repeat == 1:
        return [scenario]
    return [own_network(scenario.replace(seed=scenario.seed + number)) for number in range(order.repeat)]


def _show_repeats(results: Sequence[Result]) -> None:
    """Print medians of repeats with their confidence intervals, a line for each flow."""
    flows = pd.concat([result.flows for result in results])
    table = Table(title=f"{results[0].name} (simulated): medians of {len(results)} runs [95% interval]")
    for heading in ("flow", "algorithm"):
        table.add_column(heading)
    for heading in ("goodput\n[not bold]Mbit/s", "retransmitted\n[not bold]%", "RTT p50\n[not bold]ms"):
        table.add_column(heading, justify="right")
    for at, own in list(flows.groupby(["flow", "algorithm"], sort=False))[:MAX_SHOWN]:
        table.add_row(
            *map(str, at),
            median(own["goodput_bytes_per_s"], 125e3, 2),
            median(own["retrans_pct"], 1, 2),
            median(own["rtt_p50_us"], 1e3, 1),
        )
    if len(results) < statistics.min_runs():
        table.caption = f"an interval needs {statistics.min_runs()} runs"
    console().print(table)


def scenarios_of(order: SimOrder) -> list[Scenario]:
    """Return the scenarios of an order.

    Raises:
        CcpError: An algorithm, parameter or scenario does not exist.
        Several: Several problems.
    """
    own = _params(order)
    if not order.scenarios:
        return [_path(order, own)]
    found = [Scenario.load(file) for file in order.scenarios]
    return [_with_algorithms(scenario, order, own) for scenario in found]


def _params(order: SimOrder) -> dict[str, dict[str, Any]]:
    """Return the parameters by the algorithm's name in the order."""
    asked = {name: find(name) for name in order.algorithms if is_own(name)}
    named = {name_of(algorithm, name): (name, algorithm) for name, algorithm in asked.items()}
    own: dict[str, dict[str, Any]] = {name: {} for name in order.algorithms}
    by_name = {name: algorithm for name, (_, algorithm) in named.items()}
    for settings in params.resolve(params.parse(order.params), by_name).values():
        for one in settings:
            own[named[one.algorithm][0]][one.parameter.name] = one.value
    return own


def _path(order: SimOrder, own: dict[str, dict[str, Any]]) -> Scenario:
    """Return a scenario of flows that share one path."""
    names = [name for name in order.algorithms for _ in range(order.flows)]
    path = one_path.direction(order.rate_mbit * MBIT, order.rtt_ms * 1000, order.buffer_bdp, order.loss)
    flows = []
    for number, name in enumerate(names, 1):
        sender, receiver = one_path.ends(len(names), number)
        ecn = is_own(name) and find(name).needs_ecn
        flows.append(FlowSpec(f"flow{number}", sender, receiver, name, own[name], ecn=ecn))
    return Scenario(
        name=f"{order.rate_mbit:g} Mbit/s, {order.rtt_ms:g} ms, a buffer of {order.buffer_bdp:g} BDP"
        + (f", {order.loss:.3g} of packets lost" if order.loss else ""),
        topology=one_path.network(len(names), path),
        flows=tuple(flows),
        duration_s=order.seconds,
        seed=1 if order.seed is None else order.seed,
        datapath=SIM,
    )


def _with_algorithms(scenario: Scenario, order: SimOrder, own: dict[str, dict[str, Any]]) -> Scenario:
    """Return a scenario whose ccplane flows run the ordered algorithms in turn.

    The kernel's flows keep their algorithms, unless all flows are the kernel's.
    """
    mine = [flow.name for flow in scenario.flows if is_own(flow.algorithm)]
    other = set(mine or (flow.name for flow in scenario.flows))
    names = itertools.cycle(order.algorithms)
    flows = []
    for flow in scenario.flows:
        if flow.name in other:
            name = next(names)
            flow = msgspec.structs.replace(flow, algorithm=name, params=own[name])
        flows.append(flow)
    seed = scenario.seed if order.seed is None else order.seed
    return scenario.replace(flows=tuple(flows), seed=seed, datapath=SIM)
