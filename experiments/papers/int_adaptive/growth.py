"""Figure 7: how the window grows by what telemetry says is free. A part of `paper.py`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pandas as pd

from experiments import plots
from experiments.metrics import NAN, within
from experiments.papers.int_adaptive.chain import OURS, chain, conditions
from experiments.papers.paper import Findings, Part, Runs, Size
from experiments.papers.tables import Table
from experiments.papers.variants import KERNEL, steered
from experiments.plots import Plot
from experiments.results import Result
from experiments.runs.grid import changed
from experiments.sweep import Grid

FINE_US: Final = 10_000
"""How often flows and links are sampled where a figure shows single events [us]."""

INCREMENTS: Final = {
    KERNEL: steered(KERNEL),
    **{
        f"CUBIC New {one}": steered(OURS, wireless_loss="cubic", increment=one, hystart=False)
        for one in (1, 2, 3)
    },
}
"""Without HyStart, which ends growth below the threshold where the RTT rises: here the room decides that."""

FAR_US: Final = 20_000
"""Delay of the wired hop where growth is looked at [us]: with 10 ms the path is full after one round trip."""

DEEP_PKTS: Final = 100
"""Room in front of it there [packets]: bursts of a window that grows fast fit into it."""

SHOWN_S: Final = 3.0
"""How much of a run Figure 7 shows [s]."""


def progression(
    name: str,
    duration_s: float,
    repeats: int,
    variants: Mapping[str, Mapping[str, Any]] = INCREMENTS,
) -> Grid:
    """Return the runs of Figure 7: growth by `increment` 1, 2, 3, and kernel CUBIC's.

    Args:
        name: Of the grid.
        duration_s: Length of each run [s].
        repeats: How often each is run.
        variants: What is run: name -> what it sets.
    """
    fields = {"delay_us": FAR_US, "buffer": {"packets": DEEP_PKTS}}
    far = {f"links.wired.{way}.{name}": fields[name] for way in ("forward", "backward") for name in fields}
    base = changed(chain("Figure 7", duration_s, sample_interval_us=FINE_US), far)
    return Grid(base, {"variant": variants}, name, repeats)


def _fig7_grids(size: Size) -> list[Grid]:
    return [progression(size.name, size.seconds(4, 15), size.times(6, 10))]


def path_full_s(samples: pd.DataFrame, path_bytes: float) -> float:
    """Return how long a flow's window took to fill the path [s]; NaN if it never did.

    Args:
        samples: Of the flow, in order of time: `t_s`, `cwnd_bytes`.
        path_bytes: What the path holds without a queue [bytes].
    """
    full = samples.loc[samples["cwnd_bytes"] >= path_bytes, "t_s"]
    return float(full.iloc[0] - samples["t_s"].iloc[0]) if len(full) else NAN


def progression_row(result: Result) -> dict[str, Any]:
    """Return what a run was, and how its window went."""
    samples = result.flow_samples
    link = result.scenario.network.links[1].forward
    path_bytes = (link.rate_bytes_per_s or NAN) * result.flows["base_rtt_us"].iloc[0] / 1e6
    settled = samples.loc[samples["t_s"] >= 1, "cwnd_bytes"]
    return {
        **conditions(result),
        "path_full_s": path_full_s(samples, path_bytes),
        "cwnd_bytes": settled.median(),
        "cwnd_spread_ratio": settled.std() / settled.mean(),
    }


def _fig7_findings(runs: Runs) -> Findings:
    values = ["path_full_s", "cwnd_bytes", "cwnd_spread_ratio", "goodput_bytes_per_s", "retrans_pkts"]
    title = "The window over time: growth by telemetry, and kernel CUBIC"
    return Findings(
        [Table.of(runs.table, title, ["variant"], [*values, "rtt_p95_us"])],
        {"figure-7": figure_7(runs)},
    )


def figure_7(runs: Runs) -> Plot:
    """Return the paper's figure: the windows of the first run of each variant."""
    first, samples = runs.first_of_variants, []
    for name, one in first.items():
        own = one.flow_samples
        samples.append(own.assign(flow=name, t_s=own["t_s"] - own["t_s"].iloc[0]))
    return plots.time_series(
        within(pd.concat(samples, ignore_index=True), 0, SHOWN_S),
        pd.DataFrame({"flow": list(first), "algorithm": list(first)}),
        panels=("cwnd_bytes", "srtt_us"),
        title="Progression of the window",
        subtitle="wired hop of 20 Mbit/s with room for 100 packets, RTT 44 ms, no random loss",
        note="one run each, one flow alone; time since its first acknowledgment",
    )


FIG7: Final = Part("fig7", "Figure 7: growth by telemetry", _fig7_grids, _fig7_findings, progression_row)
