"""R-Hybrid: whose queue is it? The paper's rules beside those that know a sender's own queue (mode `own`).

The rules were written, and their numbers chosen, on other paths than these. In `whose-queue` both detectors
are given what the receiver observed in the same run, over paths drawn at random. In `own-mode` flows follow
the one or the other over paths of the authors' script, and over the one of the figures.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from random import Random
from typing import Any, Final

import pandas as pd

from experiments import plots
from experiments.netlab.spec import Buffer, Direction, DropTail
from experiments.papers.estimates import over_runs
from experiments.papers.paper import Findings, Part, Runs, Size
from experiments.papers.r_hybrid.exps import EXPERIMENTS, FOLLOWED
from experiments.papers.r_hybrid.exps import PATHS as SCRIPTS_PATHS
from experiments.papers.r_hybrid.path import (
    BBR,
    DCTCP,
    FLOW,
    MTU_BYTES,
    OURS,
    STREAMS,
    marked,
    path,
    settled,
)
from experiments.papers.r_hybrid.wrong import OWN, PAPERS, WRONGS, wrong, wrong_ratios
from experiments.papers.tables import Check, Table
from experiments.papers.variants import KERNEL, steady
from experiments.results import Result
from experiments.runs import reading
from experiments.runs.grid import changed
from experiments.runs.shapes import Dumbbell
from experiments.scenario import Flow, ReceiverAgent, Scenario
from experiments.sweep import Grid
from experiments.traffic.spec import Iperf3, Traffic

RATES_MBIT: Final = (20.0, 200.0)
RTTS_US: Final = (2_000.0, 40_000.0)
BUFFERS_US: Final = (2_000.0, 40_000.0)
"""What a full buffer takes to drain [us]: from below the detector's delta to far above."""
LEAST_PKTS: Final = 20
PATHS: Final = (1, 10)
"""How many are drawn for `--quick`, and else."""

DRAWN: Final = "paths that were drawn when the rules counted bytes, too, again"
"""Seed of the paths; a change of the rules draws new ones, some of which have room for less than delta."""

PART_RATIO: Final = 0.2
"""What a sender wants that does not fill its path."""
CONSTANT_RATIO: Final = 0.3
"""What others take that never let go."""

LENGTH_S: Final = 30.0
QUICK_S: Final = 12.0
MOSTLY: Final = 0.9
SELDOM: Final = 0.1

_UNDER: Final = " | "
"""Between situation and path, in the names of points."""


# --- drawn paths, both detectors over the same observations ------------------------------------------------


def drawn(paths: int, seed: str = DRAWN) -> Mapping[str, Direction]:
    """Return so many bottlenecks; they mark what asks for ECN from a RTT of queue on, or half the room."""
    rng = Random(seed)

    def between(least: float, most: float) -> float:
        return math.exp(rng.uniform(math.log(least), math.log(most)))

    found: dict[str, Direction] = {}
    while len(found) < paths:
        mbit, rtt_us, room_us = (round(between(*ends)) for ends in (RATES_MBIT, RTTS_US, BUFFERS_US))
        rate_bytes_per_s = mbit * 125_000
        room_pkts = max(LEAST_PKTS, round(rate_bytes_per_s * room_us / 1e6 / MTU_BYTES))
        room_us = round(room_pkts * MTU_BYTES / rate_bytes_per_s * 1e6)
        found[f"{mbit} Mbit/s, {rtt_us / 1000:.1f} ms, room for {room_pkts} packets"] = Direction(
            rate_bytes_per_s=rate_bytes_per_s,
            delay_us=rtt_us // 2,
            buffer=Buffer(packets=room_pkts),
            queue=DropTail(ce_threshold_us=min(rtt_us, room_us // 2)),
        )
    return found


_BULK: Final = Iperf3(parallel=STREAMS)


def _own(algorithm: str = KERNEL, traffic: Traffic = _BULK, *, ecn: bool = False) -> Flow:
    return Flow(FLOW, "s1", "r1", algorithm, traffic=traffic, ecn=ecn)


def _others(traffic: Traffic = _BULK, start_s: float = 0.0, stop_s: float | None = None) -> Flow:
    return Flow("others", "s2", "r2", KERNEL, traffic=traffic, start_s=start_s, stop_s=stop_s)


def situations(rate_bytes_per_s: float, duration_s: float) -> Mapping[str, tuple[Flow, ...]]:
    """Return who sends; the receiver watches the first flow's sender.

    Args:
        rate_bytes_per_s: Of the path [bytes/s].
        duration_s: For how long there is sent [s]; others come after a third of it, and go after two.
    """
    come_s, go_s = duration_s / 3, duration_s * 2 / 3
    part = steady(PART_RATIO * rate_bytes_per_s)
    return {
        "alone": (_own(),),
        "alone, BBR": (_own(BBR),),
        "alone, DCTCP": (_own(DCTCP, ecn=True),),
        "alone, a fifth": (_own(traffic=part),),
        "alone, a fifth in bursts": (_own(traffic=Iperf3(rate_bytes_per_s=PART_RATIO * rate_bytes_per_s)),),
        "others all the time": (_own(), _others()),
        "others all the time, DCTCP": (_own(DCTCP, ecn=True), _others()),
        "others for a while": (_own(), _others(start_s=come_s, stop_s=go_s)),
        "a fifth, others later": (_own(traffic=part), _others(start_s=come_s)),
        "others at a constant rate": (_own(), _others(steady(CONSTANT_RATIO * rate_bytes_per_s))),
    }


def _points(paths: int, duration_s: float) -> Mapping[str, Mapping[str, Any]]:
    return {
        f"{situation}{_UNDER}{name}": {
            "topology.bottleneck": reading.full(bottleneck),
            "flows": reading.full(list(flows)),
        }
        for name, bottleneck in drawn(paths).items()
        for situation, flows in situations(bottleneck.rate_bytes_per_s or 0.0, duration_s).items()
    }


def _watching(mode: str) -> tuple[ReceiverAgent, ...]:
    return (ReceiverAgent("r1", mode=mode),)  # type: ignore[arg-type]


def _drawn_grids(size: Size) -> list[Grid]:
    paths = PATHS[0] if size.quick else PATHS[1]
    seconds = size.seconds(QUICK_S, LENGTH_S)
    (first, *_) = drawn(paths).values()
    base = Scenario(
        name="r-hybrid: whose queue is it?",
        topology=Dumbbell(2, first),
        flows=(_own(),),
        duration_s=seconds,
        receivers=_watching(PAPERS),
    )
    return [Grid(base, {"case": _points(paths, seconds)}, size.name, size.times(1, 1))]


def wrong_of_drawn(result: Result) -> pd.DataFrame:
    """Return how wrong each mode's detector is of a run, with its `situation`."""
    situation = str(result.axes["case"]).partition(_UNDER)[0]
    return wrong(result).assign(situation=situation)


def _drawn_findings(runs: Runs) -> Findings:
    found = runs.rows(wrong_of_drawn)
    title = "Time in which a detector is wrong, of the time in which it can be"
    words: dict[str, Any] = {"group": "situation", "by": "mode", "subtitle": "paths drawn at random"}
    return Findings(
        [Table.of(found, title, ["situation", "mode"], WRONGS)],
        {
            "whose-queue-false-shared": plots.bars(
                found.dropna(subset="false_shared_ratio"),
                "false_shared_ratio",
                title="Time in SHARED while nobody else sends",
                **words,
            ),
            "whose-queue-false-single-owner": plots.bars(
                found.dropna(subset="false_single_owner_ratio"),
                "false_single_owner_ratio",
                title="Time in SINGLE_OWNER while others send",
                **words,
            ),
        },
        claims(found),
    )


def claims(found: pd.DataFrame) -> list[Check]:
    """Return what must show of the rules that know own queues.

    Args:
        found: As `wrong_of_drawn`, of one or more runs.
    """
    own = found[found["mode"] == OWN]

    def check(situation: str, column: str, what: str) -> Check:
        rows = own[own["situation"] == situation]
        return Check(f"{situation}: time in {what}", over_runs(rows, column), high=SELDOM)

    alone = ("alone", "alone, BBR", "alone, DCTCP", "alone, a fifth", "others for a while")
    beside = (
        "others all the time",
        "others all the time, DCTCP",
        "others for a while",
        "a fifth, others later",
    )
    return [
        *(check(one, "false_shared_ratio", "SHARED while nobody else sends") for one in alone),
        *(check(one, "false_single_owner_ratio", "SINGLE_OWNER while others send") for one in beside),
    ]


WHOSE_QUEUE: Final = Part(
    "whose-queue",
    "who is wrong for how long, the paper's rules or those that know own queues",
    _drawn_grids,
    _drawn_findings,
    lambda result: {"case": result.axes["case"]},
)


# --- flows that follow -------------------------------------------------------------------------------------

FIGURES: Final = "the figures' path, marks at 1 ms"
VISITED: Final = "E9, others for a while"


def _followed_points(duration_s: float) -> Mapping[str, Mapping[str, Any]]:
    scenarios = {
        f"{exp}, {EXPERIMENTS[exp].setting}": EXPERIMENTS[exp].scenario(exp, duration_s) for exp in FOLLOWED
    }
    scenarios[FIGURES] = changed(path("own mode", duration_s), marked(OURS))
    visited = EXPERIMENTS["E9"].scenario("E9", duration_s)
    scenarios[VISITED] = visited.replace(
        topology=Dumbbell(2, SCRIPTS_PATHS["T1"]),
        flows=(*visited.flows, _others(start_s=duration_s / 3, stop_s=duration_s * 2 / 3)),
    )
    return {
        f"{situation}{_UNDER}{mode}": {
            **{field: scenario.plain()[field] for field in ("topology", "flows")},
            "receivers": reading.full([ReceiverAgent(scenario.receivers[0].host, mode=mode)]),
        }
        for situation, scenario in scenarios.items()
        for mode in (PAPERS, OWN)
    }


def _followed_grids(size: Size) -> list[Grid]:
    seconds = size.seconds(QUICK_S, LENGTH_S)
    base = EXPERIMENTS["E9"].scenario("E9", seconds)
    base = base.replace(name="r-hybrid: flows that follow")
    return [Grid(base, {"case": _followed_points(seconds)}, size.name, size.times(1, 10))]


def followed_row(result: Result) -> dict[str, Any]:
    """Return what a flow that follows a mode came to; `r_hybrid_path` says what the columns are."""
    situation, _, mode = str(result.axes["case"]).partition(_UNDER)
    flow = result.flows.set_index("flow").loc[FLOW]
    return {
        "situation": situation,
        "mode": mode,
        "retrans_pkts": flow["retrans_pkts"],
        **settled(result, FLOW),
        **wrong_ratios(result, result.regimes["regime"]),
    }


def _followed_findings(runs: Runs) -> Findings:
    values = ["goodput_bytes_per_s", "retrans_pkts", "queueing_delay_p50_us"]
    wrongs = ["false_shared_ratio", "false_single_owner_ratio"]
    words: dict[str, Any] = {"group": "situation", "by": "mode", "subtitle": "four streams of r_hybrid"}
    return Findings(
        [Table.of(runs.table, "Flows that follow a mode", ["situation", "mode"], [*values, *wrongs])],
        {
            "own-mode-goodput": plots.bars(
                runs.table, "goodput_bytes_per_s", title="Goodput of flows that follow a mode", **words
            ),
            "own-mode-delay": plots.bars(
                runs.table,
                "queueing_delay_p50_us",
                title="Queueing delay of flows that follow a mode",
                **words,
            ),
        },
    )


OWN_MODE: Final = Part(
    "own-mode",
    "what becomes of flows that follow the one or the other",
    _followed_grids,
    _followed_findings,
    followed_row,
)
