"""Figure 7: growth of the window when telemetry controls it. A part of `paper.py`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pandas as pd

from experiments import plots
from experiments.metrics import NAN, within
from experiments.papers.int_adaptive.chain import OWN, chain, conditions
from experiments.papers.paper import Findings, Part, Runs, Size
from experiments.papers.tables import Table
from experiments.papers.variants import KERNEL, steered
from experiments.plots import Plot
from experiments.results import Result
from experiments.runs.grid import changed
from experiments.sweep import Grid

FINE_US: Final = 10_000
"""Sampling interval where a figure shows single events [us]."""

INCREMENTS: Final = {
    KERNEL: steered(KERNEL),
    **{
        f"CUBIC New {one}": steered(OWN, wireless_loss="cubic", increment=one, hystart=False)
        for one in (1, 2, 3)
    },
}
"""Without HyStart, which ends growth when the RTT rises; here the free room in the queue decides."""

FAR_US: Final = 20_000
"""Delay of the wired hop [us]: at an RTT of 10 ms one round trip would fill the path."""

DEEP_PKTS: Final = 100
"""Buffer of the wired hop [packets], which holds the bursts of a window that grows fast."""

SHOWN_S: Final = 3.0
"""How much of a run Figure 7 shows [s]."""


def progression(
    name: str, duration_s: float, repeats: int, variants: Mapping[str, Mapping[str, Any]] = INCREMENTS
) -> Grid:
    """Return the runs of Figure 7: with `increment` 1, 2 and 3, and with kernel CUBIC."""
    fields = {"delay_us": FAR_US, "buffer": {"packets": DEEP_PKTS}}
    far = {f"links.wired.{way}.{name}": fields[name] for way in ("forward", "backward") for name in fields}
    base = changed(chain("Figure 7", duration_s, sample_interval_us=FINE_US), far)
    return Grid(base, {"variant": variants}, name, repeats)


def _fig7_grids(size: Size) -> list[Grid]:
    return [progression(size.name, size.seconds(4, 15), size.times(6, 10))]


def path_full_s(samples: pd.DataFrame, path_bytes: float) -> float:
    """Return the time until a flow's window fills the path [s]; NaN if it never does."""
    full = samples.loc[samples["cwnd_bytes"] >= path_bytes, "t_s"]
    return float(full.iloc[0] - samples["t_s"].iloc[0]) if len(full) else NAN


def progression_row(result: Result) -> dict[str, Any]:
    """Return the conditions of a run, and figures of its window."""
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
    title = "The window over time: controlled by telemetry, and by kernel CUBIC"
    return Findings(
        [Table.of(runs.table, title, ["variant"], [*values, "rtt_p95_us"])], {"figure-7": figure_7(runs)}
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
        subtitle="wired hop of 20 Mbit/s with a buffer of 100 packets, RTT 44 ms, no random loss",
        note="one run each with one flow; time since its first acknowledgment",
    )


FIG7: Final = Part("fig7", "Figure 7: growth by telemetry", _fig7_grids, _fig7_findings, progression_row)
