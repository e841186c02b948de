"""A path that changes, and a tuner that follows: `python -m experiments.demo.tuning [FIGURE.png]`, simulated.

One flow of `flex_cubic` over 40 Mbit/s and 40 ms, whose buffer and loss change every 30 s. k = 2 is right
where packets are lost at random and the buffer holds a BDP, and wrong where it is shallow; k = 1 the other
way round.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pandas as pd

from ccplane.agent.changes import Which
from ccplane.agent.plane import Plane
from experiments import plots
from experiments.demo.tuner import Arm, Totals, Tuner
from experiments.events import SetLink
from experiments.netlab.spec import Bernoulli, Buffer, Direction
from experiments.results import Result
from experiments.run import run
from experiments.runs import sim
from experiments.runs.check import SIM
from experiments.runs.shapes import PointToPoint
from experiments.scenario import Flow, Scenario
from experiments.units import MBIT

if TYPE_CHECKING:
    from ccplane.base._native import SimDatapath

ALGORITHM: Final = "flex_cubic"
ARMS: Final = (
    Arm("CUBIC", {"rtt_multiplier": 1.0, "beta": 0.7, "c_per_s3": 0.4}),
    Arm("k 1.05", {"rtt_multiplier": 1.05, "beta": 0.7, "c_per_s3": 0.4}),
    Arm("k 2", {"rtt_multiplier": 2.0, "beta": 0.7, "c_per_s3": 0.4}),
    Arm("k 2, beta 0.9, C 1.6", {"rtt_multiplier": 2.0, "beta": 0.9, "c_per_s3": 1.6}),
)
PHASE_S: Final = 30.0
DEEP_BYTES: Final = 200_000
SHALLOW_BYTES: Final = 30_000
LOSS: Final = {"kind": "bernoulli", "ratio": 0.01}
LOOK_US: Final = 100_000


def scenario(phase_s: float = PHASE_S) -> Scenario:
    """Return the path: random loss, then a shallow buffer without loss, then random loss again.

    Args:
        phase_s: Length of each of the three [s].
    """
    link = Direction(
        rate_bytes_per_s=40 * MBIT, delay_us=20_000, buffer=Buffer(bytes=DEEP_BYTES), loss=Bernoulli(0.01)
    )
    shallow = {"buffer": {"bytes": SHALLOW_BYTES}, "loss": None}
    deep = {"buffer": {"bytes": DEEP_BYTES}, "loss": LOSS}
    return Scenario(
        name="a path that changes",
        topology=PointToPoint(link),
        flows=(Flow("flow", "sender", "receiver", ALGORITHM),),
        duration_s=3 * phase_s,
        events=(SetLink(phase_s, "link>", shallow), SetLink(2 * phase_s, "link>", deep)),
        datapath=SIM,
    )


@contextlib.contextmanager
def _tuned(chosen: list[tuple[float, str, bool]], plane: Plane, datapath: SimDatapath) -> Iterator[None]:
    """Let a tuner steer the flows of a simulated agent."""

    def set_params(values: Any) -> None:
        for name, value in values.items():
            plane.changes.set_params({f"{ALGORITHM}.{name}": value}, Which())

    tuner = Tuner(ARMS, set_params, chosen)
    last_us = 0

    def look() -> None:
        nonlocal last_us
        if datapath.now_us < last_us + LOOK_US:
            return
        last_us = datapath.now_us
        stats = list(datapath.all_stats())
        tuner.turn(
            Totals(
                last_us / 1e6,
                sum(one.bytes_acked for one in stats),
                sum(one.delivered_pkts for one in stats),
                sum(one.lost_pkts for one in stats),
            )
        )

    plane.each_turn.append(look)
    yield


def tuned(of: Scenario) -> tuple[Result, list[tuple[float, str, bool]]]:
    """Return a run that a tuner steered, and what it chose when [s], and whether its guard did."""
    chosen: list[tuple[float, str, bool]] = []
    recorder = functools.partial(sim.record, beside=functools.partial(_tuned, chosen))
    return run(of, recorder=recorder), chosen


def fixed(of: Scenario, arm: Arm) -> Result:
    """Return a run with the parameters of one arm throughout."""
    (flow,) = of.flows
    return run(
        of.replace(flows=(type(flow)(flow.name, flow.sender, flow.receiver, ALGORITHM, dict(arm.params)),))
    )


def compare(of: Scenario) -> tuple[dict[str, Result], list[tuple[float, str, bool]]]:
    """Return the runs by name, the tuner's first, and what it chose."""
    result, chosen = tuned(of)
    runs = {"tuned": result, **{arm.name: fixed(of, arm) for arm in ARMS if arm.name in {"CUBIC", "k 2"}}}
    return runs, chosen


def figure(runs: dict[str, Result], chosen: list[tuple[float, str, bool]]) -> plots.Plot:
    """Draw goodput and window of runs over time; dotted lines are the path's changes."""
    samples = pd.concat([one.flow_samples.assign(flow=name) for name, one in runs.items()], ignore_index=True)
    guarded = sum(one for _, _, one in chosen)
    events = runs["tuned"].events
    return plots.time_series(
        samples,
        pd.DataFrame({"flow": list(runs), "algorithm": list(runs)}),
        events=events[events["kind"] == "set_link"],
        panels=("goodput_bytes_per_s", "cwnd_bytes", "bytes_retrans"),
        goodput_interval_s=1.0,
        title="A path that changes, and a tuner that follows",
        subtitle="40 Mbit/s, 40 ms: 1 % random loss; no loss and 0.15 BDP of buffer; 1 % random loss",
        note=f"simulated, one run each; {len(chosen)} changes of parameters, {guarded} by the guard",
    )


def main() -> None:
    """Run and draw."""
    out = Path(sys.argv[1] if len(sys.argv) > 1 else "out/tuning.png")
    runs, chosen = compare(scenario())
    for at_s, name, guarded in chosen:
        print(f"{at_s:6.1f} s  {name}{'  (guard)' if guarded else ''}")
    print(*plots.save_as(figure(runs, chosen), out.parent, out.stem, ["png"]), sep="\n")


if __name__ == "__main__":
    main()
