"""R-TCP: a video that adapts its bitrate, over operators that limit the rate (figure 11).

dash.js plays twelve segments of four seconds in a browser. Each session has a pair of hosts of its own; those
that are compared run at the same time. The page and dash.js come over the same network, as in the paper, so
that they are what empties the bucket first.

The paper adapts with BOLA, Pensieve, RobustMPC and FastMPC. Here it is what dash.js has: BOLA, throughput,
and either of them as the buffer is full (`dynamic`). The paper says nothing of the client's buffer: that it
is 20 seconds is our choice, so that there are pauses between segments.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, Final

import pandas as pd

from experiments import plots
from experiments.metrics import viewing
from experiments.papers.estimates import IN_RUN, less, over_runs
from experiments.papers.paper import Findings, Part, Runs, Size
from experiments.papers.r_tcp.operators import LIMITED, OPERATORS, RECEIVER, SENDER, side_by_side
from experiments.papers.r_tcp.runs import LIMITED_BY, VARIANTS, name_of
from experiments.papers.tables import Check, Table
from experiments.plots import quantity
from experiments.results import Result
from experiments.runs import reading
from experiments.scenario import Flow, Scenario
from experiments.sweep import Grid
from experiments.traffic.spec import Dash, Traffic

ABRS: Final = {
    abr: {"flows.*.traffic": reading.full(Dash(abr=abr))} for abr in ("dynamic", "bola", "throughput")
}
"""How bitrates are chosen: name -> what it sets."""
DURATION_S: Final = 150.0
"""When a session is given up [s]: three times what there is to play."""
APART_S: Final = 2.0
"""How long after another a session starts [s]: a browser's start takes all of a processor for a second."""

PAPERS_REDUCTION: Final[Mapping[str, float]] = {"kernel/cubic": 0.284, "kernel/bbr": 0.399, "bbr3": 0.435}
"""By how much R-TCP reduces what is sent again, on average over all that the paper tried."""
MOST_LOST: Final = 0.03
"""What part of the viewer's quality the paper's R-TCP takes at most."""


def sessions(
    operators: Sequence[str], number: int, traffic: Traffic, apart_s: float, duration_s: float
) -> Scenario:
    """Return a run with a session of each algorithm in each network, side by side.

    Args:
        operators: Names of the networks.
        number: Of the round; it has limiters of its own.
        traffic: What each session does.
        apart_s: How long after another a session starts [s].
        duration_s: When all are given up [s].
    """
    pairs = [
        OPERATORS[operator].pair(
            number,
            [Flow(name, SENDER, RECEIVER, algorithm, traffic=traffic, start_s=round(place * apart_s, 1))],
            duration_s,
        )
        for place, (operator, algorithm) in enumerate(itertools.product(operators, VARIANTS))
        for name in [name_of(operator, number, algorithm)]
    ]
    return side_by_side(f"r-tcp: viewing {number}", pairs, duration_s, seed=number)


def viewed(result: Result) -> pd.DataFrame:
    """Return what a run came to: a row a session.

    Returns:
        The run's axes, `operator`, `algorithm`, `connections`, `retrans_pct`, and what
        `experiments.metrics.viewing` has.
    """
    flows = result.flows.set_index("flow")[["algorithm", "connections", "retrans_pct"]]
    flows = flows.assign(operator=flows.index.str.partition("-").get_level_values(0), **result.axes)
    return flows.join(viewing(result.playback)).reset_index(drop=True)


def row(result: Result) -> dict[str, Any]:
    """Return what a run adds to the table of runs: how many sessions came to their end."""
    return {"whole_sessions": result.flows["completion_s"].notna().sum()}


def claims(found: pd.DataFrame, reductions: Mapping[str, float], kept: str, whole: str) -> list[Check]:
    """Return what must show: less is sent again, and the viewer does not notice.

    Args:
        found: As `viewed`, of several runs.
        reductions: Control -> what part of its retransmissions the paper's R-TCP saves.
        kept: Column of what the viewer has.
        whole: Column of what changes are parts of.
    """
    return [
        check
        for control, least in reductions.items()
        for check in (
            Check(
                f"{control}: part of its retransmissions that R-TCP saves",
                less(1, over_runs(_quotients(found, control, "retrans_pct"), "value")),
                low=least,
                name=f"fewer, {control}",
            ),
            Check(
                f"{control}: what R-TCP changes in {quantity(kept).name}, by {quantity(whole).name}",
                over_runs(_changes(found, control, kept, whole), "value"),
                low=-MOST_LOST,
                name=f"kept, {control}",
            ),
        )
    ]


def _quotients(found: pd.DataFrame, control: str, column: str) -> pd.DataFrame:
    """Return the `value` under R-TCP by that under its control, for each pair of sessions."""
    pairs = _pairs(found, control, column)
    return pairs.assign(value=(pairs["r-tcp"] / pairs["control"]).where(pairs["control"] > 0))


def _changes(found: pd.DataFrame, control: str, kept: str, whole: str) -> pd.DataFrame:
    """Return by how much R-TCP changes a value (`value`), as parts of the control's mean of another."""
    pairs = _pairs(found, control, kept)
    mean = _pairs(found, control, whole)["control"].mean()
    return pairs.assign(value=(pairs["r-tcp"] - pairs["control"]) / mean)


def _pairs(found: pd.DataFrame, control: str, column: str) -> pd.DataFrame:
    """Return a value of sessions that were side by side, with and without R-TCP, and `IN_RUN`."""
    same = [name for name in ("operator", "abr", "seed", IN_RUN) if name in found]
    sides = {
        what: found[found["algorithm"] == algorithm].set_index(same)[column]
        for what, algorithm in (("control", control), ("r-tcp", LIMITED_BY[control]))
    }
    return pd.DataFrame(sides).dropna().reset_index()


# --- the part ----------------------------------------------------------------------------------------------


def _grids(size: Size) -> list[Grid]:
    operators, abrs = (LIMITED[:1], ["dynamic"]) if size.quick else (LIMITED, list(ABRS))
    return [
        Grid(
            sessions([operator], number, Dash(), APART_S, size.seconds(DURATION_S, DURATION_S)),
            {"abr": {abr: ABRS[abr] for abr in abrs}},
            f"{size.name}-{operator}-round-{number}",
        )
        for number in range(1, size.times(1, 10) + 1)
        for operator in operators
    ]


def _findings(runs: Runs) -> Findings:
    found = runs.rows(viewed)
    values = ["retrans_pct", "qoe", "bitrate_bytes_per_s", "stalled_s", "startup_s", "connections"]
    title = "A video of 48 seconds over operators that limit the rate"
    return Findings(
        [Table.of(found, title, ["operator", "abr", "algorithm"], values)],
        {
            f"video-{name}": plots.bars(
                found, column, group="operator", by="algorithm", title=f"Video over limited networks: {what}"
            )
            for name, column, what in (
                ("retrans", "retrans_pct", "sent again"),
                ("qoe", "qoe", "quality of experience"),
            )
        },
        # Stalls can cost all that the bitrates are worth: changes are not told as parts of what is left.
        claims(found, PAPERS_REDUCTION, "qoe", "quality"),
    )


VIDEO: Final = Part("video", "a video that adapts its bitrate", _grids, _findings, row, video=True)
