"""Transfers that benchmarks compare, in paired rounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from experiments.bench.result import BenchResult
from experiments.disturbance import Watch
from experiments.netlab import Path, iperf3
from experiments.netlab.spec import Family


@dataclass(frozen=True, slots=True)
class TransferSample:
    """One transfer.

    Attributes:
        cpu_s_per_gb: Busy CPU time of the machine, minus other processes, per 1e9 bytes received [s].
        goodput_bytes_per_s: Bytes received per second [bytes/s].
        retransmits_pkts: Retransmitted segments.
    """

    cpu_s_per_gb: float
    goodput_bytes_per_s: float
    retransmits_pkts: int


def transfer(path: Path, congestion: str, seconds: float, family: Family = "ipv4") -> TransferSample:
    """Send for `seconds` with a congestion control, and measure.

    Raises:
        LabError: As `iperf3`.
    """
    with Watch() as watch:
        result = iperf3(
            path.sender,
            path.receiver,
            congestion=congestion,
            duration_s=max(1, round(seconds)),
            family=family,
        )
    return TransferSample(
        watch.seen.own_busy_s / (result.received_bytes / 1e9),
        result.goodput_bytes_per_s,
        result.retransmits_pkts or 0,
    )


def cpu_ratios(own: Sequence[TransferSample], base: Sequence[TransferSample]) -> list[float]:
    """Return ratios of the CPU time per byte to that of the base in the same round."""
    return [a.cpu_s_per_gb / b.cpu_s_per_gb for a, b in zip(own, base, strict=True)]


def throughput_ratios(own: Sequence[TransferSample], base: Sequence[TransferSample]) -> list[float]:
    """Return ratios of the goodput to that of the base in the same round."""
    return [a.goodput_bytes_per_s / b.goodput_bytes_per_s for a, b in zip(own, base, strict=True)]


def add_figures(result: BenchResult, label: str, samples: Sequence[TransferSample]) -> None:
    """Add the figures from which ratios are computed."""
    goodput = [one.goodput_bytes_per_s / 125e3 for one in samples]
    result.add(f"goodput_mbit_per_s.{label}", goodput, "Mbit/s")
    result.add(f"cpu_s_per_gb.{label}", [one.cpu_s_per_gb for one in samples], "s/GB")
    result.add(f"retransmits.{label}", [one.retransmits_pkts for one in samples], "segments")
