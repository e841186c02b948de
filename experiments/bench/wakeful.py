"""`ccp bench wakeful`: what it brings, and costs, to keep processors awake for reports.

One iperf3 flow of an algorithm that answers 1000 reports a second, in each of the states of `ccp bench
latency`. `experiments.bench.awake` has the ways; ratios are to the way `off` of the same round. Under load,
the bytes are those of the other flows, too, which pay for what the agent asks for.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from agent.plane import Plane
from experiments.bench import spans
from experiments.bench.awake import awake
from experiments.bench.latency import PERCENTS, STATES, paths, percentiles
from experiments.bench.result import BenchResult
from experiments.bench.rounds import Plan, measure_rounds
from experiments.disturbance import Watch
from experiments.netlab import Path, start_iperf3

OFF: Final = "off"
WAYS: Final = (OFF, "0us", "1us", "2us", "5us", "10us", "50us", "hurry", "processor", "spin20", "spin200")


@dataclass(frozen=True, slots=True)
class Sample:
    """One transfer.

    Attributes:
        spans: Those of its updates.
        goodput_bytes_per_s: What arrived, of all flows [bytes/s].
        cpu_s_per_gb: Busy CPU time of the machine per 1e9 bytes [s].
    """

    spans: spans.Spans
    goodput_bytes_per_s: float
    cpu_s_per_gb: float


def _transfer(plane: Plane, paths: tuple[Path, Path | None], seconds: int, way: str, _number: int) -> Sample:
    path, load = paths
    with contextlib.ExitStack() as around:
        turn = around.enter_context(awake(way))
        watch = around.enter_context(Watch())
        runs = [
            around.enter_context(
                start_iperf3(path.sender, path.receiver, congestion="ccp", duration_s=seconds)
            )
        ]
        if load is not None:
            other = start_iperf3(
                load.sender, load.receiver, congestion="cubic", duration_s=seconds, parallel=2
            )
            runs.append(around.enter_context(other))
        spans.start()
        while runs[0].running:
            turn(plane)
        results = [run.wait() for run in runs]
    received = sum(one.received_bytes for one in results)
    goodput = sum(one.goodput_bytes_per_s for one in results)
    return Sample(spans.spans(), goodput, watch.seen.own_busy_s / (received / 1e9))


def run(
    plan: Plan, seconds: int = 2, ways: Sequence[str] = WAYS, states: Sequence[str] = STATES
) -> BenchResult:
    """Measure.

    Args:
        plan: How long, for each state.
        seconds: Length of each transfer [s].
        ways: Of `experiments.bench.awake`; `off` is measured in any case.
        states: Some of `STATES`.

    Returns:
        For each way and state: `throughput_ratio.STATE.WAY` and `cpu_per_gb_ratio.STATE.WAY`, to `off`; and
        of the updates of a round `written_p50_us.STATE.WAY`, `written_p99_us`, and the same `applied_`.

    Raises:
        BenchError: `bench.unknown_name`, or as `measure_rounds`.
        LoadError: If the datapath does not load.
    """
    ways = [OFF, *(way for way in dict.fromkeys(ways) if way != OFF)]
    for way in ways:
        awake(way)
    result = BenchResult("wakeful", plan, {"seconds": seconds, "ways": ways, "states": list(states)})
    with spans.stamping() as plane, paths() as of:
        for state in states:
            measured = measure_rounds(
                ways,
                functools.partial(_transfer, plane, of[state], seconds),
                plan,
                title=state,
                headlines=lambda samples: [
                    _ratios(samples, way, "goodput_bytes_per_s") for way in ways if way != OFF
                ],
            )
            result.rounds[state] = measured.tally
            _add(result, state, measured.samples)
    return result


def _ratios(samples: Mapping[str, Sequence[Sample]], way: str, figure: str) -> list[float]:
    pairs = zip(samples[way], samples[OFF], strict=True)
    return [getattr(one, figure) / getattr(off, figure) for one, off in pairs]


def _add(result: BenchResult, state: str, samples: Mapping[str, Sequence[Sample]]) -> None:
    for way, own in samples.items():
        label = f"{state}.{way}"
        if way != OFF:
            result.add(f"throughput_ratio.{label}", _ratios(samples, way, "goodput_bytes_per_s"), "ratio")
            result.add(f"cpu_per_gb_ratio.{label}", _ratios(samples, way, "cpu_s_per_gb"), "ratio")
        for span in ("written", "applied"):
            for percent in PERCENTS:
                values = percentiles([one.spans for one in own], span, percent)
                result.add(f"{span}_p{percent}_us.{label}", values, "us")
