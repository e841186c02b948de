"""`ccp bench datapath`: what a flow costs under ccplane, as ratios to kernel CUBIC.

One iperf3 flow between two network namespaces, once over a bare veth pair (the machine is the limit) and once
through a token bucket of 1 Gbit/s. Each round measures every congestion control once, in turn; ratios are of
the same round. CPU is all of the machine's busy time, the agent's included.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from rich.progress import Progress

from experiments.agent_process import running_agent
from experiments.bench.progress import bench_progress
from experiments.bench.result import BenchResult
from experiments.bench.transfers import add_figures, add_ratios, paired, transfer
from experiments.netlab import Path, available_congestion_controls, bottleneck, two_hosts

KERNEL = "cubic"
OURS = "ccp."
"""What the kernel's names of ccplane's algorithms begin with."""
RATE_1GBIT_BYTES_PER_S = 125e6
BUFFER_1GBIT_BYTES = 500_000
CPU_GOAL = "<= 1.05"
RETRANSMIT_GOAL = "<= 2"


def _path(scenario: str) -> contextlib.AbstractContextManager[Path]:
    if scenario == "1gbit":
        return bottleneck(RATE_1GBIT_BYTES_PER_S, BUFFER_1GBIT_BYTES)
    return two_hosts()


def _scenario(
    result: BenchResult, scenario: str, names: Sequence[str], rounds: int, seconds: float, progress: Progress
) -> None:
    """Measure one path; `names` are kernel CUBIC, ours, and peers."""
    ours = names[1]
    with _path(scenario) as path:
        samples = paired(
            names, rounds, lambda name: transfer(path, name, seconds), progress=progress, title=scenario
        )
    kernel = samples[KERNEL]
    for name in names:
        if name == KERNEL:
            continue
        label = scenario if name == ours else f"{scenario}.{name}"
        goals = (CPU_GOAL, RETRANSMIT_GOAL) if name == ours else (None, None)
        add_ratios(result, label, samples[name], kernel, cpu_goal=goals[0])
        # Both may be 0, on which a ratio says nothing: one is added to either.
        pairs = zip(samples[name], kernel, strict=True)
        ratios = [(a.retransmits_pkts + 1) / (b.retransmits_pkts + 1) for a, b in pairs]
        result.add(f"retransmit_ratio.{label}", ratios, "ratio", goals[1])
    for name in names:
        add_figures(result, f"{scenario}.{name}", samples[name])


def run(
    rounds: int,
    seconds: float,
    peers: Sequence[str] = (),
    *,
    algorithm: str = "cubic",
    wakeful: bool = True,
) -> BenchResult:
    """Measure.

    Args:
        rounds: Paired rounds.
        seconds: Length of each transfer [s].
        peers: Other congestion controls of this kernel to measure along.
        algorithm: Which of ccplane's, by name.
        wakeful: Whether the agent keeps processors awake, as `ccp run` does by default.

    Returns:
        Ratios to kernel CUBIC, and the figures behind them.

    Raises:
        LoadError: If the datapath does not load.
        LabError: If a transfer fails, or a peer is not there.
    """
    result = BenchResult("datapath", rounds)
    options = [] if wakeful else ["--no-wakeful"]
    with running_agent(algorithm, *options), bench_progress() as progress:
        names = [KERNEL, f"{OURS}{algorithm}", *peers]
        missing = sorted(set(names) - set(available_congestion_controls()))
        if missing:
            raise ValueError(f"this kernel has no congestion control {', '.join(missing)}")
        for scenario in ("unlimited", "1gbit"):
            _scenario(result, scenario, names, rounds, seconds, progress)
    return result
