"""R-Hybrid: whose queue is it, by a probe (`ccp_algs/share_probe.py`)? What it hears, what it wins and costs.

Flows of `r_hybrid` follow a receiver in the mode `own`, with and without probes. The paths are of the kind of
`whose.py`, drawn at random; what a share means was chosen on others.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pandas as pd

from experiments import plots
from experiments.events import ParamValue
from experiments.metrics import NAN, within
from experiments.papers.estimates import over_runs
from experiments.papers.paper import Findings, Part, Runs, Size
from experiments.papers.r_hybrid.path import BBR, DCTCP, FLOW, OURS, SETTLED_S, STREAMS, settled
from experiments.papers.r_hybrid.whose import drawn
from experiments.papers.r_hybrid.wrong import OWN
from experiments.papers.tables import Check, Table
from experiments.papers.variants import KERNEL, steady
from experiments.results import Result
from experiments.runs import reading
from experiments.runs.shapes import Dumbbell
from experiments.scenario import Flow, ReceiverAgent, Scenario
from experiments.sweep import Grid
from experiments.traffic.spec import Iperf3, Traffic

EVERY_S: Final = 2.0
"""Time between probes [s]."""
WITHOUT: Final = "none"
WITH: Final = f"every {EVERY_S:g} s"
PROBES: Final[Mapping[str, float]] = {WITHOUT: 0.0, WITH: EVERY_S}
CONSTANT_RATIOS: Final = (0.1, 0.3)
"""What others take that never let go."""
PATHS: Final = (1, 10)
"""How many are drawn for `--quick`, and else."""

DRAWN: Final = "paths that were drawn when the rules were done"
"""Seed of the paths."""

ALONE: Final = "alone"
STREAMED: Final = "alone, four streams"

_UNDER: Final = " | "
"""Between situation, probes and path, in the names of points."""


def situations(rate_bytes_per_s: float) -> Mapping[str, tuple[int, Flow | None]]:
    """Return how many streams of ours there are, and who else sends, over a path of a rate [bytes/s]."""

    def others(algorithm: str = KERNEL, traffic: Traffic | None = None) -> Flow:
        return Flow("others", "s2", "r2", algorithm, traffic=traffic or Iperf3())

    return {
        ALONE: (1, None),
        STREAMED: (STREAMS, None),
        **{
            f"others at a constant rate, {100 * ratio:g} %": (
                1,
                others(traffic=steady(ratio * rate_bytes_per_s)),
            )
            for ratio in CONSTANT_RATIOS
        },
        "others on CUBIC": (1, others()),
        "others on BBR": (1, others(BBR)),
    }


def _points(paths: int) -> Mapping[str, Mapping[str, Any]]:
    points = {}
    for path, bottleneck in drawn(paths, DRAWN).items():
        for situation, (streams, other) in situations(bottleneck.rate_bytes_per_s or 0.0).items():
            for name, every_s in PROBES.items():
                params: dict[str, ParamValue] = {"probe_s": every_s}
                traffic = Iperf3(parallel=streams)
                ours = Flow(FLOW, "s1", "r1", OURS, params=params, traffic=traffic, ecn=True)
                points[f"{situation}{_UNDER}{name}{_UNDER}{path}"] = {
                    "topology.bottleneck": reading.full(bottleneck),
                    "flows": reading.full([ours] if other is None else [ours, other]),
                }
    return points


def _grids(size: Size) -> list[Grid]:
    paths = PATHS[0] if size.quick else PATHS[1]
    (first, *_) = drawn(paths, DRAWN).values()
    base = Scenario(
        name="r-hybrid: sharing found by a probe",
        topology=Dumbbell(2, first),
        flows=(Flow(FLOW, "s1", "r1", OURS),),
        duration_s=size.seconds(12, 30),
        receivers=(ReceiverAgent("r1", mode=OWN),),
    )
    return [Grid(base, {"case": _points(paths)}, size.name, size.times(1, 1))]


def wrong_ratio(result: Result) -> float:
    """Return for which part of its time a flow had the wrong congestion control, from `SETTLED_S` on.

    Alone that is any but DCTCP, beside others DCTCP; its connections count alike.
    """
    samples = within(result.connection_samples, SETTLED_S)
    samples = samples[samples["flow"] == FLOW]
    events = result.regime_events
    events = events[(events["event"] == "regime:switched") & (events["flow"] == FLOW) & ~events["backward"]]
    ratios = []
    for connection, own in samples.groupby("connection"):
        switches = events[events["connection"] == connection]
        programs = pd.Series(["cubic", *switches["after"]])
        ran = programs.iloc[np.searchsorted(switches["t_s"], own["t_s"], "right")]
        ratios.append(float((ran == DCTCP).mean()))
    in_dctcp = float(np.mean(ratios)) if ratios else NAN
    return 1 - in_dctcp if len(result.scenario.flows) == 1 else in_dctcp


def _of_case(result: Result) -> dict[str, str]:
    situation, probes, _ = str(result.axes["case"]).split(_UNDER)
    return {"situation": situation, "probes": probes}


def row(result: Result) -> dict[str, Any]:
    """Return what a flow came to; `r_hybrid_path` says what the columns are."""
    flow = result.flows.set_index("flow").loc[FLOW]
    return {
        **_of_case(result),
        "retrans_pkts": flow["retrans_pkts"],
        **settled(result, FLOW),
        "wrong_ratio": wrong_ratio(result),
    }


def echoes(result: Result) -> pd.DataFrame:
    """Return the shares that a run's probes heard, from `SETTLED_S` on: `situation`, `echo_ratio`."""
    events = within(result.regime_events, SETTLED_S)
    told = events.loc[events["event"] == "regime:probed", "reason"].astype(str)
    shares = [float(found[1]) for one in told if (found := re.search(r"queue (-?[\d.]+)", one))]
    situation = _of_case(result)["situation"]
    return pd.DataFrame({"situation": situation, "echo_ratio": shares or [NAN]})


def _findings(runs: Runs) -> Findings:
    probing = Runs([one for one in runs.results if _of_case(one)["probes"] == WITH], runs.table, runs.planned)
    values = ["wrong_ratio", "goodput_bytes_per_s", "retrans_pkts", "queueing_delay_p50_us"]
    title = "Flows that follow the mode own, with and without probes: time with the wrong congestion control"
    tables = [Table.of(runs.table, title, ["situation", "probes"], values)]
    if probing.results:
        heard = probing.rows(echoes)
        tables.append(Table.of(heard, "Share of the queue that probes heard", ["situation"], ["echo_ratio"]))
    words: dict[str, Any] = {"group": "situation", "by": "probes", "subtitle": "paths drawn at random"}
    return Findings(
        tables,
        {
            "probe-wrong": plots.bars(
                runs.table, "wrong_ratio", title="Time with the wrong congestion control", **words
            )
        },
        checks(runs.table),
    )


def checks(table: pd.DataFrame) -> list[Check]:
    """Return what must show of probes, of a table with a row for each run."""
    found = table[table["probes"] == WITH]
    return [
        Check(
            f"{situation}: time with the wrong congestion control, with probes",
            over_runs(found[found["situation"] == situation], "wrong_ratio"),
            high=0.1,
        )
        for situation in found["situation"].unique()
    ]


PROBE: Final = Part("probe", "whose queue it is, by a probe of the own rate", _grids, _findings, row)
