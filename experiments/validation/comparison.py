"""What runs on both datapaths come to, and by how much the simulator's differ from the kernel's.

A deviation is that of the medians over the rounds. The kernel's own runs differ, too: a deviation that is no
larger than that says nothing about the simulator, so the range of the kernel's runs stands beside it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
import pandas as pd
from rich.markup import escape
from rich.table import Table

from experiments.left_out import LATE_US, idle_ratio, late_us, taken_ratio
from experiments.metrics import NAN
from experiments.papers.tables import figures_of
from experiments.plots import quantity
from experiments.results import Result
from experiments.statistics import LEVEL, Estimate, median_interval, quotient_interval

KERNEL: Final = "ebpf"
SIMULATOR: Final = "sim"

GOALS: Final = {
    "goodput_bytes_per_s": 0.05,
    "rtt_p50_us": 0.10,
    "rtt_p95_us": 0.10,
    "retrans_pkts": 0.20,
}
"""Quantity -> deviation from the kernel that is accepted, as a ratio."""

Verdict = Literal["met", "within the kernel's range", "missed", "unknown"]


def row_of(result: Result) -> dict[str, Any]:
    """Return the figures of one run.

    Returns:
        `case`, `datapath`, `round`, and the quantities of `GOALS`: goodput and retransmissions of all flows
        together, percentiles of RTT as means over the flows. Goodput of downloads is their size by the time
        that they took. `jain_index` of the flows' goodputs. `late_us`, `late_p99_us`: by how much the
        emulator was late at most, and with one packet in a hundred; `untaken_pkts`: packets that it did not
        take from hosts; `taken_ratio`: share of the machine that others had. These four are 0 in the
        simulator. `idle_ratio`: share that nobody had, 1 there.
    """
    figures, emulator = figures_of(result), result.metadata.get("emulator") or {}
    if len(objects := result.objects.dropna(subset=["completion_s"])):
        figures["goodput_bytes_per_s"] = objects["size_bytes"].sum() / objects["completion_s"].sum()
    return {
        "case": result.name,
        "datapath": result.scenario.datapath,
        "round": result.scenario.seed,
        **{name: float(figures[name]) for name in (*GOALS, "jain_index")},
        "late_us": late_us(result),
        "late_p99_us": float(emulator.get("lateness_us", {}).get("p99", 0.0)),
        "untaken_pkts": float(emulator.get("untaken_pkts", 0.0)),
        "taken_ratio": taken_ratio(result),
        "idle_ratio": idle_ratio(result),
    }


@dataclass(frozen=True)
class Deviation:
    """One quantity of one scenario on both datapaths.

    Attributes:
        case: Name of the scenario.
        quantity: One of `GOALS`.
        kernel: Median over the rounds, with its interval.
        simulator: The same.
        kernel_range: Least and largest of the kernel's rounds.
        ratio: Simulator's median by the kernel's, minus 1, with its interval; NaN where one is not known.
        goal_ratio: Largest deviation that is accepted.
    """

    case: str
    quantity: str
    kernel: Estimate
    simulator: Estimate
    kernel_range: tuple[float, float]
    ratio: Estimate
    goal_ratio: float

    @property
    def kernel_spread_ratio(self) -> float:
        """By how much the kernel's own rounds are away from their median at most; NaN if that is 0."""
        low, high = self.kernel_range
        median = self.kernel.value
        return max(high - median, median - low) / median if median else NAN

    @property
    def verdict(self) -> Verdict:
        """Whether the goal is met; if not, whether the kernel's own rounds differ as much."""
        if math.isnan(self.kernel.value) or math.isnan(self.simulator.value):
            return "unknown"
        if abs(self.simulator.value - self.kernel.value) <= self.goal_ratio * self.kernel.value:
            return "met"
        low, high = self.kernel_range
        return "within the kernel's range" if low <= self.simulator.value <= high else "missed"

    def records(self) -> dict[str, Any]:
        """Return it as plain data; what is not known is None."""
        return {
            "case": self.case,
            "quantity": self.quantity,
            "kernel": _plain(self.kernel),
            "kernel_range": [_or_none(one) for one in self.kernel_range],
            "simulator": _plain(self.simulator),
            "deviation": _plain(self.ratio),
            "goal": self.goal_ratio,
            "verdict": self.verdict,
        }


def compare(rows: pd.DataFrame) -> list[Deviation]:
    """Return all deviations, scenario by scenario.

    Args:
        rows: A row for each run, as of `row_of`. Runs that were late (`LATE_US`) do not count.

    Returns:
        One for each scenario and quantity of `GOALS`, in the order of the rows.
    """
    found = []
    for case, every in rows.groupby("case", sort=False):
        own = every[every["late_us"] <= LATE_US]
        sides = {name: own[own["datapath"] == name] for name in (KERNEL, SIMULATOR)}
        for name, goal in GOALS.items():
            kernel, simulator = (sides[side][name].to_numpy(dtype=float) for side in (KERNEL, SIMULATOR))
            known = kernel[~np.isnan(kernel)]
            found.append(
                Deviation(
                    str(case),
                    name,
                    median_interval(kernel),
                    median_interval(simulator),
                    (float(known.min()), float(known.max())) if known.size else (NAN, NAN),
                    _deviation(simulator, kernel),
                    goal,
                )
            )
    return found


def _deviation(simulator: np.ndarray, kernel: np.ndarray) -> Estimate:
    quotient = quotient_interval(simulator, kernel)
    if math.isnan(quotient.value) and not simulator.any() and not kernel.any():
        return Estimate(0.0, 0.0, 0.0, quotient.n) if quotient.n else quotient
    return Estimate(quotient.value - 1, quotient.low - 1, quotient.high - 1, quotient.n)


def screen(deviations: Iterable[Deviation]) -> Table:
    """Return a table with every deviation, for people."""
    table = Table(
        title="simulator against kernel",
        caption=f"medians over the rounds, in brackets {100 * LEVEL:g} % intervals; spread: the "
        "kernel's round that is farthest from its median",
        caption_justify="left",
    )
    for heading in ("scenario", "quantity"):
        table.add_column(heading)
    for heading in ("kernel", "spread\n[not bold]%", "simulator"):
        table.add_column(heading, justify="right")
    for heading in ("deviation\n[not bold]%", "goal\n[not bold]%"):
        table.add_column(heading, justify="right")
    table.add_column("")
    before = ""
    for one in deviations:
        what = quantity(one.quantity)
        verdict = {"met": "[green]met", "missed": "[red]missed"}.get(one.verdict, one.verdict)
        table.add_row(
            one.case if one.case != before else "",
            escape(what.axis),
            _figure(one.kernel, what.scale),
            _percent(one.kernel_spread_ratio, signed=False),
            _figure(one.simulator, what.scale),
            f"{_percent(one.ratio.value)} [{_percent(one.ratio.low)}, {_percent(one.ratio.high)}]",
            _percent(one.goal_ratio, signed=False),
            verdict,
            end_section=one.quantity == [*GOALS][-1],
        )
        before = one.case
    return table


def counted(deviations: Sequence[Deviation]) -> dict[Verdict, int]:
    """Return how many deviations have each verdict."""
    verdicts: tuple[Verdict, ...] = ("met", "within the kernel's range", "missed", "unknown")
    return {verdict: sum(one.verdict == verdict for one in deviations) for verdict in verdicts}


def left_out(rows: pd.DataFrame) -> int:
    """Return how many runs do not count because the machine stood still."""
    return int((rows["late_us"] > LATE_US).sum())


def to_json(rows: pd.DataFrame, deviations: Sequence[Deviation]) -> str:
    """Return one JSON object: every run's row, and every deviation."""
    runs = json.loads(rows.to_json(orient="records"))
    found = [one.records() for one in deviations]
    return json.dumps(
        {"runs": runs, "deviations": found, "verdicts": counted(deviations), "left_out": left_out(rows)},
        indent=2,
    )


def _figure(found: Estimate, scale: float) -> str:
    value = found.value * scale
    if math.isnan(value):
        return "?"
    digits = 0 if abs(value) >= 1000 or value == 0 else 1 if abs(value) >= 100 else 2
    return f"{value:,.{digits}f}"


def _percent(ratio: float, *, signed: bool = True) -> str:
    if math.isnan(ratio):
        return "?"
    return f"{100 * ratio:+.1f}" if signed else f"{100 * ratio:.1f}"


def _plain(found: Estimate) -> dict[str, float | int | None]:
    return {name: _or_none(value) for name, value in vars(found).items()}


def _or_none(value: float) -> float | None:
    return None if math.isnan(value) else value
