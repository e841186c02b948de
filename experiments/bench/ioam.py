"""`ccp bench ioam`: how many packets a second the nodes of in-band telemetry do, on one core.

Packets have a trace with room for three nodes, filled by three where it is read, a sequence number, a time
and the sender's window. What counts is the time of the processor, since others may use the machine, too.
"""

from __future__ import annotations

import time
from typing import Final

from datapath import _native
from experiments.bench.progress import bench_progress
from experiments.bench.result import BenchResult

PACKETS: Final = 500_000
"""Packets a round."""
GOAL: Final = ">= 2000000"
"""Of those who look at headers; a sink reckons, too."""
WORK: Final = ("source", "fill", "read", "sink", "remove")
"""What `_native.ioam_work` does: make headers, fill a slot, read all, do a sink's work, take headers off."""


def run(rounds: int, packets: int = PACKETS) -> BenchResult:
    """Measure.

    Args:
        rounds: How often each.
        packets: Packets a round.

    Returns:
        `NAME_per_s` for each of `WORK`.
    """
    result = BenchResult("ioam", rounds)
    rates: dict[str, list[float]] = {what: [] for what in WORK}
    with bench_progress() as progress:
        task = progress.add_task("ioam", total=rounds * len(WORK))
        for _ in range(rounds):
            for what, values in rates.items():
                start_s = time.thread_time()
                _native.ioam_work(what, packets)
                values.append(packets / (time.thread_time() - start_s))
                progress.advance(task)
    for what, values in rates.items():
        result.add(f"{what}_per_s", values, "packets/s", None if what == "sink" else GOAL)
    return result
