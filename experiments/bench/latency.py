"""`ccp bench latency`: time from the ACK that makes a report until its update is in force in the kernel.

Two spans, both from the ACK. `written`: until the update lies where the kernel side reads it, which is what
ccplane takes. Without that word: until it is in force, at the next ACK, as the fold program itself sees it;
the path's ACK clock comes on top. The path is a bare link, where ACKs come all the time (`1gbit`: behind
1 Gbit/s, where segmentation offload makes one ACK of 64 KB every 0.5 ms). Idle: this flow alone. Load:
besides it, bulk flows of kernel CUBIC over another link keep every core busy.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from agent.algorithms import prepare
from agent.plane import Plane
from agent.priority import raise_priority
from agent.wakeful import Wakeful
from ccp_algs import Algorithm
from datapath import ebpf
from experiments.agent_process import PIN_DIR
from experiments.bench.disturbance import disturbances_alone
from experiments.bench.result import BenchResult
from experiments.bench.rounds import Plan, Unfit, measure_rounds
from experiments.netlab import Path, bottleneck, start_iperf3, two_hosts

RATE_BYTES_PER_S = 125e6
BUFFER_BYTES = 500_000
ROUND_S = 4
LEAST_UPDATES = 100
"""Of a round, below which it has no percentiles."""
PERCENTS = (50, 99)
P50_GOAL = "<= 40"
P99_GOAL = "<= 250"


class Stamp(Algorithm):
    """Answers every report at once; the program says when it saw the answer to the one before."""

    name = "bench_latency"
    program = """
    (def (Report (volatile applied_us 0)) (stamp 0) (seen 0))
    (when (> stamp seen)
        (:= Report.applied_us (- Ack.now stamp))
        (:= seen stamp)
        (fallthrough))
    (when true
        (:= Cwnd 289600)
        (fallthrough))
    (when (> Micros 1000)
        (report)
        (:= Micros 0))
    """
    applied_us: ClassVar[list[int]] = []
    written_us: ClassVar[list[int]] = []

    def on_report(self, report: Any) -> None:
        """Answer, and note how long it took and how long the last answer was on its way."""
        self.flow.set(stamp=report.now_us)
        self.written_us.append(time.monotonic_ns() // 1000 - report.now_us)
        if report.applied_us:
            self.applied_us.append(report.applied_us)


@contextlib.contextmanager
def _bulk(path: Path | None) -> Iterator[None]:
    if path is None:
        yield
        return
    with start_iperf3(path.sender, path.receiver, congestion="cubic", duration_s=ROUND_S + 4, parallel=2):
        time.sleep(0.5)
        yield


def _round(plane: Plane, wakeful: Wakeful, path: Path, load: Path | None) -> dict[str, list[int]]:
    Stamp.applied_us.clear()
    Stamp.written_us.clear()
    with (
        _bulk(load),
        start_iperf3(path.sender, path.receiver, congestion="ccp", duration_s=ROUND_S) as transfer,
    ):
        end_s = time.monotonic() + ROUND_S
        while time.monotonic() < end_s and transfer.running:
            plane.turn(50)
            wakeful.note(plane.counters.reports)
    if len(Stamp.applied_us) < LEAST_UPDATES:
        raise Unfit(f"only {len(Stamp.applied_us)} updates were measured in {ROUND_S} s")
    return {"": list(Stamp.applied_us), "written_": list(Stamp.written_us)}


def run(plan: Plan) -> BenchResult:
    """Measure.

    Args:
        plan: How long.

    Returns:
        `p50_us.idle`, `p99_us.idle`, `p50_us.load`, `p99_us.load`; the same `written_`; and all of them
        behind 1 Gbit/s, as `*.1gbit`. Each is of the updates of a round.

    Raises:
        BenchError: As `measure_rounds`.
        LoadError: If the datapath does not load.
    """
    result = BenchResult("latency", plan)
    ebpf.unload(PIN_DIR)
    datapath = ebpf.load(ebpf.LoadOptions(pin_dir=PIN_DIR, max_flows=256))
    wakeful = Wakeful()
    try:
        plane = Plane(datapath, prepare([f"{__name__}:Stamp"], ebpf.compile_program))
        raise_priority()  # as `ccp run` does
        with (
            two_hosts() as wire,
            bottleneck(RATE_BYTES_PER_S, BUFFER_BYTES) as slow,
            two_hosts() as other,
        ):
            states = {"idle": (wire, None), "load": (wire, other), "1gbit": (slow, None)}
            measured = measure_rounds(
                tuple(states),
                lambda state, _: _round(plane, wakeful, *states[state]),
                plan,
                title="latency",
                headlines=lambda samples: [
                    _percentiles(samples["idle"], "written_", percent) for percent in PERCENTS
                ],
                judge=disturbances_alone,
            )
    finally:
        wakeful.close()
        datapath.close()
        ebpf.unload(PIN_DIR)
    result.rounds["latency"] = measured.tally
    for state, spans_us in measured.samples.items():
        for percent, goal in zip(PERCENTS, (P50_GOAL, P99_GOAL), strict=True):
            for span in ("", "written_"):
                values = _percentiles(spans_us, span, percent)
                result.add(f"{span}p{percent}_us.{state}", values, "us", None if state == "1gbit" else goal)
    return result


def _percentiles(spans_us: Sequence[Mapping[str, list[int]]], span: str, percent: int) -> list[float]:
    """Return a percentile of each round."""
    return [float(np.percentile(one[span], percent)) for one in spans_us]
