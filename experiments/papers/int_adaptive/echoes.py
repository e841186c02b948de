"""Telemetry in the ACKs beside summaries: Figures 6 and 7 by both, a silent queue, age, and another law.

Nothing of this is in the paper. Parts of `paper.py`; `docs/papers/int-adaptive.md` says what came out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
import pandas as pd

from experiments import plots
from experiments.netlab.spec import CoDel, DropTail, Int, IntNode
from experiments.papers.int_adaptive.chain import (
    BOTTLENECK,
    LOSSY_NODE,
    OURS,
    RADIO,
    TELEMETRY,
    chain,
    conditions,
    losing,
    losses,
    sampled,
)
from experiments.papers.int_adaptive.claims import ECHO_LOSSES, L1, L2, QUEUE_NAMES, by_echo
from experiments.papers.int_adaptive.growth import INCREMENTS, figure_7, progression, progression_row
from experiments.papers.paper import Findings, Part, Runs, Size
from experiments.papers.tables import Table
from experiments.papers.variants import KERNEL, steered
from experiments.results import Result
from experiments.runs.grid import changed
from experiments.sweep import Grid

ECHO: Final[Mapping[str, Any]] = {"topology.telemetry.echo": True}
"""What has sinks tell the sender in ACKs."""


def both(variants: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return kernel CUBIC, and each variant by summaries and by echoes."""
    every: dict[str, dict[str, Any]] = {KERNEL: steered(KERNEL)}
    for name, sets in variants.items():
        every |= {name: dict(sets), by_echo(name): {**sets, **ECHO}}
    return every


# --- Figure 6 by echoes ------------------------------------------------------------------------------------

NEW: Final = {L1: steered(OURS, wireless_loss="keep"), L2: steered(OURS, wireless_loss="mild")}


def _loss_grids(size: Size) -> list[Grid]:
    axes = {"loss": losses(ECHO_LOSSES), "variant": both(NEW)}
    return [Grid(chain("Figure 6 by echoes", size.seconds(6, 15)), axes, size.name, size.times(2, 10))]


def _loss_findings(runs: Runs) -> Findings:
    table = runs.table.sort_values("loss_ratio", kind="stable")
    values = ["goodput_bytes_per_s", "retrans_pct", "rtt_p95_us", "dropped_queue_pkts"]
    title = "Loss on the last hop: New L1 and L2 by summaries and by echoes"
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
    title = "The window over time: growth by summaries, by echoes, and kernel CUBIC"
    return Findings([Table.of(runs.table, title, ["variant"], values)], {"echo-growth": figure_7(runs)})


# --- a queue that tells nothing ----------------------------------------------------------------------------

SILENT: Final = Int(
    nodes=(
        IntNode("sta1", ("source", "transit")),
        IntNode(LOSSY_NODE, ("transit",), radio=RADIO),
        IntNode("sta2", ("sink",)),
    )
)
"""The bottleneck's node, ap1, passes packets on and writes nothing."""

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
    title = f"A bottleneck that tells nothing, {SILENT_FLOWS} flows, no random loss"
    return Findings(
        [Table.of(runs.table, title, ["queue", "variant"], values)],
        {
            "silent": plots.bars(
                runs.table, "retrans_pct", group="queue", by="variant", title=title, subtitle="retransmitted"
            )
        },
    )


# --- age ---------------------------------------------------------------------------------------------------

AGE_LOSS: Final = 0.05
AGED: Final = "experiments.papers.int_adaptive.aged:AgedIntCubic"


def _age_grids(size: Size) -> list[Grid]:
    base = changed(chain("age of telemetry", size.seconds(6, 15)), losing(AGE_LOSS))
    variants = both({L1: steered(AGED, wireless_loss="keep")})
    del variants[KERNEL]
    return [Grid(base, {"variant": variants}, size.name, size.times(2, 10))]


def ages_us(result: Result) -> pd.Series:
    """Return how long before a loss was judged the newest packet had left that it was judged by [us]."""
    judged = result.int_decisions["interval_us"] == 0
    return result.int_decisions.loc[judged, "age_us"].astype(float)


def _age_row(result: Result) -> dict[str, Any]:
    ages = ages_us(result)
    return {
        **conditions(result),
        **{f"age_p{q}_us": ages.quantile(q / 100) for q in (50, 99)},
        "decisions": len(ages),
    }


def _age_findings(runs: Runs) -> Findings:
    values = ["age_p50_us", "age_p99_us", "decisions", "rtt_p50_us", "goodput_bytes_per_s"]
    title = "Age of the telemetry that losses are judged by, since its newest packet left the sender"
    every = pd.concat(
        [pd.DataFrame({"age_us": ages_us(one), "variant": one.axes["variant"]}) for one in runs.results],
        ignore_index=True,
    )
    return Findings(
        [Table.of(runs.table, title, ["variant"], values)],
        {"age": plots.cdf(every, "age_us", by="variant", log=True, title=title, subtitle="5 % loss")},
    )


# --- a law of today ----------------------------------------------------------------------------------------

LAW_FLOWS: Final = (1, 2, 8)
LAW_DELAY_US: Final = 20_000
LAW_QUEUE_PKTS: Final = 100
_LAW_ECHO: Final = msgspec.structs.replace(TELEMETRY, echo=True)


def _law_grids(size: Size) -> list[Grid]:
    fields = {"delay_us": LAW_DELAY_US, "buffer": {"packets": LAW_QUEUE_PKTS}}
    far = {f"links.wired.{way}.{name}": fields[name] for way in ("forward", "backward") for name in fields}
    variants = {KERNEL: steered(KERNEL), "cubic": steered("cubic"), "hpcc": steered("hpcc")}
    return [
        Grid(
            changed(
                chain(f"HPCC, {flows} flows", size.seconds(10, 30), flows=flows, telemetry=_LAW_ECHO), far
            ),
            {"variant": variants},
            f"{size.name}-{flows}",
            size.times(2, 10),
        )
        for flows in LAW_FLOWS
    ]


def _law_row(result: Result) -> dict[str, Any]:
    link = sampled(result, BOTTLENECK)
    settled = link.loc[link["t_s"] >= result.scenario.duration_s / 3, "queue_pkts"].astype(float)
    return {
        **conditions(result),
        "queue_mean_pkts": settled.mean(),
        "queue_p95_pkts": settled.quantile(0.95),
    }


def _law_findings(runs: Runs) -> Findings:
    values = ["queue_mean_pkts", "queue_p95_pkts", "goodput_bytes_per_s", "jain_index", "rtt_p95_us"]
    title = "HPCC by echoes, and CUBIC"
    return Findings(
        [Table.of(runs.table, title, ["flows", "variant"], [*values, "dropped_queue_pkts"])],
        {
            "hpcc": plots.bars(
                runs.table,
                "queue_mean_pkts",
                group="flows",
                by="variant",
                title="Queue at the bottleneck",
                subtitle="20 Mbit/s, RTT 44 ms, room for 100 packets",
            )
        },
    )


ECHOED: Final = (
    Part("echo-loss", "Figure 6 by echoes in the ACKs", _loss_grids, _loss_findings, conditions),
    Part("echo-growth", "Figure 7 by echoes in the ACKs", _growth_grids, _growth_findings, progression_row),
    Part("silent", "a bottleneck that tells nothing", _silent_grids, _silent_findings, _silent_row),
    Part("age", "age of telemetry: echoes, summaries", _age_grids, _age_findings, _age_row),
    Part("hpcc", "HPCC by echoes, beside CUBIC", _law_grids, _law_findings, _law_row),
)
