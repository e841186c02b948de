"""What is asked of an algorithm in networks drawn at random, and in how many of them it does that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd

from experiments import plots
from experiments.papers.comparisons import told_bounds
from experiments.papers.paper import Findings, Runs
from experiments.papers.tables import Check, Table
from experiments.papers.variants import KERNEL
from experiments.statistics import Estimate, share_interval

SUCCESSOR: Final = "lt_cubic"
LOSSLESS_CUBIC: Final = "lossless"
"""Kernel CUBIC alone in the same network without random loss: what it queues where it fills the path."""
WANTED_RATIO: Final = 0.9
"""In so many networks each bar is to be met."""
WORST: Final = 10


@dataclass(frozen=True)
class Bar:
    """Something that is asked in each network.

    Attributes:
        name: In tables.
        says: What is asked, without its bounds.
        column: Of `judged`.
        at_least: Lower bound; None: there is none.
        at_most: Upper bound, likewise.
        lossless: Asked only where nothing is lost at random.
    """

    name: str
    says: str
    column: str
    at_least: float | None = None
    at_most: float | None = None
    lossless: bool = False

    def met(self, table: pd.DataFrame) -> Estimate:
        """Return the share of networks in which it is met, of those where it is known."""
        asked = table[table["lost_at_random_pct"] == 0] if self.lossless else table
        values = asked[self.column].dropna()
        low, high = self.at_least, self.at_most
        met = values.between(-np.inf if low is None else low, np.inf if high is None else high)
        return share_interval(int(met.sum()), len(met))


BARS: Final = (
    Bar("goodput", "goodput alone, by the best of all,", "goodput_of_best_ratio", at_least=0.9),
    Bar(
        "again",
        "percent sent again alone, less those lost at random,",
        "retrans_beyond_loss_pct",
        at_most=1.0,
    ),
    Bar(
        "delay",
        "mean queueing delay alone in us, less 1.1 times that of kernel CUBIC without random loss,",
        "delay_over_cubic_us",
        at_most=1000.0,
    ),
    Bar("Jain", "Jain index beside kernel CUBIC, no random loss,", "jain_index", at_least=0.9, lossless=True),
    Bar(
        "harm",
        "harm to kernel CUBIC, less that of a second kernel CUBIC,",
        "harm_over_cubic_ratio",
        at_most=0.1,
    ),
    Bar(
        "kept",
        "kernel CUBIC's goodput, by that beside a second kernel CUBIC,",
        "cubic_kept_ratio",
        at_least=0.8,
    ),
)
"""Delay has a tenth, and harm 10 %, for what differs from run to run."""


def judged(runs: pd.DataFrame) -> pd.DataFrame:
    """Return what each algorithm came to in each network, compared with others there.

    Args:
        runs: A row for each run, as of `networks.row`.

    Returns:
        A row for each network and variant: what its run alone has, `best`, who had the highest goodput, and
        the columns of `BARS`. Harm is the share of what kernel CUBIC has alone that it loses beside the
        other flow (Ware et al., Beyond Jain's Fairness Index, HotNets 2019).
    """
    alone = runs[runs["setting"] == "alone"].set_index(["network", "variant"])
    beside = runs[runs["setting"] == "beside"].set_index(["network", "variant"])
    found = alone.drop(index=LOSSLESS_CUBIC, level="variant", errors="ignore")
    networks = found.index.get_level_values("network")

    def of(table: pd.DataFrame, variant: str, column: str) -> np.ndarray:
        own = table.loc[table.index.get_level_values("variant") == variant, column].droplevel("variant")
        return own.reindex(networks).to_numpy(dtype=float)

    goodput = found["goodput_bytes_per_s"]
    by_network = goodput.groupby(level="network")
    best = by_network.idxmax().map(lambda key: key[1])
    # Where nothing is lost at random, kernel CUBIC is run once.
    is_lossless = of(alone, KERNEL, "lost_at_random_pct") == 0
    queue_us = of(alone, LOSSLESS_CUBIC, "queueing_delay_us")
    queue_us = np.where(np.isnan(queue_us) & is_lossless, of(alone, KERNEL, "queueing_delay_us"), queue_us)
    other = beside["other_goodput_bytes_per_s"].reindex(found.index)
    second = of(beside, KERNEL, "other_goodput_bytes_per_s")
    return found.assign(
        best=best.reindex(networks).to_numpy(),
        goodput_of_best_ratio=goodput / by_network.transform("max"),
        retrans_beyond_loss_pct=found["retrans_pct"] - found["lost_at_random_pct"],
        delay_over_cubic_us=found["queueing_delay_us"] - 1.1 * queue_us,
        jain_index=beside["jain_index"].reindex(found.index),
        harm_over_cubic_ratio=(second - other) / of(alone, KERNEL, "goodput_bytes_per_s"),
        cubic_kept_ratio=other / second,
    ).reset_index()


def shares(table: pd.DataFrame) -> Table:
    """Return in how many networks each variant meets each of `BARS`, with exact intervals."""
    rows = []
    for variant, own in table.groupby("variant", sort=False):
        row: dict[str, Any] = {"variant": variant}
        for bar in BARS:
            found, name = bar.met(own), f"{bar.name}_ratio"
            row |= {name: found.value, f"{name}.low": found.low, f"{name}.high": found.high}
        rows.append({**row, "n": len(own)})
    names = tuple(f"{bar.name}_ratio" for bar in BARS)
    return Table("Share of networks in which each bar is met", ("variant",), names, pd.DataFrame(rows))


def worst(table: pd.DataFrame, column: str, *, most: bool) -> pd.DataFrame:
    """Return the rows of the ten networks in which the successor does worst.

    Args:
        table: As of `judged`.
        column: By what.
        most: The largest values are the worst.
    """
    own = table[table["variant"] == SUCCESSOR]
    return own.sort_values(column, ascending=not most).head(WORST)


def findings(runs: Runs) -> Findings:
    """Return tables of all algorithms, the worst networks, and the bars as checks of the successor."""
    if not {"alone", "beside"} <= set(runs.table.get("setting", ())):
        return Findings()
    table = judged(runs.table)
    columns = [*dict.fromkeys(bar.column for bar in BARS if bar.column != "delay_over_cubic_us")]
    values = [*columns, "queueing_delay_us"]
    bad = worst(table, "goodput_of_best_ratio", most=False)
    tables = [
        shares(table),
        Table.of(table, "What it came to, over all networks", ["variant"], values),
        Table.of(table, "The same by kind of network", ["kind", "variant"], values),
        Table.of(bad, f"Least goodput of {SUCCESSOR}", ["network", "kind", "path", "best"], values),
    ]
    figure = plots.cdf(
        table,
        "goodput_of_best_ratio",
        by="variant",
        title="Goodput alone, by that of the best in the same network",
    )
    return Findings(tables, {"networks-goodput": figure}, _checks(table))


def _checks(table: pd.DataFrame) -> Sequence[Check]:
    own = table[table["variant"] == SUCCESSOR]
    return [
        Check(
            f"share of networks in which {bar.says}{told_bounds(bar.at_least, bar.at_most)}",
            bar.met(own),
            low=WANTED_RATIO,
            name=bar.name,
        )
        for bar in BARS
    ]
