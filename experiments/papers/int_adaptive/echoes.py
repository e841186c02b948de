"""Echoes in the ACKs compared with summaries: Figures 6 and 7, and a queue that does not report.

Parts of `paper.py` beyond the paper.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from experiments import plots
from experiments.netlab.spec import CoDel, DropTail, Int, IntNode
from experiments.papers.int_adaptive.chain import LOSSY_NODE, OWN, RADIO, chain, conditions, losses
from experiments.papers.int_adaptive.claims import ECHO_LOSSES, L1, L2, QUEUE_NAMES, by_echo
from experiments.papers.int_adaptive.growth import INCREMENTS, figure_7, progression, progression_row
from experiments.papers.paper import Findings, Part, Runs, Size
from experiments.papers.tables import Table
from experiments.papers.variants import KERNEL, steered
from experiments.results import Result
from experiments.sweep import Grid

ECHO: Final[Mapping[str, Any]] = {"topology.telemetry.echo": True}
"""Makes sinks echo telemetry to the sender in ACKs."""


def both(variants: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return kernel CUBIC, and each variant with summaries and with echoes."""
    every: dict[str, dict[str, Any]] = {KERNEL: steered(KERNEL)}
    for name, sets in variants.items():
        every |= {name: dict(sets), by_echo(name): {**sets, **ECHO}}
    return every


# --- Figure 6 by echoes ------------------------------------------------------------------------------------

NEW: Final = {L1: steered(OWN, wireless_loss="keep"), L2: steered(OWN, wireless_loss="mild")}


def _loss_grids(size: Size) -> list[Grid]:
    axes = {"loss": losses(ECHO_LOSSES), "variant": both(NEW)}
    return [Grid(chain("Figure 6 by echoes", size.seconds(6, 15)), axes, size.name, size.times(2, 10))]


def _loss_findings(runs: Runs) -> Findings:
    table = runs.table.sort_values("loss_ratio", kind="stable")
    values = ["goodput_bytes_per_s", "retrans_pct", "rtt_p95_us", "dropped_queue_pkts"]
    title = "Loss on the last hop: New L1 and L2 with summaries and with echoes"
    figure = plots.lines(
        table,
        "goodput_bytes_per_s",
        "loss_ratio",
        by="variant",
        log=True,
        title=title,
        subtitle="as Figure 6",
    )
    return Findings([Table.of(table, title, ["loss_ratio", "variant"], values)], {"echo-loss": figure})


# --- Figure 7 by echoes ------------------------------------------------------------------------------------


GROWTHS: Final = both({name: sets for name, sets in INCREMENTS.items() if name != KERNEL})


def _growth_grids(size: Size) -> list[Grid]:
    return [progression(size.name, size.seconds(4, 15), size.times(2, 10), GROWTHS)]


def _growth_findings(runs: Runs) -> Findings:
    values = ["path_full_s", "cwnd_spread_ratio", "goodput_bytes_per_s", "retrans_pkts", "rtt_p95_us"]
    title = "The window over time: growth with summaries, with echoes, and by kernel CUBIC"
    return Findings([Table.of(runs.table, title, ["variant"], values)], {"echo-growth": figure_7(runs)})


# --- a queue that does not report ---------------------------------------------------------------------------

SILENT: Final = Int(
    nodes=(
        IntNode("sta1", ("source", "transit")),
        IntNode(LOSSY_NODE, ("transit",), radio=RADIO),
        IntNode("sta2", ("sink",)),
    )
)
"""ap1, the node of the bottleneck, forwards packets without writing to them."""

SILENT_FLOWS: Final = 4
QUEUES: Final = {
    name: {f"links.wired.{way}.queue": queue for way in ("forward", "backward")}
    for name, queue in zip(QUEUE_NAMES, (DropTail(), CoDel()), strict=True)
}


def _silent_grids(size: Size) -> list[Grid]:
    base = chain("a silent queue", size.seconds(10, 30), flows=SILENT_FLOWS, telemetry=SILENT)
    axes = {"queue": QUEUES, "variant": both({L1: NEW[L1]})}
    return [Grid(base, axes, size.name, size.times(2, 10))]


def _silent_row(result: Result) -> dict[str, Any]:
    came_to = conditions(result)
    return {**came_to, "sent_once_pct": 100 - came_to["retrans_pct"]}


def _silent_findings(runs: Runs) -> Findings:
    values = ["jain_index", "retrans_pct", "goodput_bytes_per_s", "rtt_p95_us", "dropped_queue_pkts"]
    title = f"A bottleneck that does not report, {SILENT_FLOWS} flows, no random loss"
    return Findings(
        [Table.of(runs.table, title, ["queue", "variant"], values)],
        {
            "silent": plots.bars(
                runs.table, "retrans_pct", group="queue", by="variant", title=title, subtitle="retransmitted"
            )
        },
    )


ECHOED: Final = (
    Part("echo-loss", "Figure 6 with echoes in the ACKs", _loss_grids, _loss_findings, conditions),
    Part("echo-growth", "Figure 7 with echoes in the ACKs", _growth_grids, _growth_findings, progression_row),
    Part("silent", "a bottleneck that does not report", _silent_grids, _silent_findings, _silent_row),
)
