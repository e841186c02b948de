"""Where packets were lost, as the sink has it, against what the emulator's links counted: beyond the paper.

Of a run the sums over all flows are compared: what the queues of the data's way dropped and what its links
lost, by the links themselves, against what the summaries told. Gap by gap this is done with captures (the
part `cause`), and in the tests of `native/ccp-int` and `native/ccp-emu`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from experiments import plots
from experiments.events import SetLink
from experiments.metrics import NAN
from experiments.netlab.spec import Int, IntNode
from experiments.papers.estimates import over_runs
from experiments.papers.int_adaptive.chain import BOTTLENECK_NODE, OURS, QUEUE_PKTS, chain, conditions
from experiments.papers.paper import Findings, Part, Runs, Size
from experiments.papers.tables import Check, Table
from experiments.papers.variants import KERNEL, steered
from experiments.results import Result
from experiments.runs.grid import changed
from experiments.sweep import Grid

ALL_TELL: Final = Int(
    nodes=(
        IntNode("sta1", ("source", "transit")),
        IntNode("ap1", ("transit",)),
        IntNode("ap2", ("transit",)),
        IntNode("sta2", ("sink",)),
    )
)
"""Radios are left out: with them, three nodes leave less of a packet than IPv6 needs."""
HOPS: Final[Mapping[str, Int]] = {
    "all tell": ALL_TELL,
    "ap1 silent": msgspec.structs.replace(
        ALL_TELL, nodes=tuple(one for one in ALL_TELL.nodes if one.name != BOTTLENECK_NODE)
    ),
}
"""The second lacks the node with the queue that fills."""
VARIANTS: Final = {
    KERNEL: steered(KERNEL),
    "kernel/reno": steered("kernel/reno"),
    "kernel/bbr": steered("kernel/bbr"),
    "flex_cubic": steered("flex_cubic"),
    OURS: steered(OURS),
}
MANY_PKTS: Final = 20_000
FLOWS: Final = (1, 2, 8, 32)
LOSSES: Final = (0.01, 0.05, 0.2)
QUEUES: Final = {
    name: {"events.1.fields": {"buffer": {"packets": pkts}}}
    for name, pkts in (("fills", QUEUE_PKTS), ("never full", MANY_PKTS))
}
ROOMY: Final = {
    f"links.{link}.{way}.buffer": {"packets": MANY_PKTS}
    for link in ("wireless1", "wired")
    for way in ("forward", "backward")
}
"""Until packets begin to be lost, all flows have opened their connections."""
DATA: Final = ("wireless1>", "wired>", "wireless2>")
"""Links on the way of the data."""
BEGINS_S: Final = 0.5
"""When packets begin to be lost [s]."""
MOST_WRONG: Final = 0.0
LEAST_RIGHT: Final = 0.99


def _grids(size: Size) -> list[Grid]:
    grids = []
    for hops, telemetry in HOPS.items():
        for flows in FLOWS:
            base = chain(f"located, {hops}", size.seconds(3, 3), flows=flows, telemetry=telemetry)
            base = changed(base, ROOMY).replace(
                events=(
                    SetLink(BEGINS_S, "wireless2", losing(LOSSES[0])),
                    SetLink(BEGINS_S, "wired", QUEUES["fills"]["events.1.fields"]),
                )
            )
            loss = {f"{100 * ratio:g} %": {"events.0.fields": losing(ratio)} for ratio in LOSSES}
            axes = {"queue": QUEUES, "loss": loss, "variant": VARIANTS}
            name = f"{size.name}-{hops.replace(' ', '-')}-{flows}"
            grids.append(Grid(base, axes, name, size.times(1, 3)))
    return grids


def losing(ratio: float) -> dict[str, Any]:
    """Return what of the last hop changes when packets begin to be lost."""
    return {"loss": {"kind": "bernoulli", "ratio": ratio}}


def causes(result: Result) -> dict[str, float]:
    """Return what of the lost packets the sink found the cause of.

    Args:
        result: A run of the chain.

    Returns:
        `lost_pkts` that the sink missed; `congestion_pkts` that queues of the data's way dropped; shares of
        the lost ones: `right_ratio`, `unknown_ratio`, `wrong_ratio`, NaN if none was lost. What is told of
        one cause beyond what there was is wrong.
    """
    links = [result.metadata["links"].get(name, {}) for name in DATA]
    in_queues = ("dropped_queue_pkts", "dropped_aqm_pkts", "dropped_policer_pkts")
    true = {
        "congestion": sum(link.get(counter, 0) for link in links for counter in in_queues),
        "link": sum(link.get("dropped_loss_pkts", 0) for link in links),
    }
    told_of = result.int_summaries
    told_of = told_of[~told_of["backward"]]
    told = {
        one: int(told_of[f"lost_{one}_pkts"].fillna(0).sum()) for one in ("congestion", "link", "unknown")
    }
    wrong = sum(max(0, told[one] - true[one]) for one in true)
    right = sum(min(told[one], true[one]) for one in true)
    lost = sum(told.values())
    shares = {"right": right, "unknown": told["unknown"], "wrong": wrong}
    return {
        "lost_pkts": lost,
        "congestion_pkts": true["congestion"],
        **{f"{name}_ratio": pkts / lost if lost else NAN for name, pkts in shares.items()},
    }


def _row(result: Result) -> dict[str, Any]:
    telemetry = result.scenario.network.telemetry
    names = {one.name for one in telemetry.nodes} if telemetry is not None else set()
    hops = next(name for name, one in HOPS.items() if names == {node.name for node in one.nodes})
    begins = result.scenario.events[0]
    assert isinstance(begins, SetLink)
    loss_ratio = begins.fields["loss"]["ratio"]
    return {**conditions(result), "hops": hops, "loss_ratio": loss_ratio, **causes(result)}


def _findings(runs: Runs) -> Findings:
    table = runs.table
    values = ["lost_pkts", "congestion_pkts", "right_ratio", "unknown_ratio", "wrong_ratio"]
    checks = []
    for hops, own in table.groupby("hops", sort=False):
        wrong = over_runs(own, "wrong_ratio")
        checks.append(Check(f"{hops!s}: no loss has a wrong cause", wrong, high=MOST_WRONG))
        if hops == "all tell":
            right = over_runs(own, "right_ratio")
            checks.append(Check(f"{hops!s}: 99 % of losses have the right cause", right, low=LEAST_RIGHT))
    tables = [
        Table.of(table, f"Where packets were lost, as the sink has it, by {what}", ["hops", *by], values)
        for what, by in (
            ("algorithm", ["variant"]),
            ("flows, loss and queue", ["queue", "flows", "loss_ratio"]),
        )
    ]
    figure = plots.bars(
        table,
        "unknown_ratio",
        group="loss_ratio",
        by="hops",
        title="Losses of which the sink does not know the cause",
        subtitle="1 to 32 flows of five algorithms, with a queue that fills and one that does not",
    )
    return Findings(tables, {"located": figure}, checks)


LOCATED: Final = Part("located", "where packets were lost", _grids, _findings, _row)
