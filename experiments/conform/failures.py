"""Failures as files: the scenario, to run it again, and a plot that shows the moment."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Final

from experiments.conform.cases import CaseResult, Comparison
from experiments.conform.errors import ConformError
from experiments.plots import style
from experiments.plots.files import save
from experiments.plots.results import describe, origin
from experiments.plots.series import time_series
from experiments.results import Result
from experiments.run import run

SAMPLES_PER_RUN: Final = 2000
_MIN_INTERVAL_US: Final = 1000


def keep(result: CaseResult, out: Path) -> CaseResult:
    """Write scenario and plot of a failure; remove those of an earlier failure of the case.

    Args:
        result: The result of a case.
        out: Directory for the files.

    Returns:
        The result with the files.

    Raises:
        ConformError: `conform.cannot_write`.
    """
    stem = result.case if result.seed == 1 else f"{result.case}-seed-{result.seed}"
    yaml, png = out / f"{stem}.yaml", out / f"{stem}.png"
    failure = result.failure
    try:
        for old in (yaml, png):
            old.unlink(missing_ok=True)
        if failure is None or not result.scenarios:
            return result
        out.mkdir(parents=True, exist_ok=True)
        scenario = result.scenarios[failure.run]
        interval_us = max(_MIN_INTERVAL_US, round(1e6 * scenario.duration_s / SAMPLES_PER_RUN))
        scenario = scenario.replace(sample_interval_us=interval_us)
        scenario.save(yaml)
        save(drawn(result, failure, run(scenario)), png)
    except OSError as error:
        raise ConformError(
            "conform.cannot_write",
            f"cannot write the failure of `{result.case}`",
            str(out),
            error.strerror or str(error),
            "choose another directory with --out",
        ) from error
    return dataclasses.replace(result, files=(str(yaml), str(png)))


def drawn(result: CaseResult, failure: Comparison, again: Result) -> style.Plot:
    """Draw the flows of a failed case, and mark what was measured."""
    changes = again.events[again.events["kind"].str.startswith("set_")]
    plot = time_series(
        again.flow_samples,
        again.flows[["flow", "algorithm"]],
        again.link_samples,
        changes if len(changes) <= 20 else None,
        panels=("cwnd_bytes", "goodput_bytes_per_s", "rtt_us"),
        title=f"{style.label(result.algorithm)} fails: {result.title} ({result.source})",
        subtitle=describe(again),
        note=f"{failure}, shown in grey; {origin(again)}",
    )
    for axes in plot.axes:
        if failure.since_s is None:
            axes.axvline(failure.at_s, color=style.INK, linewidth=1.0, zorder=1)
        else:
            axes.axvspan(failure.since_s, failure.at_s, color="#E4E4E4", alpha=0.6, zorder=0)
    return plot
