"""R-Hybrid: how many marks DCTCP alone gets, over paths that nothing else is judged on.

The paper takes more than one mark in an interval for congestion (section 4.3), but DCTCP works by marks.
Which share of a path's packets it gets marked depends on the window that each of its streams has there. The
largest share in any interval, over other paths with as many streams, is what `path.OWN_MARKS` comes from: of
all rounds' largest ones the upper end of the interval.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from random import Random
from typing import Any, Final

from experiments.metrics import NAN, within
from experiments.papers.paper import Findings, Part, Runs, Size
from experiments.papers.r_hybrid.path import (
    CE_THRESHOLD,
    DCTCP,
    MTU_BYTES,
    RATE_BYTES_PER_S,
    RTT_US,
    SETTLED_S,
    WINDOW_S,
    delayed,
    marked,
    path,
)
from experiments.papers.tables import Table
from experiments.results import Result
from experiments.sweep import Grid

PATHS: Final = 20
RATES_MBIT: Final = (100.0, 500.0)
RTTS_US: Final = (500, 4_000)
LEAST_BDP_PKTS: Final = 10.0
"""Below, streams have the least window that there is, and everything is marked."""
ROOM_BDP: Final = 6.0
"""Room in front of the link, as `path` has it [BDP]."""
ROUNDING: Final = 50
"""Of the threshold that comes out [marks]."""


def drawn() -> Mapping[str, Mapping[str, Any]]:
    """Return paths: marked from one RTT of queue on, as `path` is; none is that."""
    rng = Random("paths of which DCTCP's own marks are counted")
    paths: dict[str, dict[str, Any]] = {}
    while len(paths) < PATHS:
        mbit = round(math.exp(rng.uniform(*map(math.log, RATES_MBIT))))
        rtt_us = 2 * round(math.exp(rng.uniform(*map(math.log, RTTS_US))) / 2)
        rate_bytes_per_s = mbit * 125_000
        bdp_pkts = rate_bytes_per_s * rtt_us / 1e6 / MTU_BYTES
        as_judged = (rate_bytes_per_s / RATE_BYTES_PER_S, rtt_us / RTT_US)
        if bdp_pkts < LEAST_BDP_PKTS or all(math.isclose(one, 1, rel_tol=0.1) for one in as_judged):
            continue
        paths[f"{mbit} Mbit/s, {rtt_us / 1000:g} ms"] = {
            **marked(DCTCP),
            **delayed(rtt_us),
            "topology.forward.rate_bytes_per_s": rate_bytes_per_s,
            "topology.forward.buffer.packets": round(ROOM_BDP * bdp_pkts),
            CE_THRESHOLD: rtt_us,
        }
    return paths


def _grids(size: Size) -> list[Grid]:
    base = path("DCTCP's own marks", size.seconds(5, 10))
    return [Grid(base, {"path": drawn()}, size.name, size.times(1, 10))]


def row(result: Result) -> dict[str, Any]:
    """Return the most marks in an interval, and their share of what the path can carry in one."""
    regimes = within(result.regimes, SETTLED_S)
    most = float(regimes["ce_marks"].astype(float).max()) if len(regimes) else NAN
    rate_bytes_per_s = result.scenario.network.links[0].forward.rate_bytes_per_s or NAN
    return {"ce_marks_max": most, "own_marks_ratio": most * MTU_BYTES / (WINDOW_S * rate_bytes_per_s)}


def threshold(share: float, rate_bytes_per_s: float) -> int:
    """Return the marks in an interval that DCTCP alone does not exceed, rounded up.

    Args:
        share: Largest share of marked packets that was seen in an interval.
        rate_bytes_per_s: Of the path [bytes/s].
    """
    return ROUNDING * math.ceil(share * WINDOW_S * rate_bytes_per_s / MTU_BYTES / ROUNDING)


def _findings(runs: Runs) -> Findings:
    title = "Most marks in an interval of 100 ms that DCTCP alone gets"
    table = runs.table.assign(on="all")
    most = table.groupby(["on", "seed"])[["own_marks_ratio"]].max().reset_index()
    return Findings(
        [
            Table.of(table, title, ["path"], ["ce_marks_max", "own_marks_ratio"]),
            Table.of(most, "The largest share of all paths, in each round", ["on"], ["own_marks_ratio"]),
        ]
    )


OWN_MARKS_PART: Final = Part(
    "own-marks", "how many marks are DCTCP's own, over other paths", _grids, _findings, row
)
