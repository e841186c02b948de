"""`ccp bench bus`: what a broker does with this client, from `publish` to the agent's inbox.

The publisher is a process of its own, the agent's inbox is here: the same code as in `ccp receive` and in
`ccp run`. Latency is from the making of a message to its arrival on the agent's thread, checked and decoded,
at 200 messages a second; the rate is of messages that arrive when they are published as fast as they go.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from agent.inbox import Inbox
from broker.embedded import EmbeddedBroker
from broker.options import BusOptions
from ccp_base.names import close_names
from experiments.bench.errors import BenchError
from experiments.bench.result import BenchResult
from experiments.bench.rounds import Plan, Unfit, measure_rounds
from experiments.disturbance import disturbances_alone
from experiments.netlab import LabError
from telemetry.schema import Sample

LATENCY_MESSAGES: Final = 1000
LATENCY_PER_S: Final = 200
RATE_MESSAGES: Final = 20_000
TIMEOUT_S: Final = 120.0
P99_GOAL: Final = {"embedded": "<= 20000", "mosquitto": "<= 10000"}
"""The goals for signal to changed window [us]; the bus alone has to stay below them."""

UNITS: Final = {"p50_us": "us", "p99_us": "us", "messages_per_s": "messages/s", "arrived_ratio": "ratio"}
"""Figures of a broker and kind of message."""
KINDS: Final = {"signal": "receiver_signal", "decision": "regime_decision"}
_MOSQUITTO: Final = """\
listener {port} 127.0.0.1
allow_anonymous true
set_tcp_nodelay true
max_queued_messages 100000
"""


@contextlib.contextmanager
def embedded() -> Iterator[BusOptions]:
    """Run the embedded broker."""
    with EmbeddedBroker() as broker:
        yield broker.options


@contextlib.contextmanager
def mosquitto() -> Iterator[BusOptions]:
    """Run Eclipse Mosquitto, with the settings of broker/mosquitto that bear on speed.

    Raises:
        LabError: `lab.no_command`, if it is not installed.
    """
    program = shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin")
    if program is None:
        raise LabError(
            "lab.no_command",
            "no program `mosquitto`",
            "PATH, /usr/sbin",
            "it is not installed",
            "apt-get install mosquitto, or leave it out with --broker embedded",
        )
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        configuration = Path(folder, "mosquitto.conf")
        configuration.write_text(_MOSQUITTO.format(port=port))
        os.chmod(folder, 0o755)  # as root it becomes another user, who has to read it
        process = subprocess.Popen([program, "-c", str(configuration)], stderr=subprocess.DEVNULL)
        try:
            yield BusOptions(port=port)
        finally:
            process.terminate()
            process.wait()


BROKERS: Final[dict[str, Callable[[], contextlib.AbstractContextManager[BusOptions]]]] = {
    "embedded": embedded,
    "mosquitto": mosquitto,
}


def _wait(condition: Callable[[], bool], what: str) -> None:
    end_s = time.monotonic() + TIMEOUT_S
    while not condition():
        if time.monotonic() > end_s:
            raise Unfit(f"{what} took more than {TIMEOUT_S:g} s")
        time.sleep(0.01)


def _receive(options: BusOptions, kind: str, count: int, rate: float) -> tuple[list[float], float]:
    """Receive messages of a publisher.

    Args:
        options: Which broker.
        kind: `signal` or `decision`.
        count: How many are published.
        rate: How many a second; 0 for as fast as they go.

    Returns:
        Latency of each that came [us], and from the first to the last arrival [s].
    """
    came = threading.Event()
    inbox = Inbox(options, sender="bench-agent", wake=came.set, kinds=[KINDS[kind]], max_waiting=count)
    inbox.start()
    try:
        _wait(lambda: inbox.ready, "the subscription")
        command = [sys.executable, "-m", "experiments.bench.bus_load"]
        arguments = [
            str(options.port),
            str(count),
            str(rate),
            *(["--decisions"] if kind == "decision" else []),
        ]
        load = subprocess.Popen([*command, *arguments], stdout=subprocess.PIPE, text=True)
        latencies_us: list[float] = []
        first_us = last_us = 0
        with load:
            while len(latencies_us) < count and (came.wait(1.0) or load.poll() is None):
                came.clear()
                samples: list[Sample] = inbox.drain()
                now_us = time.monotonic_ns() // 1000
                first_us, last_us = first_us or now_us, now_us if samples else last_us
                latencies_us += [now_us - sample.sent_mono_us for sample in samples if not sample.retained]
            line = load.stdout.readline() if load.stdout is not None else ""
            said = json.loads(line) if line else {}
        if not said.get("flushed"):
            raise Unfit("the publisher did not get rid of its messages")
        return latencies_us, (last_us - first_us) / 1e6
    finally:
        inbox.stop()


def run(plan: Plan, brokers: Sequence[str] = tuple(BROKERS)) -> BenchResult:
    """Measure.

    Args:
        plan: How long.
        brokers: Names in `BROKERS`.

    Returns:
        By broker, for signals (QoS 0) and decisions (QoS 1): `messages_per_s`, `arrived_ratio` at that rate,
        and `p50_us`, `p99_us` at 200 messages a second.

    Raises:
        BenchError: `bench.unknown_name`, if there is no such broker, or as `measure_rounds`.
        LabError: `lab.no_command`, if a broker is not installed.
    """
    for name in brokers:
        check_broker(name, BROKERS)
    ways = {f"{name}.{kind}": (name, kind) for name in brokers for kind in KINDS}
    result = BenchResult("bus", plan, {"brokers": list(brokers)})
    measured = measure_rounds(
        tuple(ways),
        lambda way, _: _figures(*ways[way]),
        plan,
        title="bus",
        headlines=lambda samples: [[one["p50_us"] for one in figures] for figures in samples.values()],
        judge=disturbances_alone,
    )
    result.rounds["bus"] = measured.tally
    for way, (name, _) in ways.items():
        for figure, unit in UNITS.items():
            goal = P99_GOAL[name] if figure == "p99_us" else None
            result.add(f"{figure}.{way}", [one[figure] for one in measured.samples[way]], unit, goal)
    return result


def check_broker(name: str, known: Collection[str]) -> None:
    """Refuse a broker that is not known.

    Raises:
        BenchError: `bench.unknown_name`.
    """
    if name not in known:
        raise BenchError(
            "bench.unknown_name", f"no broker `{name}`", "--broker", fix=close_names(name, known, "broker")
        )


def _figures(broker: str, kind: str) -> dict[str, float]:
    with BROKERS[broker]() as options:
        latencies_us, _ = _receive(options, kind, LATENCY_MESSAGES, LATENCY_PER_S)
        arrived, took_s = _receive(options, kind, RATE_MESSAGES, 0)
    if not latencies_us or not took_s:
        raise Unfit(f"nothing came through {broker}")
    return {
        "p50_us": float(np.percentile(latencies_us, 50)),
        "p99_us": float(np.percentile(latencies_us, 99)),
        "messages_per_s": len(arrived) / took_s,
        "arrived_ratio": len(arrived) / RATE_MESSAGES,
    }
