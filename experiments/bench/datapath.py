"""`ccp bench datapath`: what a flow costs under ccplane, as ratios to kernel CUBIC.

One iperf3 flow between two network namespaces, once over a bare veth pair (the machine is the limit) and once
through a token bucket of 1 Gbit/s. Each round measures every congestion control once; ratios are of the same
round. CPU is all of the machine's busy time, the agent's included, without processes of others.

What an ACK costs (`ack_ns`, see `ack_price.py`) is measured in rounds of their own.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Final

from ccplane.base.names import close_names
from experiments.agent_process import running_agent
from experiments.bench import ack_price
from experiments.bench.ack_price import priced_transfer
from experiments.bench.errors import BenchError
from experiments.bench.result import BenchResult
from experiments.bench.rounds import Plan, measure_rounds
from experiments.bench.transfers import Sample, add_figures, cpu_ratios, throughput_ratios, transfer
from experiments.netlab import Path, available_congestion_controls, bottleneck, two_hosts

KERNEL: Final = "cubic"
OURS: Final = "ccp."
"""What the kernel's names of ccplane's algorithms begin with."""
RATE_1GBIT_BYTES_PER_S: Final = 125e6
BUFFER_1GBIT_BYTES: Final = 500_000
GOALS: Final = ("<= 1.05", ">= 0.98", "<= 2")
"""Of CPU per GB, throughput and retransmits, each by that of kernel CUBIC."""
ACK_GOAL: Final = "<= 150"
"""Of `cubic` where nothing limits it but the machine [ns]."""
PRICE_PRECISION: Final = 0.05
"""As narrow as the interval of what an ACK costs has to be at most."""
SECONDS: Final = 4.0
"""Length of each transfer, unless told otherwise [s]."""
SCENARIOS: Final = ("unlimited", "1gbit")


def path_of(scenario: str) -> contextlib.AbstractContextManager[Path]:
    """Build the path of one of `SCENARIOS` for a block."""
    if scenario == "1gbit":
        return bottleneck(RATE_1GBIT_BYTES_PER_S, BUFFER_1GBIT_BYTES)
    return two_hosts()


def compare(result: BenchResult, scenario: str, path: Path, names: Sequence[str], seconds: float) -> None:
    """Measure congestion controls over one path.

    Args:
        result: Where to add the figures.
        scenario: The path's name.
        path: The path.
        names: Kernel CUBIC, ours, and peers.
        seconds: Length of each transfer [s].

    Raises:
        BenchError: As `measure_rounds`.
        LabError: If a transfer fails.
    """
    ours = names[1]

    def headlines(samples: Mapping[str, list[Sample]]) -> list[list[float]]:
        pair = samples[ours], samples[KERNEL]
        return [cpu_ratios(*pair), throughput_ratios(*pair)]

    measured = measure_rounds(
        names,
        lambda name, _: transfer(path, name, seconds),
        result.plan,
        title=scenario,
        headlines=headlines,
    )
    result.rounds[scenario] = measured.tally
    samples, kernel = measured.samples, measured.samples[KERNEL]
    for name in names[1:]:
        label = scenario if name == ours else f"{scenario}.{name}"
        cpu_goal, throughput_goal, again_goal = GOALS if name == ours else (None, None, None)
        result.add(f"cpu_per_gb_ratio.{label}", cpu_ratios(samples[name], kernel), "ratio", cpu_goal)
        throughput = throughput_ratios(samples[name], kernel)
        result.add(f"throughput_ratio.{label}", throughput, "ratio", throughput_goal)
        # Both may be 0, on which a ratio says nothing: one is added to either.
        pairs = zip(samples[name], kernel, strict=True)
        again = [(a.retransmits_pkts + 1) / (b.retransmits_pkts + 1) for a, b in pairs]
        result.add(f"retransmit_ratio.{label}", again, "ratio", again_goal)
    for name in names:
        add_figures(result, f"{scenario}.{name}", samples[name])


def price(result: BenchResult, scenario: str, path: Path, ours: str) -> None:
    """Measure what an ACK costs over one path.

    Args:
        result: Where to add the figures.
        scenario: The path's name.
        path: The path.
        ours: Congestion control of ccplane's.

    Raises:
        BenchError: As `measure_rounds`.
        LabError: If a transfer fails.
    """
    title = f"{scenario}.ack"
    measured = measure_rounds(
        [ours],
        lambda name, _: priced_transfer(path, name, ack_price.OURS),
        dataclasses.replace(result.plan, precision=max(result.plan.precision, PRICE_PRECISION)),
        title=title,
        headlines=lambda samples: [[one.ack_ns for one in samples[ours]]],
    )
    result.rounds[title] = measured.tally
    prices = measured.samples[ours]
    goal = ACK_GOAL if (scenario, ours) == (SCENARIOS[0], f"{OURS}cubic") else None
    result.add(f"ack_ns.{scenario}", [one.ack_ns for one in prices], "ns", goal)
    for hook in sorted({hook for one in prices for hook in one.hook_ns}):
        result.add(f"hook_ns.{scenario}.{hook}", [one.hook_ns.get(hook, 0.0) for one in prices], "ns")


def need_congestion_controls(names: Sequence[str]) -> None:
    """Look whether the kernel has them.

    Raises:
        BenchError: `bench.unknown_name`, if not.
    """
    known = available_congestion_controls()
    for name in names:
        if name not in known:
            raise BenchError(
                "bench.unknown_name",
                f"this kernel has no congestion control `{name}`",
                "net.ipv4.tcp_available_congestion_control",
                close_names(name, known, "congestion control"),
                f"`modprobe tcp_{name}`, or leave it out",
            )


def run(
    plan: Plan,
    seconds: float,
    peers: Sequence[str] = (),
    *,
    algorithm: str = "cubic",
) -> BenchResult:
    """Measure.

    Args:
        plan: How long, for each of both paths.
        seconds: Length of each transfer [s].
        peers: Other congestion controls of this kernel to measure along.
        algorithm: Which of ccplane's, by name.

    Returns:
        Ratios to kernel CUBIC, the figures behind them, and what an ACK costs.

    Raises:
        BenchError: `bench.unknown_name`, if the kernel has not got a peer, or as `measure_rounds`.
        LoadError: If the datapath does not load.
        LabError: If a transfer fails.
    """
    options = {"seconds": seconds, "peers": list(peers), "algorithm": algorithm}
    result = BenchResult("datapath", plan, options)
    ours = f"{OURS}{algorithm}"
    with running_agent(algorithm):
        names = [KERNEL, ours, *peers]
        need_congestion_controls(names)
        for scenario in SCENARIOS:
            with path_of(scenario) as path:
                compare(result, scenario, path, names, seconds)
                price(result, scenario, path, ours)
    return result
