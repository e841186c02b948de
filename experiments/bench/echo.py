"""`ccp bench echo`: how old in-band telemetry is at a decision, by echoes in ACKs and by a broker.

Both ways at once, for one flow of iperf3 over the emulator: sinks echo, and publish summaries of 10 ms, which
a process on the receiving host gives to a broker on a third host, and the plane with its inbox on
the sending host to the algorithm. Each ACK is a decision. `echo`: from when the packet left this host that
the echo is of until the ACK, where the fold decides. `broker`: from when the last packet left that the newest
summary has, until the algorithm in Python has the ACK's report. The window is fixed: without a queue, or with
one of 13 ms.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final

import numpy as np

from agent.description import Description
from agent.plane import Plane
from agent.priority import raise_priority
from broker.options import PORT
from ccp_algs import Algorithm
from experiments.agent_process import PIN_DIR, agent_here
from experiments.bench.result import BenchResult
from experiments.bench.rounds import Plan, Unfit, measure_rounds
from experiments.bench.signal import add_broker_host, broker_on, listening
from experiments.disturbance import disturbances_alone
from experiments.netlab import start_iperf3
from experiments.netlab.emulated import EmulatedNetwork, emulated
from experiments.netlab.spec import Buffer, Direction, Int, IntNode, Link, Topology
from telemetry.schema import IntSummary, Sample

WINDOWS_BYTES: Final = {"empty": 20_000, "queue": 60_000}
"""State of the bottleneck's queue -> the flow's window; its rate times the path's 10 ms are 25,000."""
WAYS: Final = ("echo", "broker")
RATE_BYTES_PER_S: Final = 2.5e6
PERCENTS: Final = (50, 99)
_LEAST_DECISIONS: Final = 200
_START_S: Final = 60
_NOBODY: Final = 2**64 - 1

WIRED: Final = Direction(rate_bytes_per_s=RATE_BYTES_PER_S, delay_us=4_000, buffer=Buffer(packets=100))
TOPOLOGY: Final = Topology(
    hosts=("sender", "receiver"),
    routers=("left", "right"),
    links=(
        Link("near", "sender", "left", Direction(delay_us=500)),
        Link("middle", "left", "right", WIRED),
        Link("far", "right", "receiver", Direction(delay_us=500)),
    ),
    telemetry=Int(
        nodes=(
            IntNode("sender", ("source",)),
            IntNode("left", ("transit",)),
            IntNode("right", ("transit",)),
            IntNode("receiver", ("sink",)),
        ),
        echo=True,
    ),
)

Ages = dict[str, list[int]]
"""Way -> ages of a round [us]."""


class Ear(Algorithm):
    """Notes at each ACK how old the telemetry is that it has."""

    name = "bench_echo"
    program = """
    (def (Report (age 0)) (target 20000))
    (when true
        (:= Report.age Int.age_us)
        (:= Cwnd target)
        (report))
    """
    window_bytes: ClassVar[int] = 0
    ages_us: ClassVar[Ages] = {way: [] for way in WAYS}
    left_us: int | None = None

    def on_create(self, info: Any) -> None:
        """Set the window."""
        self.flow.set(target=self.window_bytes)

    def on_report(self, report: Any) -> None:
        """Decide."""
        if self.left_us is not None and report.age != _NOBODY:
            self.ages_us["echo"].append(report.age)
            self.ages_us["broker"].append(time.monotonic_ns() // 1000 - self.left_us)

    def on_telemetry(self, sample: Sample) -> None:
        """Hear when the last packet of a summary left."""
        if isinstance(sample.body, IntSummary) and sample.body.end_mono_us is not None:
            self.left_us = sample.body.end_mono_us - (sample.body.latency_us or 0)


@contextlib.contextmanager
def _published() -> Iterator[tuple[EmulatedNetwork, str]]:
    """Give the network, what whose sink says goes to a broker, and the broker's address for the sender."""
    reading, writing = os.pipe2(os.O_CLOEXEC)
    os.set_blocking(writing, False)
    with contextlib.ExitStack() as stack:
        stack.callback(os.close, reading)
        stack.callback(os.close, writing)
        net = stack.enter_context(emulated(TOPOLOGY, summaries_fd=writing, pin_dir=PIN_DIR))
        sender, receiver = net.hosts["sender"], net.hosts["receiver"]
        host, for_sender, for_receiver = add_broker_host(net.lab, sender, receiver)
        stack.enter_context(broker_on(host))
        command = [sys.executable, "-m", "telemetry.inband.publisher", "--fd", str(reading)]
        command += ["--broker", f"mqtt://{for_receiver}:{PORT}", "--sender", "sink"]
        running = receiver.popen(command, pass_fds=(reading,))
        stack.callback(running.wait)
        stack.callback(running.terminate)
        yield net, for_sender


def _round(window_bytes: int, seconds: int) -> Ages:
    Ear.window_bytes = window_bytes
    for ages in Ear.ages_us.values():
        ages.clear()
    with (
        _published() as (net, broker),
        agent_here(Description([Ear]), max_flows=256) as plane,
        listening(plane, net.hosts["sender"], broker),
    ):
        _transfer(plane, net, _START_S, until_heard=True)
        for ages in Ear.ages_us.values():
            ages.clear()
        _transfer(plane, net, seconds)
    if len(Ear.ages_us["echo"]) < _LEAST_DECISIONS:
        raise Unfit(f"only {len(Ear.ages_us['echo'])} decisions in {seconds} s")
    return {way: list(ages) for way, ages in Ear.ages_us.items()}


def _transfer(plane: Plane, net: EmulatedNetwork, seconds: int, *, until_heard: bool = False) -> None:
    options: Any = {"congestion": "ccp", "duration_s": seconds, "family": "ipv6"}
    end_s = time.monotonic() + seconds
    with start_iperf3(net.hosts["sender"], net.hosts["receiver"], **options) as transfer:
        while transfer.running and time.monotonic() < end_s:
            plane.turn(50)
            if until_heard and Ear.ages_us["echo"]:
                return
    if until_heard:
        raise Unfit("no summary or no echo came")


def run(plan: Plan, seconds: int) -> BenchResult:
    """Measure.

    Args:
        plan: How long.
        seconds: Length of each transfer [s].

    Returns:
        `p50_us.WAY.STATE` and `p99_us.WAY.STATE` of the decisions of a round, and how many `decisions.STATE`
        there were.

    Raises:
        BenchError: As `measure_rounds`.
        LoadError: If the datapath does not load.
        LabError: If the broker does not start.
    """
    result = BenchResult("echo", plan, {"seconds": seconds})
    raise_priority()  # as `ccp run` does
    measured = measure_rounds(
        tuple(WINDOWS_BYTES),
        lambda state, _: _round(WINDOWS_BYTES[state], seconds),
        plan,
        title="echo",
        headlines=_headlines,
        judge=disturbances_alone,
    )
    result.rounds["echo"] = measured.tally
    for state, rounds in measured.samples.items():
        for way in WAYS:
            for percent in PERCENTS:
                result.add(f"p{percent}_us.{way}.{state}", _percentiles(rounds, way, percent), "us")
        result.add(f"decisions.{state}", [len(one["echo"]) for one in rounds], "decisions")
    return result


def _headlines(samples: Mapping[str, Sequence[Ages]]) -> list[list[float]]:
    return [_percentiles(rounds, way, 50) for rounds in samples.values() for way in WAYS]


def _percentiles(rounds: Sequence[Mapping[str, list[int]]], way: str, percent: int) -> list[float]:
    """Return a percentile of each round."""
    return [float(np.percentile(one[way], percent)) for one in rounds]
