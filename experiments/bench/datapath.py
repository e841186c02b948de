"""`ccp bench datapath`: what a flow costs under ccplane, as ratios to kernel CUBIC.

One iperf3 flow between two network namespaces, once over a bare veth pair (the machine is the limit) and once
through a token bucket of 1 Gbit/s. Each round measures every congestion control once; ratios are of the same
round. CPU is all of the machine's busy time, the agent's included, without processes of others.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Final

from datapath.errors import close_names
from experiments.agent_process import running_agent
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
SCENARIOS: Final = ("unlimited", "1gbit")


def path_of(scenario: str) -> contextlib.AbstractContextManager[Path]:
    """Build the path of one of `SCENARIOS` for a block."""
    if scenario == "1gbit":
        return bottleneck(RATE_1GBIT_BYTES_PER_S, BUFFER_1GBIT_BYTES)
    return two_hosts()


def _scenario(result: BenchResult, scenario: str, names: Sequence[str], seconds: float) -> None:
    """Measure one path; `names` are kernel CUBIC, ours, and peers."""
    ours = names[1]

    def headlines(samples: Mapping[str, list[Sample]]) -> list[list[float]]:
        pair = samples[ours], samples[KERNEL]
        return [cpu_ratios(*pair), throughput_ratios(*pair)]

    with path_of(scenario) as path:
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


def run(
    plan: Plan,
    seconds: float,
    peers: Sequence[str] = (),
    *,
    algorithm: str = "cubic",
    wakeful: bool = True,
) -> BenchResult:
    """Measure.

    Args:
        plan: How long, for each of both paths.
        seconds: Length of each transfer [s].
        peers: Other congestion controls of this kernel to measure along.
        algorithm: Which of ccplane's, by name.
        wakeful: Whether the agent keeps processors awake, as `ccp run` does by default.

    Returns:
        Ratios to kernel CUBIC, and the figures behind them.

    Raises:
        BenchError: `bench.unknown_name`, if the kernel has not got a peer, or as `measure_rounds`.
        LoadError: If the datapath does not load.
        LabError: If a transfer fails.
    """
    options = {"seconds": seconds, "peers": list(peers), "algorithm": algorithm, "wakeful": wakeful}
    result = BenchResult("datapath", plan, options)
    with running_agent(algorithm, *([] if wakeful else ["--no-wakeful"])):
        names = [KERNEL, f"{OURS}{algorithm}", *peers]
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
        for scenario in SCENARIOS:
            _scenario(result, scenario, names, seconds)
    return result
