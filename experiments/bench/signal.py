"""`ccp bench signal`: time from a receiver's signal to the changed window, through a broker.

Everything is real and in its own place: `ccp receive` on the receiving host publishes, a broker on a third
host passes on, the plane with its inbox on the sending host delivers to an algorithm, which sets the window
of a flow of iperf3. The hosts reach the broker over links of their own, not over the bottleneck.

A time begins when the receiver makes the message: the window that it measured over is over by then, and its
monotonic clock is ours, both are this machine's. `heard`: until the algorithm has it. `written`: until its
answer lies where the kernel side reads it. Without such a word: until the window is changed, at the next ACK,
as the fold program itself sees it.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path as FilePath
from typing import Any, ClassVar, Final

import numpy as np

from agent.description import Description
from agent.hearing import Hearing
from agent.inbox import Inbox
from agent.plane import Plane
from agent.priority import raise_priority
from broker.options import PORT, BusOptions
from ccp_algs import Algorithm
from experiments.agent_process import agent_here
from experiments.bench.result import BenchResult
from experiments.bench.rounds import Plan, Unfit, measure_rounds
from experiments.disturbance import disturbances_alone
from experiments.netlab import Host, Lab, Path, bottleneck, start_iperf3
from experiments.netlab.iperf import wait_until_listening
from telemetry.schema import Sample

RATE_BYTES_PER_S = 12.5e6
BUFFER_BYTES = 500_000
INTERVAL_MS = 20
BUSY_US = 50_000
GOAL: Final = "<= 10000"
"""Broker -> 99th percentile until the window is changed [us]."""

_START_S = 60.0


class Ear(Algorithm):
    """Changes the window at every signal; the program says when it did."""

    name = "bench_signal"
    program = """
    (def (Report (volatile applied_us 0)) (stamp 0) (seen 0) (target 100000))
    (when (> stamp seen)
        (:= Report.applied_us (- Ack.now stamp))
        (:= seen stamp)
        (:= Cwnd target)
        (fallthrough))
    (when (> Micros 1000)
        (report)
        (:= Micros 0))
    """
    spans_us: ClassVar[dict[str, list[int]]] = {"heard_": [], "written_": [], "": []}
    last_report_us = 0
    wide = False

    def on_report(self, report: Any) -> None:
        """Note how long the last signal was on its way."""
        self.last_report_us = report.now_us
        if report.applied_us:
            self.spans_us[""].append(report.applied_us)

    def on_telemetry(self, sample: Sample) -> None:
        """Change the window, if data flows; connections that are idle have no next ACK."""
        heard_us = time.monotonic_ns() // 1000
        if sample.kind != "receiver_signal" or heard_us - self.last_report_us > BUSY_US:
            return
        self.wide = not self.wide
        self.flow.set(target=200_000 if self.wide else 100_000, stamp=sample.sent_mono_us)
        self.spans_us["heard_"].append(heard_us - sample.sent_mono_us)
        self.spans_us["written_"].append(time.monotonic_ns() // 1000 - sample.sent_mono_us)


# --- the broker and who speaks through it -------------------------------------------------------------------


@contextlib.contextmanager
def broker_on(host: Host) -> Iterator[None]:
    """Run a broker on all addresses of a host."""
    command = [sys.executable, "-m", "broker.embedded", "--host", "0.0.0.0", "--anonymous"]
    running = host.popen([*command, "--port", str(PORT)], stdout=subprocess.DEVNULL)
    try:
        wait_until_listening(host, PORT, running)
        yield
    finally:
        running.terminate()
        running.wait()


def add_broker_host(lab: Lab, sender: Host, receiver: Host) -> tuple[Host, str, str]:
    """Return a host for a broker with links of its own to both ends, and its addresses for each."""
    host = lab.add_host("broker")
    _, for_sender = lab.connect(sender, host)
    _, for_receiver = lab.connect(receiver, host)
    return host, for_sender.ipv4, for_receiver.ipv4


@contextlib.contextmanager
def receiving(host: Host, *options: str) -> Iterator[subprocess.Popen[str]]:
    """Run `ccp receive` on a host, without output."""
    ccp = str(FilePath(sys.executable).with_name("ccp"))
    running = host.popen([ccp, "receive", "--quiet", *options])
    try:
        yield running
    finally:
        running.terminate()
        running.wait()


@contextlib.contextmanager
def listening(plane: Plane, host: Host, broker: str) -> Iterator[Hearing]:
    """Let a plane of this process hear a broker that a host can reach."""
    inbox = Inbox(BusOptions(host=broker), sender="sender", wake=plane.datapath.wake)
    hearing = Hearing(plane, inbox, "sender")
    host.call(inbox.start)  # its thread stays in the host's namespace
    try:
        yield hearing
    finally:
        inbox.stop()


# --- measuring ---------------------------------------------------------------------------------------------


def _round(path: Path, at: tuple[str, str], seconds: int) -> dict[str, list[int]]:
    for spans_us in Ear.spans_us.values():
        spans_us.clear()
    options = ["--peer", path.sender.ipv4, "--interval-ms", str(INTERVAL_MS), "--probe-ms", str(INTERVAL_MS)]
    with (
        agent_here(Description([Ear]), max_flows=256) as plane,
        listening(plane, path.sender, at[0]) as hearing,
        receiving(path.receiver, *options, "--broker", f"mqtt://{at[1]}") as receiver,
    ):
        end_s = time.monotonic() + _START_S
        while hearing.counters.samples == 0:
            plane.turn(50)
            if receiver.poll() is not None or time.monotonic() > end_s:
                raise Unfit("no signal came; `ccp receive --broker` by hand may tell why")
        with start_iperf3(path.sender, path.receiver, congestion="ccp", duration_s=seconds) as transfer:
            while transfer.running:
                plane.turn(50)
    if len(Ear.spans_us[""]) < seconds * 1000 / INTERVAL_MS / 4:
        raise Unfit(f"only {len(Ear.spans_us[''])} signals were measured in {seconds} s")
    return {span: list(spans_us) for span, spans_us in Ear.spans_us.items()}


def run(plan: Plan, seconds: int = 15) -> BenchResult:
    """Measure.

    Args:
        plan: How long.
        seconds: Length of each transfer [s].

    Returns:
        `p50_us` and `p99_us` until the window is changed; the same until the algorithm has heard (`heard_`)
        and answered (`written_`); and how many `signals` a round measured. Percentiles are of the signals of
        a round.

    Raises:
        BenchError: As `measure_rounds`.
        LoadError: If the datapath does not load.
        LabError: If the broker does not start.
    """
    result = BenchResult("signal", plan, {"seconds": seconds})
    raise_priority()  # as `ccp run` does
    with bottleneck(RATE_BYTES_PER_S, BUFFER_BYTES) as path:
        host, for_sender, for_receiver = add_broker_host(path.lab, path.sender, path.receiver)

        def measure(_way: str, _: int) -> dict[str, list[int]]:
            with broker_on(host):
                return _round(path, (for_sender, for_receiver), seconds)

        measured = measure_rounds(
            ("signal",),
            measure,
            plan,
            title="signal",
            headlines=lambda samples: [_percentiles(spans, "", 50) for spans in samples.values()],
            judge=disturbances_alone,
        )
    result.rounds["signal"] = measured.tally
    spans = measured.samples["signal"]
    for span in ("heard_", "written_", ""):
        for percent in (50, 99):
            goal = GOAL if (span, percent) == ("", 99) else None
            result.add(f"{span}p{percent}_us", _percentiles(spans, span, percent), "us", goal)
    result.add("signals", [len(one[""]) for one in spans], "signals")
    return result


def _percentiles(spans_us: Sequence[Mapping[str, list[int]]], span: str, percent: int) -> list[float]:
    """Return a percentile of each round."""
    return [float(np.percentile(one[span], percent)) for one in spans_us]
