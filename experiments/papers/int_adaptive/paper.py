"""Transport protocols with in-band telemetry and eBPF (Bhat, Haxhibeqiri, Moerman, Hoebeke): experiments.

The network is the chain of the paper's Figure 3 (`chain.py`). Figures 4 and 5 show the telemetry of a flow,
and Figures 6 and 7 the algorithms that use it. Beyond the paper: whether causes of losses are correct
(`truth.py`), what telemetry costs, and its age when an algorithm has it (`quality.py`).
`docs/papers/int-adaptive.md` has the results.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import pandas as pd

from experiments import plots
from experiments.metrics import NAN
from experiments.papers.int_adaptive.chain import BOTTLENECK_NODE, OWN, chain, conditions, losses, seen
from experiments.papers.int_adaptive.claims import CLAIMS, L1, L2
from experiments.papers.int_adaptive.echoes import ECHOED
from experiments.papers.int_adaptive.growth import FIG7, FINE_US
from experiments.papers.int_adaptive.quality import CAUSE, CHAIN, OVERHEAD
from experiments.papers.paper import Findings, Paper, Part, Runs, Size
from experiments.papers.tables import Table
from experiments.papers.variants import KERNEL, steered
from experiments.plots import Plot
from experiments.results import Result
from experiments.sweep import Grid

VARIANTS: Final = {
    KERNEL: steered(KERNEL),
    L1: steered(OWN, wireless_loss="keep"),
    L2: steered(OWN, wireless_loss="mild"),
}
LOSSES: Final = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2)
CLAIM_LOSS: Final = 0.2


# --- Figures 4 and 5: what telemetry shows of kernel CUBIC -------------------------------------------------

EVENT_LOSS: Final = 0.002
_APART_S: Final = 0.1
"""Losses that are closer are one event; the window is measured for this time after an event [s]."""


def _fig4_grids(size: Size) -> list[Grid]:
    base = chain("Figure 4", size.seconds(10, 30), sample_interval_us=FINE_US)
    return [Grid(base, {"loss": losses([EVENT_LOSS])}, size.name, size.times(6, 10))]


def loss_events(summaries: pd.DataFrame) -> pd.DataFrame:
    """Return the single losses that telemetry reported, and the window before and after them.

    Args:
        summaries: Of one flow, in order of time: `t_s`, `lost_pkts`, `cwnd_bytes` as carried in packets.

    Returns:
        Columns `t_s`, `lost_pkts`, `before_bytes`, `after_bytes`: the window in the summary before, and the
        minimum within 100 ms. A row for each loss without another in the 100 ms before it, and with a window
        on both sides.
    """
    lost = summaries[summaries["lost_pkts"] > 0]
    rows = []
    last_s = -_APART_S
    for t_s, n_pkts in zip(lost["t_s"], lost["lost_pkts"], strict=True):
        alone, last_s = t_s - last_s >= _APART_S, t_s
        before = summaries.loc[summaries["t_s"] < t_s, "cwnd_bytes"].dropna()
        after = summaries.loc[summaries["t_s"].between(t_s, t_s + _APART_S), "cwnd_bytes"].dropna()
        if alone and len(before) and len(after):
            rows.append((t_s, n_pkts, before.iloc[-1], after.min()))
    return pd.DataFrame(rows, columns=["t_s", "lost_pkts", "before_bytes", "after_bytes"])


def _fig4_row(result: Result) -> dict[str, Any]:
    own = seen(result, BOTTLENECK_NODE)
    events = loss_events(own)
    smaller = events["after_bytes"] < events["before_bytes"]
    return {
        **conditions(result),
        "telemetry_lost_pkts": own["lost_pkts"].sum(),
        "loss_events": len(events),
        "smaller_window_ratio": smaller.mean() if len(events) else NAN,
        "window_left_ratio": (events["after_bytes"] / events["before_bytes"]).median(),
    }


def _fig4_findings(runs: Runs) -> Findings:
    values = ["telemetry_lost_pkts", "dropped_loss_pkts", "dropped_queue_pkts", "loss_events"]
    title = "Losses that telemetry reports, and kernel CUBIC's window"
    return Findings(
        [Table.of(runs.table, title, ["loss_ratio"], [*values, "smaller_window_ratio", "window_left_ratio"])],
        {"figure-4": over_time(runs.results[0], ["cwnd_bytes", "lost_pkts"], title)},
    )


def _fig5_grids(size: Size) -> list[Grid]:
    base = chain("Figure 5", size.seconds(10, 30), sample_interval_us=FINE_US)
    return [Grid(base, {"loss": losses([0.0])}, size.name, size.times(6, 10))]


def _fig5_row(result: Result) -> dict[str, Any]:
    own = seen(result, BOTTLENECK_NODE)
    return {
        **conditions(result),
        "queue_depth_pkts": own["queue_depth_pkts"].mean(),
        "telemetry_lost_pkts": own["lost_pkts"].sum(),
        "correlation": own["cwnd_bytes"].astype(float).corr(own["queue_depth_pkts"].astype(float)),
    }


def _fig5_findings(runs: Runs) -> Findings:
    title = "The queue of ap1's wired link, and kernel CUBIC's window"
    values = ["correlation", "queue_depth_pkts", "telemetry_lost_pkts", "dropped_queue_pkts"]
    return Findings(
        [Table.of(runs.table, title, ["loss_ratio"], values)],
        {"figure-5": over_time(runs.results[0], ["cwnd_bytes", "queue_depth_pkts"], title)},
    )


def over_time(result: Result, columns: Sequence[str], title: str) -> Plot:
    """Return the telemetry of flow and bottleneck over time (Figures 4 and 5), a panel per column."""
    return plots.time_series(
        seen(result, BOTTLENECK_NODE),
        result.flows,
        panels=columns,
        title=title,
        subtitle="as reported by the sink, summaries of 10 ms",
        note=f"one run, seed {result.scenario.seed}",
    )


# --- Figure 6 ----------------------------------------------------------------------------------------------


def throughput(
    name: str,
    duration_s: float,
    repeats: int,
    ratios: Sequence[float] = LOSSES,
    variants: Mapping[str, Mapping[str, Any]] = VARIANTS,
) -> Grid:
    """Return the runs of Figure 6."""
    axes = {"loss": losses(ratios), "variant": variants}
    return Grid(chain("Figure 6", duration_s), axes, name, repeats)


def _fig6_grids(size: Size) -> list[Grid]:
    if not size.quick:
        return [throughput("full", size.seconds(0, 15), size.times(0, 10))]
    return [
        throughput("quick-claim", size.seconds(6, 0), size.times(10, 0), [0.0, CLAIM_LOSS]),
        throughput("quick-between", size.seconds(4, 0), size.times(2, 0), LOSSES[1:-1]),
    ]


def _fig6_findings(runs: Runs) -> Findings:
    table = runs.table.sort_values("loss_ratio", kind="stable")
    values = [
        "goodput_bytes_per_s",
        "throughput_bytes_per_s",
        "retrans_pct",
        "rtt_p95_us",
        "dropped_queue_pkts",
    ]
    title = "Loss on the last hop: kernel CUBIC, New L1, New L2"
    return Findings([Table.of(table, title, ["loss_ratio", "variant"], values)], figure_6(table))


def figure_6(table: pd.DataFrame) -> dict[str, Plot]:
    """Return the paper's figure as bars, and as lines on a logarithmic scale."""
    words: dict[str, Any] = {
        "by": "variant",
        "title": "Goodput over a lossy hop",
        "subtitle": "wired hop of 20 Mbit/s with a buffer of 50 packets, RTT 10 ms, loss in both directions",
    }
    return {
        "figure-6": plots.bars(table, "goodput_bytes_per_s", group="loss_ratio", **words),
        "figure-6-log": plots.lines(table, "goodput_bytes_per_s", "loss_ratio", log=True, **words),
    }


_PARTS: Final = (
    Part(
        "fig4",
        "Figure 4: losses reported by telemetry, and the window",
        _fig4_grids,
        _fig4_findings,
        _fig4_row,
    ),
    Part("fig5", "Figure 5: the queue, and the window", _fig5_grids, _fig5_findings, _fig5_row),
    Part("fig6", "Figure 6: throughput over a lossy hop", _fig6_grids, _fig6_findings, conditions),
    FIG7,
    *ECHOED,
    CAUSE,
    OVERHEAD,
    CHAIN,
)

PAPER: Final = Paper.of(
    "int-adaptive",
    "Adaptive Transport Layer Protocols using In-band Network Telemetry and eBPF",
    _PARTS,
    CLAIMS,
)
