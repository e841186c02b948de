"""R-TCP: adaptive video over operators that limit the rate (figure 11).

dash.js plays twelve segments of four seconds in a browser. Each session has its own pair of hosts; compared
sessions run simultaneously. The page and dash.js are loaded over the same network, as in the paper, and so
empty the bucket first.

The paper adapts with BOLA, Pensieve, RobustMPC and FastMPC; here dash.js adapts with BOLA, by throughput, or
with one of these two depending on the buffer (`dynamic`). ccplane chose the client's buffer of 20 s, so that
there are pauses between segments.
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
from experiments.scenario import FlowSpec, Scenario
from experiments.sweep import Grid
from experiments.traffic.spec import Dash, Traffic

ABRS: Final = {
    abr: {"flows.*.traffic": reading.full(Dash(abr=abr))} for abr in ("dynamic", "bola", "throughput")
}
"""Rule that chooses bitrates: name -> fields."""
DURATION_S: Final = 150.0
"""When a session is aborted [s]: three times the video's length."""
APART_S: Final = 2.0
"""Time between starts of sessions [s]: a browser's start takes a processor for a second."""

PAPERS_REDUCTION: Final[Mapping[str, float]] = {"kernel/cubic": 0.284, "kernel/bbr": 0.399, "bbr3": 0.435}
"""Share of retransmissions that R-TCP avoids, averaged over all of the paper's cases."""
MAX_LOST: Final = 0.03
"""Maximum share of the viewer's quality that R-TCP costs in the paper."""


def sessions(
    operators: Sequence[str], number: int, traffic: Traffic, apart_s: float, duration_s: float
) -> Scenario:
    """Return a run with a session of each algorithm in each network."""
    pairs = [
        OPERATORS[operator].pair(
            number,
            [FlowSpec(name, SENDER, RECEIVER, algorithm, traffic=traffic, start_s=round(place * apart_s, 1))],
            duration_s,
        )
        for place, (operator, algorithm) in enumerate(itertools.product(operators, VARIANTS))
        for name in [name_of(operator, number, algorithm)]
    ]
    return side_by_side(f"r-tcp: viewing {number}", pairs, duration_s, seed=number)


def viewed(result: Result) -> pd.DataFrame:
    """Return a row per session: axes, `operator`, `algorithm`, `connections`, `retrans_pct`, `viewing`."""
    flows = result.flows.set_index("flow")[["algorithm", "connections", "retrans_pct"]]
    flows = flows.assign(operator=flows.index.str.partition("-").get_level_values(0), **result.axes)
    return flows.join(viewing(result.playback)).reset_index(drop=True)


def row(result: Result) -> dict[str, Any]:
    """Return the number of sessions that reached their end."""
    return {"whole_sessions": result.flows["completion_s"].notna().sum()}


def claims(found: pd.DataFrame, reductions: Mapping[str, float], kept: str, whole: str) -> list[Check]:
    """Check that R-TCP avoids retransmissions without a loss of quality.

    Args:
        found: As `viewed`, of several runs.
        reductions: Control -> share of its retransmissions that R-TCP avoids in the paper.
        kept: Column of the quality.
        whole: Column to whose mean changes are relative.
    """
    return [
        check
        for control, minimum in reductions.items()
        for check in (
            Check(
                f"{control}: share of its retransmissions that R-TCP avoids",
                less(1, over_runs(_quotients(found, control, "retrans_pct"), "value")),
                low=minimum,
                name=f"fewer, {control}",
            ),
            Check(
                f"{control}: change of {quantity(kept).name} by R-TCP, relative to {quantity(whole).name}",
                over_runs(_changes(found, control, kept, whole), "value"),
                low=-MAX_LOST,
                name=f"kept, {control}",
            ),
        )
    ]


def _quotients(found: pd.DataFrame, control: str, column: str) -> pd.DataFrame:
    """Return the ratio of a value under R-TCP to that without (`value`), for each pair of sessions."""
    pairs = _pairs(found, control, column)
    return pairs.assign(value=(pairs["r-tcp"] / pairs["control"]).where(pairs["control"] > 0))


def _changes(found: pd.DataFrame, control: str, kept: str, whole: str) -> pd.DataFrame:
    """Return the change of a value by R-TCP (`value`), relative to the control's mean of another."""
    pairs = _pairs(found, control, kept)
    mean = _pairs(found, control, whole)["control"].mean()
    return pairs.assign(value=(pairs["r-tcp"] - pairs["control"]) / mean)


def _pairs(found: pd.DataFrame, control: str, column: str) -> pd.DataFrame:
    """Return a value of compared sessions, with and without R-TCP, and `IN_RUN`."""
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
    title = "A video of 48 s over operators that limit the rate"
    return Findings(
        [Table.of(found, title, ["operator", "abr", "algorithm"], values)],
        {
            f"video-{name}": plots.bars(
                found, column, group="operator", by="algorithm", title=f"Video over limited networks: {what}"
            )
            for name, column, what in (
                ("retrans", "retrans_pct", "retransmissions"),
                ("qoe", "qoe", "quality of experience"),
            )
        },
        # Stalls can leave the QoE near 0, so changes are relative to the bitrates' worth.
        claims(found, PAPERS_REDUCTION, "qoe", "quality"),
    )


VIDEO: Final = Part("video", "Figure 11: adaptive video", _grids, _findings, row, video=True)
