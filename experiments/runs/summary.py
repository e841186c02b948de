"""Tables in the summary of runs with media, in-band telemetry or regimes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from rich.table import Table

from experiments.runs.figures import figure

if TYPE_CHECKING:
    from experiments.results import Result

MAX_ROWS: Final = 40
"""Maximum number of rows of a table."""


def special_tables(result: Result) -> Iterator[Table]:
    """Yield a table for each of them that the run has."""
    if not result.media.empty:
        yield _media(result)
    if not result.int_summaries.empty:
        yield _telemetry(result)
    if not result.regimes.empty:
        yield _regimes(result)


def _media(result: Result) -> Table:
    table = Table(title="media")
    table.add_column("flow")
    units = (("sent", "packets"), ("lost", "%"), ("late", "%"), ("delay p50", "ms"), ("delay p95", "ms"))
    for heading, unit in (*units, ("circuit breaker", "at")):
        table.add_column(f"{heading}\n[not bold]{unit}", justify="right")
    for row in result.media.head(MAX_ROWS).to_dict("records"):
        tripped = row["breaker_s"] == row["breaker_s"]
        table.add_row(
            str(row["flow"]),
            figure(row["sent_pkts"], 1, 0),
            figure(row["lost_pct"], 1, 2),
            figure(row["late_pct"], 1, 2),
            figure(row["delay_p50_us"], 1e3, 1),
            figure(row["delay_p95_us"], 1e3, 1),
            f"{row['breaker']}, {row['breaker_s']:.1f} s" if tripped else "none",
        )
    return table


def _telemetry(result: Result) -> Table:
    from experiments import metrics

    summaries, age_us = result.int_summaries, result.int_decisions["age_us"]
    table = Table(title=f"in-band telemetry: {len(summaries)} summaries")
    for heading in ("flow", "direction", "node"):
        table.add_column(heading)
    for heading in ("queue", "minimum free", "arrivals", "flows"):
        unit = {"arrivals": "packets/s", "flows": "maximum"}.get(heading, "packets")
        table.add_column(f"{heading}\n[not bold]{unit}", justify="right")
    for row in metrics.int_nodes(result.int_hops).head(MAX_ROWS).to_dict("records"):
        table.add_row(
            str(row["flow"]),
            "reverse" if row["backward"] else "forward",
            str(row["node"]),
            figure(row["queue_depth_pkts"], 1, 1),
            figure(row["queue_free_pkts"], 1, 1),
            figure(row["arrival_pkts_per_s"], 1, 0),
            figure(row["flow_count"], 1, 0),
        )
    causes = ("congestion", "link", "unknown")
    lost = ", ".join(f"{summaries[f'lost_{cause}_pkts'].sum():.0f} {cause}" for cause in causes)
    table.caption = f"lost packets by cause: {lost}"
    if len(age_us):
        p50_ms, p99_ms = (age_us.quantile(share) / 1e3 for share in (0.5, 0.99))
        table.caption += f"; age at the decision: p50 {p50_ms:.1f} ms, p99 {p99_ms:.1f} ms"
    return table


def _regimes(result: Result) -> Table:
    from telemetry.regime import SHARED

    table = Table(title="regimes decided by receivers")
    for heading in ("receiver", "peer"):
        table.add_column(heading)
    for heading in ("SHARED\n[not bold]% of the time", "changes"):
        table.add_column(heading, justify="right")
    for (host, peer), own in result.regimes.groupby(["host", "peer"], sort=False):
        shared, changes = (own["regime"] == SHARED).mean(), own["switched"].sum()
        table.add_row(str(host), str(peer), figure(shared, 0.01, 0), figure(changes, 1, 0))
    counts = result.regime_events["event"].value_counts()
    if len(counts):
        table.caption = "flows: " + ", ".join(f"{name} {count}" for name, count in counts.items())
    return table
