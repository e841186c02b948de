"""`ccp bench datapath`: cost of a flow under ccplane, as ratios to kernel CUBIC.

One iperf3 flow between two network namespaces, over a bare veth pair (the machine is the limit) and through a
token bucket of 1 Gbit/s. Each round measures every congestion control once; ratios compare measurements of
the same round. CPU time is the machine's busy time, including the agent, minus other processes. The time per
ACK (`ack_price.py`) is measured in its own rounds.
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
from experiments.bench.transfers import TransferSample, add_figures, cpu_ratios, throughput_ratios, transfer
from experiments.netlab import Path, available_congestion_controls, bottleneck, two_hosts

KERNEL: Final = "cubic"
OWN: Final = "ccp."
"""Prefix of ccplane's congestion controls in the kernel."""
RATE_1GBIT_BYTES_PER_S: Final = 125e6
BUFFER_1GBIT_BYTES: Final = 500_000
GOALS: Final = ("<= 1.05", ">= 0.98", "<= 2")
"""Goals for CPU per GB, throughput and retransmissions, as ratios to kernel CUBIC's."""
ACK_GOAL: Final = "<= 150"
"""Goal for the time per ACK of `cubic` over the bare link [ns]."""
PRICE_PRECISION: Final = 0.05
"""Minimum precision of the time per ACK."""
SECONDS: Final = 4.0
"""Default length of each transfer [s]."""
SCENARIOS: Final = ("unlimited", "1gbit")


def path_of(scenario: str) -> contextlib.AbstractContextManager[Path]:
    """Build the path of one of `SCENARIOS` for a block."""
    if scenario == "1gbit":
        return bottleneck(RATE_1GBIT_BYTES_PER_S, BUFFER_1GBIT_BYTES)
    return two_hosts()


def compare(result: BenchResult, scenario: str, path: Path, names: Sequence[str], seconds: float) -> None:
    """Measure congestion controls over one path.

    Raises:
        BenchError: As `measure_rounds`.
        LabError: If a transfer fails.
    """
    own = names[1]

    def headlines(samples: Mapping[str, list[TransferSample]]) -> list[list[float]]:
        pair = samples[own], samples[KERNEL]
        return [cpu_ratios(*pair), throughput_ratios(*pair)]

    measured = measure_rounds(
        names, lambda name, _: transfer(path, name, seconds), result.plan, title=scenario, headlines=headlines
    )
    result.rounds[scenario] = measured.tally
    samples, kernel = measured.samples, measured.samples[KERNEL]
    for name in names[1:]:
        label = scenario if name == own else f"{scenario}.{name}"
        cpu_goal, throughput_goal, again_goal = GOALS if name == own else (None, None, None)
        result.add(f"cpu_per_gb_ratio.{label}", cpu_ratios(samples[name], kernel), "ratio", cpu_goal)
        throughput = throughput_ratios(samples[name], kernel)
        result.add(f"throughput_ratio.{label}", throughput, "ratio", throughput_goal)
        # Adding one avoids a division by 0.
        pairs = zip(samples[name], kernel, strict=True)
        again = [(a.retransmits_pkts + 1) / (b.retransmits_pkts + 1) for a, b in pairs]
        result.add(f"retransmit_ratio.{label}", again, "ratio", again_goal)
    for name in names:
        add_figures(result, f"{scenario}.{name}", samples[name])


def price(result: BenchResult, scenario: str, path: Path, own: str) -> None:
    """Measure the time per ACK over one path.

    Raises:
        BenchError: As `measure_rounds`.
        LabError: If a transfer fails.
    """
    title = f"{scenario}.ack"
    measured = measure_rounds(
        [own],
        lambda name, _: priced_transfer(path, name, ack_price.OWN),
        dataclasses.replace(result.plan, precision=max(result.plan.precision, PRICE_PRECISION)),
        title=title,
        headlines=lambda samples: [[one.ack_ns for one in samples[own]]],
    )
    result.rounds[title] = measured.tally
    prices = measured.samples[own]
    goal = ACK_GOAL if (scenario, own) == (SCENARIOS[0], f"{OWN}cubic") else None
    result.add(f"ack_ns.{scenario}", [one.ack_ns for one in prices], "ns", goal)
    for hook in sorted({hook for one in prices for hook in one.hook_ns}):
        result.add(f"hook_ns.{scenario}.{hook}", [one.hook_ns.get(hook, 0.0) for one in prices], "ns")


def need_congestion_controls(names: Sequence[str]) -> None:
    """Check that the kernel has these congestion controls.

    Raises:
        BenchError: `bench.unknown_name`.
    """
    known = available_congestion_controls()
    for name in names:
        if name not in known:
            raise BenchError(
                "bench.unknown_name",
                f"this kernel has no congestion control `{name}`",
                "net.ipv4.tcp_available_congestion_control",
                close_names(name, known, "congestion control"),
                f"run `modprobe tcp_{name}`, or leave this congestion control out",
            )


def run(plan: Plan, seconds: float, peers: Sequence[str] = (), *, algorithm: str = "cubic") -> BenchResult:
    """Measure.

    Returns:
        Ratios to kernel CUBIC, the measurements they come from, and the time per ACK.

    Raises:
        BenchError: `bench.unknown_name`, if the kernel does not have a peer, or as `measure_rounds`.
        LoadError: If the datapath does not load.
        LabError: If a transfer fails.
    """
    options = {"seconds": seconds, "peers": list(peers), "algorithm": algorithm}
    result = BenchResult("datapath", plan, options)
    own = f"{OWN}{algorithm}"
    with running_agent(algorithm):
        names = [KERNEL, own, *peers]
        need_congestion_controls(names)
        for scenario in SCENARIOS:
            with path_of(scenario) as path:
                compare(result, scenario, path, names, seconds)
                price(result, scenario, path, own)
    return result
