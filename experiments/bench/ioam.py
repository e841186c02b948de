"""`ccp bench ioam`: how many packets a second the nodes of in-band telemetry do, on one core.

Packets have a trace with room for three nodes, filled by three where it is read, a sequence number, a time
and the sender's window. What counts is the time of the processor, since others may use the machine, too.
"""

from __future__ import annotations

import time
from typing import Final

from ccplane.base import _native
from experiments.bench.result import BenchResult
from experiments.bench.rounds import Plan, measure_rounds
from experiments.disturbance import disturbances_alone

PACKETS: Final = 500_000
"""Packets a round."""
GOAL: Final = ">= 2000000"
"""Of those who look at headers; a sink reckons, too."""
WORK: Final = ("source", "fill", "read", "sink", "remove")
"""What `_native.ioam_work` does: make headers, fill a slot, read all, do a sink's work, take headers off."""


def run(plan: Plan, packets: int = PACKETS) -> BenchResult:
    """Measure.

    Args:
        plan: How long.
        packets: Packets of each kind of work in a round.

    Returns:
        `NAME_per_s` for each of `WORK`.

    Raises:
        BenchError: As `measure_rounds`.
    """

    def measure(what: str, _: int) -> float:
        start_s = time.thread_time()
        _native.ioam_work(what, packets)
        return packets / (time.thread_time() - start_s)

    result = BenchResult("ioam", plan, {"packets": packets})
    measured = measure_rounds(
        WORK,
        measure,
        plan,
        title="ioam",
        headlines=lambda samples: samples.values(),
        judge=disturbances_alone,
    )
    result.rounds["ioam"] = measured.tally
    for what, rates in measured.samples.items():
        result.add(f"{what}_per_s", rates, "packets/s", None if what == "sink" else GOAL)
    return result
