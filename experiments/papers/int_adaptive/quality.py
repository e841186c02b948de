"""Correct causes of losses, cost and age of telemetry: parts of `paper.py` beyond the paper."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any, Final

import msgspec
import pandas as pd

from experiments import plots
from experiments.metrics import NAN
from experiments.papers.int_adaptive.chain import (
    BOTTLENECK,
    OWN,
    TELEMETRY,
    chain,
    conditions,
    losing,
    losses,
)
from experiments.papers.int_adaptive.truth import CAUSES, gaps, matrix
from experiments.papers.paper import Findings, Part, Runs, Size
from experiments.papers.tables import Table
from experiments.papers.variants import KERNEL, rounds, steered
from experiments.results import Result
from experiments.runs.grid import changed
from experiments.sweep import Grid

MANY_FLOWS: Final = 8

# --- causes of losses --------------------------------------------------------------------------------------


def _cause_grids(size: Size) -> list[Grid]:
    telemetry = msgspec.structs.replace(TELEMETRY, records=True)

    def mixed(name: str, flows: int, axes: dict[str, Any]) -> Grid:
        base = chain(f"causes, {name}", size.seconds(6, 30), flows=flows, telemetry=telemetry)
        base = base.replace(captures=(BOTTLENECK,))
        return Grid(base, axes, f"{size.name}-{name}", size.times(6, 10))

    keep = {"CUBIC New L1": steered(OWN, wireless_loss="keep")}
    return [
        mixed("many", MANY_FLOWS, {"loss": losses([0.01]), "variant": {KERNEL: steered(KERNEL)}}),
        mixed("many-keep", MANY_FLOWS, {"loss": losses([0.05]), "variant": keep}),
        mixed("one", 1, {"loss": losses([0.01, 0.2]), "variant": keep}),
    ]


def _cause_row(result: Result) -> dict[str, Any]:
    return {**conditions(result), **matrix(gaps(result))}


def _cause_findings(runs: Runs) -> Findings:
    table = runs.table
    by = ["flows", "variant", "loss_ratio"]
    pairs = [f"{true}_as_{reported}_pkts" for true, reported in product(CAUSES, CAUSES)]
    title = "Causes of losses: true, and according to the sink"
    return Findings(
        [Table.of(table, title, by, ["right_ratio", *pairs, "untold_pkts"])],
        {"cause": plots.heat_map(_shares(table), "share_ratio", "told", "true", by="network", title=title)},
    )


def _networks(table: pd.DataFrame) -> list[str]:
    """Return the name of each run's network."""
    columns = (table[name] for name in ("flows", "variant", "loss_ratio"))
    return [
        f"{flows} x {plots.label(variant)}, {100 * loss_ratio:g} % loss"
        for flows, variant, loss_ratio in zip(*columns, strict=True)
    ]


def _shares(table: pd.DataFrame) -> pd.DataFrame:
    """Return the shares of each true cause that the sink reported as each cause, a row per run and pair."""
    rows = []
    for run in table.assign(network=_networks(table)).to_dict("records"):
        for true, reported in product(CAUSES, CAUSES):
            whole = sum(run[f"{true}_as_{one}_pkts"] for one in CAUSES)
            share = run[f"{true}_as_{reported}_pkts"] / whole if whole else NAN
            rows.append(
                {
                    "network": run["network"],
                    "true": true,
                    "told": reported,
                    "share_ratio": share,
                    "seed": run["seed"],
                }
            )
    return pd.DataFrame(rows)


# --- overhead ----------------------------------------------------------------------------------------------

OFF: Final = "off"
TELEMETRIES: Final[Mapping[str, Mapping[str, Any]]] = {
    OFF: {"topology.telemetry": None},
    "1 in 10": {"topology.telemetry.every_pkts": 10},
    "every packet": {"topology.telemetry.every_pkts": 1},
}


def _load(rate_bytes_per_s: float, delay_us: int, queue_pkts: int) -> dict[str, Any]:
    fields = {"rate_bytes_per_s": rate_bytes_per_s, "delay_us": delay_us, "buffer": {"packets": queue_pkts}}
    return {
        f"links.*.{way}.{name}": value for way in ("forward", "backward") for name, value in fields.items()
    }


LOADS: Final = {"100 Mbit/s": _load(12.5e6, 1_000, 100), "unlimited": _load(5e9, 50, 5_000)}
"""Loads of all three links; the second load is faster than the emulator."""


def _overhead_grids(size: Size) -> list[Grid]:
    base = chain("overhead", size.seconds(3, 10))
    return rounds(base, size.name, size.times(3, 10), "telemetry", TELEMETRIES, more_axes={"load": LOADS})


def _overhead_row(result: Result) -> dict[str, Any]:
    emulator = result.metadata.get("emulator", {})
    goodput = result.flows["goodput_bytes_per_s"].sum(skipna=False)
    sent_gb = result.flows["bytes_acked"].sum() / 1e9
    return {
        "goodput_bytes_per_s": goodput,
        "cpu_s_per_gb": emulator.get("cpu_s", NAN) / sent_gb if sent_gb else NAN,
    }


def paired(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with telemetry, and their ratios to the run of the same seed without telemetry."""
    key = ["load", "seed"]
    off = table[table["telemetry"] == OFF].set_index(key)
    on = table[table["telemetry"] != OFF].set_index(key)
    quotients = {"goodput_quotient": "goodput_bytes_per_s", "cpu_quotient": "cpu_s_per_gb"}
    return on.assign(
        **{name: on[column] / off[column].reindex(on.index) for name, column in quotients.items()}
    ).reset_index()


def _overhead_findings(runs: Runs) -> Findings:
    order = [*LOADS, *TELEMETRIES]
    table = runs.table.sort_values(["load", "telemetry"], key=lambda names: names.map(order.index))
    by, values = ["load", "telemetry"], ["goodput_bytes_per_s", "cpu_s_per_gb"]
    pairs = paired(table)
    title = "Ratios to the run without telemetry of the same round"
    return Findings(
        [
            Table.of(table, "Cost of telemetry in the emulator", by, values),
            Table.of(pairs, title, by, list(_QUOTIENTS)),
        ],
        {
            f"overhead-{name}": plots.bars(
                pairs,
                quotient,
                group="load",
                by="telemetry",
                title=f"{what}, ratio to that without telemetry",
                subtitle="one flow over three hops; compared within a round",
            )
            for (quotient, what), name in zip(_QUOTIENTS.items(), ("goodput", "cpu"), strict=True)
            if len(pairs)
        },
    )


_QUOTIENTS: Final = {"goodput_quotient": "Goodput", "cpu_quotient": "CPU time of the emulator per gigabyte"}

# --- the whole chain ---------------------------------------------------------------------------------------

CHAIN_LOSS: Final = 0.05


def _chain_grids(size: Size) -> list[Grid]:
    variants = {
        "CUBIC New L1": steered(OWN, wireless_loss="keep"),
        "CUBIC New L2, increment 1": steered(OWN, wireless_loss="mild", increment=1),
    }
    base = changed(chain("the whole chain", size.seconds(6, 15)), losing(CHAIN_LOSS))
    return [Grid(base, {"variant": variants}, size.name, size.times(6, 10))]


def _chain_row(result: Result) -> dict[str, Any]:
    decisions = result.int_decisions
    decisions = decisions[~decisions["backward"]]
    ages = {f"age_p{q}_us": decisions["age_us"].quantile(q / 100) for q in (50, 99)}
    return {
        **conditions(result),
        **ages,
        "oldest_packet_p99_us": (decisions["age_us"] + decisions["interval_us"]).quantile(0.99),
        "summaries": int((~result.int_summaries["backward"]).sum()),
        "decisions": len(decisions),
    }


def _chain_findings(runs: Runs) -> Findings:
    values = ["age_p50_us", "age_p99_us", "oldest_packet_p99_us", "summaries", "decisions"]
    title = "Age of telemetry when the algorithm has responded to it"
    decisions = [one.int_decisions.assign(variant=one.axes["variant"]) for one in runs.results]
    return Findings(
        [Table.of(runs.table, title, ["variant"], [*values, "goodput_bytes_per_s"])],
        {
            "chain": plots.cdf(
                pd.concat(decisions, ignore_index=True),
                "age_us",
                by="variant",
                log=True,
                title=title,
                subtitle="from the end of a 10 ms summary at the sink, over MQTT, to the agent",
            )
        },
    )


CAUSE: Final = Part("cause", "causes of losses", _cause_grids, _cause_findings, _cause_row)
OVERHEAD: Final = Part(
    "overhead", "cost of telemetry in the emulator", _overhead_grids, _overhead_findings, _overhead_row
)
CHAIN: Final = Part(
    "chain", "from packets to the window: age of telemetry", _chain_grids, _chain_findings, _chain_row
)
