"""R-TCP: how often (eta) and how far (gamma) flows probe above the limit (Tables 6 and 7)."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import pandas as pd

from ccp_algs.rtcp.options import Options
from experiments import plots
from experiments.papers.paper import Findings, Part, Runs, Size
from experiments.papers.r_tcp.download import MB, downloads
from experiments.papers.r_tcp.runs import R_BBR, R_CUBIC, apart, conditions, transfers
from experiments.papers.tables import Table
from experiments.plots import label
from experiments.results import Result
from experiments.sweep import Grid

ETAS: Final = (15, 20, 25)
GAMMAS: Final = (0.1, 0.15, 0.2, 0.25)
QUICK: Final = ((20, 0.1), (20, 0.2), (25, 0.1))
WAITS_PKTS: Final = (0, Options().probe_every_pkts)
"""Number of packets that are also delivered between probes: the paper's, and ccplane's default."""
OPERATORS: Final = ("op2", "op3")

_PROBING: Final = ("probe_every_rounds", "probe_gain_ratio", "probe_every_pkts")


def _grids(size: Size) -> list[Grid]:
    points = QUICK if size.quick else [(eta, gamma) for eta in ETAS for gamma in GAMMAS]
    base_of = partial(
        downloads,
        "R-TCP: tuning",
        2 * MB if size.quick else 8 * MB,
        operators=OPERATORS,
        algorithms=(R_CUBIC, R_BBR),
    )
    axis = {
        f"eta {eta}, gamma {100 * gamma:g} %, {pkts} packets": {
            "flows.*.params": dict(zip(_PROBING, (eta, gamma, pkts), strict=True))
        }
        for eta, gamma in points
        for pkts in WAITS_PKTS
    }
    return apart(size.name, size.times(6, 10), base_of, {"probing": axis})


def tuned(result: Result) -> pd.DataFrame:
    """Return the rows of `transfers`, with the tuned parameters."""
    params: dict[str, Any] = result.scenario.flows[0].params
    return transfers(result).assign(**{name: params[name] for name in _PROBING})


def _findings(runs: Runs) -> Findings:
    rows = runs.rows(tuned).sort_values(["algorithm", "operator", *_PROBING], kind="stable")
    values = ["retrans_pct", "goodput_bytes_per_s"]
    waits = rows["probe_every_pkts"].map(lambda pkts: f", {pkts} packets")
    named = rows.assign(case=rows["algorithm"].map(label) + ", " + rows["operator"] + waits)
    return Findings(
        [Table.of(rows, "Parameters of probes", ["algorithm", "operator", *_PROBING], values)],
        {
            f"tuning-{name}": plots.panels(
                named,
                column,
                "probe_gain_ratio",
                "case",
                by="probe_every_rounds",
                title=f"{what} by gamma, a line per eta",
            )
            for column, name, what in (
                ("retrans_pct", "retrans", "Retransmissions"),
                ("goodput_bytes_per_s", "goodput", "Goodput"),
            )
        },
    )


TUNING: Final = Part(
    "tuning",
    "Tables 6 and 7: eta and gamma",
    _grids,
    _findings,
    conditions,
    compared=lambda runs: runs.rows(tuned),
)
