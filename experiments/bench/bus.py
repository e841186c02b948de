"""`ccp bench bus`: latency and rate of the telemetry bus, from `publish` to the agent's inbox.

The publisher is another process; the inbox is in this process. Latency is from creating a message until the
agent's thread has it, checked and decoded, at 200 messages per second. The rate counts messages that arrive
when messages are published without a limit.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Final

import numpy as np

from broker.embedded import EmbeddedBroker
from broker.options import BusOptions
from ccplane.agent.inbox import Inbox
from ccplane.base import clock
from experiments.bench.result import BenchResult
from experiments.bench.rounds import Plan, Unfit, measure_rounds
from experiments.disturbance import disturbances_alone
from telemetry.schema import Sample

LATENCY_MESSAGES: Final = 1000
LATENCY_PER_S: Final = 200
RATE_MESSAGES: Final = 20_000
TIMEOUT_S: Final = 120.0
P99_GOAL: Final = "<= 10000"
"""Goal for the time from a signal to a changed window [us]; the bus alone must stay below it."""

UNITS: Final = {"p50_us": "us", "p99_us": "us", "messages_per_s": "messages/s", "arrived_ratio": "ratio"}
"""Name of a figure -> its unit."""
KINDS: Final = {"signal": "receiver_signal", "decision": "regime_decision"}


def _wait(condition: Callable[[], bool], what: str) -> None:
    end_s = time.monotonic() + TIMEOUT_S
    while not condition():
        if time.monotonic() > end_s:
            raise Unfit(f"{what} took more than {TIMEOUT_S:g} s")
        time.sleep(0.01)


def _receive(options: BusOptions, kind: str, count: int, rate: float) -> tuple[list[float], float]:
    """Return the latency of each received message [us], and the time between the first and the last [s]."""
    came = threading.Event()
    inbox = Inbox(options, sender="bench-agent", wake=came.set, kinds=[KINDS[kind]], max_waiting=count)
    inbox.start()
    try:
        _wait(lambda: inbox.ready, "the subscription")
        command = [sys.executable, "-P", "-m", "experiments.bench.bus_load"]
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
                now_us = clock.now_us()
                first_us, last_us = first_us or now_us, now_us if samples else last_us
                latencies_us += [now_us - sample.sent_mono_us for sample in samples if not sample.retained]
            line = load.stdout.readline() if load.stdout is not None else ""
            said = json.loads(line) if line else {}
        if not said.get("flushed"):
            raise Unfit("the publisher could not send all messages")
        return latencies_us, (last_us - first_us) / 1e6
    finally:
        inbox.stop()


def run(plan: Plan) -> BenchResult:
    """Measure.

    Returns:
        For signals (QoS 0) and decisions (QoS 1): `messages_per_s`, `arrived_ratio` at that rate, and
        `p50_us`, `p99_us` at 200 messages per second.

    Raises:
        BenchError: As `measure_rounds`.
        BusError: `bus.no_mosquitto`.
    """
    result = BenchResult("bus", plan, {})
    measured = measure_rounds(
        tuple(KINDS),
        lambda kind, _: _figures(kind),
        plan,
        title="bus",
        headlines=lambda samples: [[one["p50_us"] for one in figures] for figures in samples.values()],
        judge=disturbances_alone,
    )
    result.rounds["bus"] = measured.tally
    for kind in KINDS:
        for figure, unit in UNITS.items():
            goal = P99_GOAL if figure == "p99_us" else None
            result.add(f"{figure}.{kind}", [one[figure] for one in measured.samples[kind]], unit, goal)
    return result


def _figures(kind: str) -> dict[str, float]:
    with EmbeddedBroker() as broker:
        options = broker.options
        latencies_us, _ = _receive(options, kind, LATENCY_MESSAGES, LATENCY_PER_S)
        arrived, took_s = _receive(options, kind, RATE_MESSAGES, 0)
    if not latencies_us or not took_s:
        raise Unfit(f"no message arrived through {broker}")
    return {
        "p50_us": float(np.percentile(latencies_us, 50)),
        "p99_us": float(np.percentile(latencies_us, 99)),
        "messages_per_s": len(arrived) / took_s,
        "arrived_ratio": len(arrived) / RATE_MESSAGES,
    }
