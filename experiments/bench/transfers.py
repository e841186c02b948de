"""Transfers that benchmarks compare, in paired rounds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from rich.progress import Progress

from experiments.bench.result import BenchResult
from experiments.netlab import CpuMeter, Path, iperf3
from experiments.netlab.spec import Family


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


def transfer(path: Path, congestion: str, seconds: float, family: Family = "ipv4") -> Sample:
    """Send for so long with a congestion control, and measure.

    Raises:
        LabError: As `iperf3`.
    """
    with CpuMeter() as meter:
        result = iperf3(
            path.sender,
            path.receiver,
            congestion=congestion,
            duration_s=max(1, round(seconds)),
            family=family,
        )
    return Sample(
        meter.spent.busy_s / (result.received_bytes / 1e9),
        result.goodput_bytes_per_s,
        result.retransmits_pkts or 0,
    )


def paired(
    ways: Sequence[str], rounds: int, measure: Callable[[str], Sample], *, progress: Progress, title: str
) -> Mapping[str, list[Sample]]:
    """Measure every way once in each round, in turn; every other round the other way round."""
    samples: dict[str, list[Sample]] = {way: [] for way in ways}
    task = progress.add_task(title, total=rounds * len(ways))
    for number in range(rounds):
        for way in ways if number % 2 == 0 else reversed(ways):
            samples[way].append(measure(way))
            progress.advance(task)
    return samples


def add_ratios(
    result: BenchResult,
    label: str,
    ours: Sequence[Sample],
    base: Sequence[Sample],
    *,
    cpu_goal: str | None = None,
) -> None:
    """Add what transfers cost and reach, by those of the same rounds that they are compared with."""
    pairs = list(zip(ours, base, strict=True))
    cpu = [a.cpu_s_per_gb / b.cpu_s_per_gb for a, b in pairs]
    result.add(f"cpu_per_gb_ratio.{label}", cpu, "ratio", cpu_goal)
    goodput = [a.goodput_bytes_per_s / b.goodput_bytes_per_s for a, b in pairs]
    result.add(f"throughput_ratio.{label}", goodput, "ratio")


def add_figures(result: BenchResult, label: str, samples: Sequence[Sample]) -> None:
    """Add the figures behind ratios."""
    goodput = [one.goodput_bytes_per_s / 125e3 for one in samples]
    result.add(f"goodput_mbit_per_s.{label}", goodput, "Mbit/s")
    result.add(f"cpu_s_per_gb.{label}", [one.cpu_s_per_gb for one in samples], "s/GB")
    result.add(f"retransmits.{label}", [one.retransmits_pkts for one in samples], "segments")
