"""Results of runs: a row for each run, tables with confidence intervals, and checks of claims."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

import pandas as pd
from rich.table import Table as ScreenTable

from experiments import metrics
from experiments.papers.estimates import IN_RUN, over_runs
from experiments.plots import quantity
from experiments.plots.comparisons import written
from experiments.results import Result
from experiments.statistics import LEVEL, Estimate
from experiments.traffic.spec import Iperf3
from experiments.verdicts import Verdict, runs_needed, verdict

INTERVALS: Final = f"medians over the runs, with {100 * LEVEL:g} % intervals in brackets"
"""Contents of table cells; fewer than six runs have no interval."""

UNKNOWN: Final = "?"
"""Content of cells that were not measured."""


def figures_of(result: Result, bottleneck: str = "bottleneck>") -> dict[str, Any]:
    """Return the figures of a run of bulk transfers, over all its flows.

    Returns:
        `throughput_bytes_per_s`: bytes that each receiving application got, per time in which it received
        (iperf3's report); the goodput for flows that the run's end cut off; NaN without a report.
        `goodput_bytes_per_s`: payload acknowledged between the first and the last sample of the sockets.
        `retrans_pkts`, and `retrans_pct` of the bytes sent. `rtt_p50_us`, `rtt_p95_us`: means over the flows.
        `jain_index` of the goodputs. `dropped_loss_pkts`, `dropped_queue_pkts`: packets that the bottleneck's
        loss process and its full queue dropped.
    """
    flows = result.flows
    sent = result.flow_samples.groupby("flow", sort=False)[["bytes_sent", "bytes_retrans"]].last().sum()
    again_pct = 100 * sent["bytes_retrans"] / sent["bytes_sent"] if sent["bytes_sent"] else metrics.NAN
    link = result.metadata.get("links", {}).get(bottleneck, {})
    return {
        "throughput_bytes_per_s": _throughputs_bytes_per_s(result).sum(skipna=False),
        "goodput_bytes_per_s": flows["goodput_bytes_per_s"].sum(skipna=False),
        "retrans_pkts": flows["retrans_pkts"].sum(),
        "retrans_pct": again_pct,
        "rtt_p50_us": flows["rtt_p50_us"].mean(),
        "rtt_p95_us": flows["rtt_p95_us"].mean(),
        "jain_index": metrics.jain_index(flows["goodput_bytes_per_s"]),
        "dropped_loss_pkts": link.get("dropped_loss_pkts", metrics.NAN),
        "dropped_queue_pkts": link.get("dropped_queue_pkts", metrics.NAN),
    }


def _throughputs_bytes_per_s(result: Result) -> pd.Series:
    flows = result.flows
    reported = flows["received_bytes"] / flows["completion_s"]
    timed = [
        one.name
        for one in result.scenario.flows
        if isinstance(one.traffic, Iperf3) and one.traffic.total_bytes is None
    ]
    return reported.where(reported.notna() | ~flows["flow"].isin(timed), flows["goodput_bytes_per_s"])


@dataclass(frozen=True)
class Table:
    """Medians over runs.

    Attributes:
        title: Caption.
        by: Columns that identify an experiment.
        values: Columns that are estimated.
        rows: A row for each combination of `by`; for each value the columns NAME, `NAME.low`, `NAME.high`,
            in the value's own unit; `n`, the number of runs.
    """

    title: str
    by: tuple[str, ...]
    values: tuple[str, ...]
    rows: pd.DataFrame

    @classmethod
    def of(cls, runs: pd.DataFrame, title: str, by: Sequence[str], values: Sequence[str]) -> Table:
        """Estimate columns over all runs of an experiment.

        Raises:
            MetricError: `metric.no_column`.
        """
        metrics.need(runs, *by, *values)
        rows = []
        for key, own in runs.groupby(list(by), sort=False, dropna=False):
            row: dict[str, Any] = dict(zip(by, key, strict=True))
            for value in values:
                found = over_runs(own, value)
                row |= {value: found.value, f"{value}.low": found.low, f"{value}.high": found.high}
            rows.append({**row, "n": own[IN_RUN].nunique() if IN_RUN in own else len(own)})
        return cls(title, tuple(by), tuple(values), pd.DataFrame(rows))

    def records(self) -> dict[str, Any]:
        """Return the table as plain data; unknown values are None."""
        rows = json.loads(self.rows.to_json(orient="records"))
        return {"title": self.title, "by": self.by, "values": self.values, "level": LEVEL, "rows": rows}

    @classmethod
    def from_records(cls, reported: Mapping[str, Any]) -> Table:
        """Return a table from the data of `records`."""
        by, values = tuple(reported["by"]), tuple(reported["values"])
        estimated = [f"{value}{end}" for value in values for end in ("", ".low", ".high")]
        rows = pd.DataFrame(reported["rows"], columns=[*by, *estimated, "n"])
        return cls(reported["title"], by, values, rows.astype(dict.fromkeys(estimated, float)))

    @property
    def repeated(self) -> bool:
        """Whether any experiment was run more than once."""
        return bool((self.rows["n"] > 1).any())

    def cells(self) -> list[list[str]]:
        """Return the rows as text: `by`, `values`, and the number of runs."""
        return [
            [
                *(written(row[name], str(name)) for name in self.by),
                *(_cell(row, name) for name in self.values),
                str(row["n"]),
            ]
            for row in self.rows.to_dict("records")
        ]

    def screen(self) -> ScreenTable:
        """Return the table for a terminal: units as in figures, intervals in brackets."""
        table = ScreenTable(title=self.title, caption=INTERVALS, caption_justify="left")
        for name in self.by:
            table.add_column(_heading(name))
        for name in self.values:
            table.add_column(_heading(name), justify="right")
        table.add_column("runs", justify="right")
        for row in self.cells():
            table.add_row(*row)
        return table


@dataclass(frozen=True)
class Check:
    """A measured quantity and its bounds.

    Attributes:
        claim: What is measured, as a noun phrase.
        found: What was measured.
        low: Lower bound, or None.
        high: Upper bound, or None.
        name: Name in a paper's claims, unique in its part; empty if they do not use it.
    """

    claim: str
    found: Estimate
    low: float | None = None
    high: float | None = None
    name: str = ""

    @property
    def verdict(self) -> Verdict | None:
        """Whether the interval is within the bounds, as a verdict; None if nothing was measured."""
        return verdict(self.found, self.low, self.high) if self.known else None

    @property
    def known(self) -> bool:
        """Whether anything was measured."""
        return self.found.value == self.found.value

    def records(self) -> dict[str, Any]:
        """Return the check as plain data."""
        found = {name: None if value != value else value for name, value in vars(self.found).items()}
        bounds = {"at_least": self.low, "at_most": self.high}
        reported = {"verdict": self.verdict, "runs_needed": self._needed}
        return {"name": self.name, "claim": self.claim, **found, **bounds, **reported}

    @classmethod
    def from_records(cls, reported: Mapping[str, Any]) -> Check:
        """Return a check from the data of `records`."""
        found: dict[str, Any] = {one.name: reported[one.name] for one in fields(Estimate)}
        unknown = {name: metrics.NAN for name, value in found.items() if value is None}
        return cls(
            reported["claim"],
            Estimate(**found | unknown),
            reported["at_least"],
            reported["at_most"],
            reported["name"],
        )

    @property
    def alike(self) -> bool:
        """Whether all runs had the same value, as simulated runs without randomness have."""
        return self.found.n > 1 and self.found.low == self.found.high

    @property
    def value(self) -> str:
        """The value with its interval."""
        if not self.known:
            return "not measured"
        value, low, high = (f"{one:.3f}" for one in (self.found.value, self.found.low, self.found.high))
        return value if self.found.low != self.found.low or low == high else f"{value} [{low}, {high}]"

    @property
    def measured(self) -> str:
        """The value with its interval and the number of runs."""
        if not self.known:
            return self.value
        n = self.found.n
        alike = ", all alike" if self.alike else ""
        return f"{self.value}, {n} run{'s' if n > 1 else ''}{alike}" if n else f"{self.value}, computed"

    @property
    def reported(self) -> str:
        """The verdict; if undecided, also the number of runs that would decide the check."""
        if self.verdict != "undecided":
            return self.verdict or "open"
        needed = self._needed
        few = "too few, " if self.found.low != self.found.low else ""
        return f"undecided ({few}try {needed} runs)" if needed is not None else "undecided"

    @property
    def _needed(self) -> int | None:
        return runs_needed(self.found, self.low, self.high) if self.verdict == "undecided" else None

    @property
    def statement(self) -> str:
        """What is claimed: the quantity with its bounds."""
        return f"{self.claim}{bounds_text(self.low, self.high)}"

    def __str__(self) -> str:
        return f"{'FAILS' if self.verdict == 'fails' else self.reported}: {self.statement}: {self.measured}"


def bounds_text(at_least: float | None, at_most: float | None) -> str:
    """Return bounds as the end of a sentence."""
    if at_least is not None and at_most is not None:
        return f" is {at_least:g} to {at_most:g}" if at_least != at_most else f" is {at_least:g}"
    if at_least is not None:
        return f" is at least {at_least:g}"
    return "" if at_most is None else f" is at most {at_most:g}"


def _heading(column: str) -> str:
    what = quantity(column)
    return f"{what.name}\n[not bold]{what.unit}" if what.unit else what.name


def _cell(row: dict[Any, Any], name: str) -> str:
    value, low, high = (float(quantity(name).of(row[f"{name}{end}"])) for end in ("", ".low", ".high"))
    if value != value:
        return UNKNOWN
    whole = abs(value) >= 1000 or value == 0 or quantity(name).unit == "packets"
    digits = 0 if whole else 1 if abs(value) >= 10 else 2 if abs(value) >= 1 else 3
    text = f"{value:,.{digits}f}"
    ends = f"{low:,.{digits}f}, {high:,.{digits}f}"
    return text if low != low or ends == f"{text}, {text}" else f"{text} [{ends}]"
