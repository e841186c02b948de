"""`ccp bench latency`: time from the ACK that triggers a report until the resulting update is in force.

Two spans begin at the ACK. `written_*` ends when the kernel side can read the update, which is ccplane's own
time; `experiments.bench.spans` has its parts. The figures without the prefix `written_` end when the next ACK
applies the update, and so include the path's ACK clock. The path is a bare link with continuous ACKs; `1gbit`
is a link of 1 Gbit/s, where segmentation offload makes one ACK per 64 KB, every 0.5 ms. `idle` is this flow
alone; with `load`, bulk flows of kernel CUBIC over another link keep every core busy.

`floor` is the time to wake any thread (`experiments.bench.floor`), the lower bound for any agent.
"""

from __future__ import annotations

import contextlib
import enum
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ccplane.agent.agent_loop import AgentLoop
from experiments.bench import spans
from experiments.bench.floor import wake_ups
from experiments.bench.result import BenchResult
from experiments.bench.rounds import Plan, measure_rounds
from experiments.disturbance import disturbances_alone
from experiments.netlab import Path, bottleneck, start_iperf3, two_hosts

RATE_BYTES_PER_S: Final = 125e6
BUFFER_BYTES: Final = 500_000
ROUND_S: Final = 4
PERCENTS: Final = (50, 99)
P50_GOAL: Final = "<= 40"
WRITTEN_P99_GOAL: Final = "<= 150"
P99_GOAL: Final = "<= 250"
FLOORS: Final = ("floor.other_processor", "floor.same_processor")


class State(enum.StrEnum):
    """State of the machine and path."""

    idle = "idle"
    load = "load"
    one_gbit = "1gbit"


STATES: Final = tuple(State)

Times = Mapping[str, NDArray[np.float64]]
"""Span -> times of a round [us]."""


@contextlib.contextmanager
def paths() -> Iterator[Mapping[str, tuple[Path, Path | None]]]:
    """Build the paths of flow and load for each state."""
    with two_hosts() as wire, bottleneck(RATE_BYTES_PER_S, BUFFER_BYTES) as slow, two_hosts() as other:
        yield {State.idle: (wire, None), State.load: (wire, other), State.one_gbit: (slow, None)}


@contextlib.contextmanager
def _bulk(path: Path | None) -> Iterator[None]:
    if path is None:
        yield
        return
    with start_iperf3(path.sender, path.receiver, congestion="cubic", duration_s=ROUND_S + 4, parallel=2):
        time.sleep(0.5)
        yield


def _transfer(agent_loop: AgentLoop, path: Path, load: Path | None) -> Times:
    with (
        _bulk(load),
        start_iperf3(path.sender, path.receiver, congestion="ccp", duration_s=ROUND_S) as transfer,
    ):
        spans.start()
        end_s = time.monotonic() + ROUND_S
        while time.monotonic() < end_s and transfer.running:
            agent_loop.turn(50)
    return spans.spans()


def _floor(state: str) -> Times:
    first, *others = sorted(os.sched_getaffinity(0))
    waiter = others[-1] if others and state == FLOORS[0] else first
    return {"wake": wake_ups(waiter, first)}


def run(plan: Plan) -> BenchResult:
    """Measure.

    Returns:
        `p50_us.STATE` and `p99_us.STATE`, likewise with the prefix `written_` and with the prefixes of its
        parts; and `p50_us.floor.*`, `p99_us.floor.*`. Each value is a percentile over the updates of a round.

    Raises:
        BenchError: As `measure_rounds`.
        LoadError: If the datapath does not load.
    """
    result = BenchResult("latency", plan)
    with spans.stamping() as agent_loop, paths() as of:
        measured = measure_rounds(
            (*STATES, *FLOORS),
            lambda state, _: _floor(state) if state in FLOORS else _transfer(agent_loop, *of[state]),
            plan,
            title="latency",
            headlines=lambda samples: [percentiles(samples["idle"], "written", p) for p in PERCENTS],
            judge=disturbances_alone,
        )
    result.rounds["latency"] = measured.tally
    goals = {("applied", 50): P50_GOAL, ("applied", 99): P99_GOAL}
    goals |= {("written", 50): P50_GOAL, ("written", 99): WRITTEN_P99_GOAL}
    for span in ("applied", "written", *spans.PARTS):
        for state in STATES:
            for percent in PERCENTS:
                name = f"{'' if span == 'applied' else f'{span}_'}p{percent}_us.{state}"
                goal = None if state == "1gbit" else goals.get((span, percent))
                result.add(name, percentiles(measured.samples[state], span, percent), "us", goal)
    for floor in FLOORS:
        for percent in PERCENTS:
            result.add(f"p{percent}_us.{floor}", percentiles(measured.samples[floor], "wake", percent), "us")
    return result


def percentiles(rounds: Sequence[Times], span: str, percent: int) -> list[float]:
    """Return a percentile of each round."""
    return [float(np.percentile(one[span], percent)) for one in rounds]
