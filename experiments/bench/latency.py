"""`ccp bench latency`: time from the ACK that makes a report until its update is in force in the kernel.

Two spans, both from the ACK. `written`: until the update lies where the kernel side reads it, which is what
ccplane takes. Without that word: until it is in force, at the next ACK, so that the path's ACK clock comes on
top: at 1 Gbit/s with segmentation offload an ACK of 64 KB comes every 0.5 ms. Idle: this flow alone. Load:
besides it, bulk flows of kernel CUBIC over another link keep every core busy.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

from agent.algorithms import prepare
from agent.plane import Plane
from agent.priority import raise_priority
from ccp_algs import Algorithm
from datapath import ebpf
from datapath.protocol import Datapath
from experiments.agent_process import PIN_DIR
from experiments.bench.progress import bench_progress
from experiments.bench.result import BenchResult
from experiments.netlab import Path, bottleneck, start_iperf3, two_hosts

RATE_BYTES_PER_S = 125e6
BUFFER_BYTES = 500_000
ROUND_S = 4
P50_GOAL = "<= 40"
P99_GOAL = "<= 250"


class Stamp(Algorithm):
    """Answers every report at once, and notes when the kernel applied the answer to the one before."""

    name = "bench_latency"
    program = """
    (def (Report (volatile acked 0)) (stamp 0))
    (when true
        (:= Report.acked (+ Report.acked Ack.bytes_acked))
        (:= Cwnd 144800)
        (fallthrough))
    (when (> Micros 1000)
        (report)
        (:= Micros 0))
    """
    datapath: ClassVar[Datapath]
    latencies_us: ClassVar[list[int]] = []
    written_us: ClassVar[list[int]] = []
    _reported_us = 0
    _letters = 0

    def on_report(self, report: Any) -> None:
        """Note the last answer's way, and answer."""
        flow_id = self.flow.info.flow_id
        stats = self.datapath.stats(flow_id)
        if stats is not None:
            # One letter since then, and no other: its time is the answer's.
            if self._reported_us and stats.mail_applied == self._letters + 1:
                self.latencies_us.append(stats.mail_applied_us - self._reported_us)
            self._letters = stats.mail_applied
        self.flow.set(stamp=report.now_us)
        self.written_us.append(time.monotonic_ns() // 1000 - report.now_us)
        self._reported_us = report.now_us


@contextlib.contextmanager
def _bulk(path: Path | None) -> Iterator[None]:
    if path is None:
        yield
        return
    with start_iperf3(path.sender, path.receiver, congestion="cubic", duration_s=ROUND_S + 4, parallel=2):
        time.sleep(0.5)
        yield


def _round(plane: Plane, path: Path, load: Path | None) -> dict[str, list[int]]:
    Stamp.latencies_us.clear()
    Stamp.written_us.clear()
    with (
        _bulk(load),
        start_iperf3(path.sender, path.receiver, congestion="ccp", duration_s=ROUND_S) as transfer,
    ):
        end_s = time.monotonic() + ROUND_S
        while time.monotonic() < end_s and transfer.running:
            plane.turn(50)
    if len(Stamp.latencies_us) < 100:
        raise RuntimeError(f"only {len(Stamp.latencies_us)} updates were measured; is the machine stalled?")
    return {"": Stamp.latencies_us, "written_": Stamp.written_us}


def run(rounds: int) -> BenchResult:
    """Measure.

    Args:
        rounds: How often, idle and under load in turn.

    Returns:
        `p50_us.idle`, `p99_us.idle`, `p50_us.load`, `p99_us.load`, over the rounds, and the same `written_`.

    Raises:
        LoadError: If the datapath does not load.
        RuntimeError: If hardly an update was applied.
    """
    result = BenchResult("latency", rounds)
    values: dict[str, list[float]] = {}
    ebpf.unload(PIN_DIR)
    datapath = ebpf.load(ebpf.LoadOptions(pin_dir=PIN_DIR, max_flows=256))
    Stamp.datapath = datapath
    try:
        plane = Plane(datapath, prepare([f"{__name__}:Stamp"], ebpf.compile_program))
        raise_priority()  # as `ccp run` does
        with (
            bottleneck(RATE_BYTES_PER_S, BUFFER_BYTES) as path,
            two_hosts() as other,
            bench_progress() as progress,
        ):
            task = progress.add_task("latency", total=2 * rounds)
            for _ in range(rounds):
                for state, load in (("idle", None), ("load", other)):
                    for span, latencies_us in _round(plane, path, load).items():
                        for percent in (50, 99):
                            value = float(np.percentile(latencies_us, percent))
                            values.setdefault(f"{span}p{percent}_us.{state}", []).append(value)
                    progress.advance(task)
    finally:
        datapath.close()
        ebpf.unload(PIN_DIR)
    for state in ("idle", "load"):
        for percent, goal in ((50, P50_GOAL), (99, P99_GOAL)):
            for span in ("", "written_"):
                name = f"{span}p{percent}_us.{state}"
                result.add(name, values[name], "us", goal)
    return result
