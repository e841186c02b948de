"""`ccp bench datapath`: what a flow costs under ccplane, as ratios to kernel CUBIC.

One iperf3 flow between two network namespaces, once over a bare veth pair (the machine is the limit) and once
through a token bucket of 1 Gbit/s. Each round measures every congestion control once, in turn; ratios are of
the same round. CPU is all of the machine's busy time, the agent's included.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass

from rich.progress import Progress

from experiments.agent_process import running_agent
from experiments.bench.progress import bench_progress
from experiments.bench.result import BenchResult
from experiments.netlab import CpuMeter, Path, available_congestion_controls, bottleneck, iperf3, two_hosts

KERNEL = "cubic"
OURS = "ccp."
"""What the kernel's names of ccplane's algorithms begin with."""
RATE_1GBIT_BYTES_PER_S = 125e6
BUFFER_1GBIT_BYTES = 500_000
CPU_GOAL = "<= 1.05"
RETRANSMIT_GOAL = "<= 2"


@dataclass(frozen=True, slots=True)
class Sample:
    """One transfer.

    Attributes:
        cpu_s_per_gb: Busy CPU time of the machine per 1e9 bytes received [s].
        goodput_bytes_per_s: What arrived [bytes/s].
        retransmits_pkts: Segments sent again.
    """

    cpu_s_per_gb: float
    goodput_bytes_per_s: float
    retransmits_pkts: int


def _transfer(path: Path, congestion: str, seconds: float) -> Sample:
    with CpuMeter() as meter:
        result = iperf3(path.sender, path.receiver, congestion=congestion, duration_s=max(1, round(seconds)))
    return Sample(
        meter.spent.busy_s / (result.received_bytes / 1e9),
        result.goodput_bytes_per_s,
        result.retransmits_pkts or 0,
    )


def _path(scenario: str) -> contextlib.AbstractContextManager[Path]:
    if scenario == "1gbit":
        return bottleneck(RATE_1GBIT_BYTES_PER_S, BUFFER_1GBIT_BYTES)
    return two_hosts()


def _scenario(
    result: BenchResult, scenario: str, names: Sequence[str], rounds: int, seconds: float, progress: Progress
) -> None:
    """Measure one path; `names` are kernel CUBIC, ours, and peers."""
    ours = names[1]
    samples: dict[str, list[Sample]] = {name: [] for name in names}
    task = progress.add_task(scenario, total=rounds * len(names))
    with _path(scenario) as path:
        for number in range(rounds):
            turn = names if number % 2 == 0 else list(reversed(names))
            for name in turn:
                samples[name].append(_transfer(path, name, seconds))
                progress.advance(task)
    kernel = samples[KERNEL]
    for name in names:
        if name == KERNEL:
            continue
        label = scenario if name == ours else f"{scenario}.{name}"
        goals = (CPU_GOAL, RETRANSMIT_GOAL) if name == ours else (None, None)
        pairs = list(zip(samples[name], kernel, strict=True))
        result.add(
            f"cpu_per_gb_ratio.{label}",
            [a.cpu_s_per_gb / b.cpu_s_per_gb for a, b in pairs],
            "ratio",
            goals[0],
        )
        result.add(
            f"throughput_ratio.{label}",
            [a.goodput_bytes_per_s / b.goodput_bytes_per_s for a, b in pairs],
            "ratio",
        )
        # Both may be 0, on which a ratio says nothing: one is added to either.
        ratios = [(a.retransmits_pkts + 1) / (b.retransmits_pkts + 1) for a, b in pairs]
        result.add(f"retransmit_ratio.{label}", ratios, "ratio", goals[1])
    for name in names:
        result.add(
            f"goodput_mbit_per_s.{scenario}.{name}",
            [s.goodput_bytes_per_s / 125e3 for s in samples[name]],
            "Mbit/s",
        )
        result.add(f"cpu_s_per_gb.{scenario}.{name}", [s.cpu_s_per_gb for s in samples[name]], "s/GB")
        result.add(f"retransmits.{scenario}.{name}", [s.retransmits_pkts for s in samples[name]], "segments")


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
