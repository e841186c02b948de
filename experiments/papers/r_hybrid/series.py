"""Figure 5 of R-Hybrid: the detector on a synthetic series, computed without network, clock or chance."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, Final

import msgspec
import pandas as pd

from experiments import plots
from experiments.metrics import NAN
from experiments.papers.estimates import computed
from experiments.papers.paper import Findings, Part, Runs, nothing_to_run
from experiments.papers.tables import Check, Table
from telemetry.regime import SHARED, SINGLE_OWNER, Detector, DetectorOptions, Observation

INTERVAL_S: Final = 5.0
DURATION_S: Final = 300.0
BASELINE_MS: Final = 1.0
LOSSY_S: Final = (50.0, 150.0)
SPIKE_S: Final = (200.0, 240.0)
SPIKE_MS: Final = 12.0
RETRANSMITS: Final = (2, 3, 4, 1, 3, 1, 4, 3, 1, 2)
"""Retransmissions per interval, as a pattern that repeats."""

PAPER_S: Final = {SHARED: (70.0, 220.0), SINGLE_OWNER: (NAN, NAN)}
"""Times of changes in section 5.1; for changes back to SINGLE_OWNER it says "eventually"."""
AROUND_S: Final = INTERVAL_S


def figure_5() -> list[Observation]:
    """Return the series of section 5.1, at the paper's intervals.

    There are 1 to 4 retransmissions an interval from 50 to 150 s, and an RTT spike from 200 to 240 s.
    """
    again = itertools.cycle(RETRANSMITS)
    return [
        Observation(
            t_s=t_s,
            rtt_tail_ms=BASELINE_MS + (SPIKE_MS if SPIKE_S[0] <= t_s <= SPIKE_S[1] else 0.5),
            ce_marks=0,
            retransmits=next(again) if LOSSY_S[0] <= t_s <= LOSSY_S[1] else 0,
        )
        for t_s in (INTERVAL_S * i for i in range(round(DURATION_S / INTERVAL_S) + 1))
    ]


def decided(series: Sequence[Observation], options: DetectorOptions) -> pd.DataFrame:
    """Return observations and decisions of the detector, a row per interval."""
    detector = Detector(options)
    rows: list[dict[str, Any]] = [
        msgspec.structs.asdict(one) | msgspec.structs.asdict(detector.observe(one)) for one in series
    ]
    return pd.DataFrame(rows)


def changes(table: pd.DataFrame) -> pd.DataFrame:
    """Return the changes of the regime in a table of `decided`: `change`, `regime`, `t_s`, `paper_s`."""
    found = table.loc[table["switched"], ["regime", "t_s"]].reset_index(drop=True)
    reported = {regime: iter(times_s) for regime, times_s in PAPER_S.items()}
    return found.assign(
        change=found.index + 1, paper_s=[next(reported[regime], NAN) for regime in found["regime"]]
    )


def _findings(_runs: Runs) -> Findings:
    options = DetectorOptions(baseline_ms=BASELINE_MS)
    table = decided(figure_5(), options)
    title = "Micro-dynamics: the detector on a synthetic series"
    return Findings(
        [Table.of(changes(table), "Changes of the regime", ["change", "regime"], ["t_s", "paper_s"])],
        {
            "figure-5": plots.regime_series(
                table,
                threshold_ms=BASELINE_MS + options.delta_ms,
                title=title,
                subtitle=f"intervals of {INTERVAL_S:g} s, N = {options.window}, M = {options.persistence}, "
                f"cooldown {options.cooldown_s:g} s",
                note="computed, without a network",
            )
        },
        claims(table),
    )


def claims(table: pd.DataFrame) -> list[Check]:
    """Check what section 5.1 says of the figure, on a table of `decided`."""
    found = changes(table)
    to_shared = found[found["regime"] == SHARED].reset_index(drop=True)
    checks = [
        Check(
            f"time of the change to SHARED, around {paper_s:g} s in the paper [s],",
            computed(at_s),
            paper_s - AROUND_S,
            paper_s + AROUND_S,
            f"shared-{i + 1}",
        )
        for i, paper_s in enumerate(PAPER_S[SHARED])
        for at_s in (to_shared["t_s"].get(i, NAN),)
    ]
    held = table.loc[table["t_s"].between(PAPER_S[SHARED][0], LOSSY_S[1]), "regime"]
    return [
        *checks,
        Check(
            "share of intervals in SHARED while losses continue",
            computed(float((held == SHARED).mean())),
            low=1.0,
            name="held",
        ),
        Check("number of changes of the regime", computed(len(found)), 4, 4, "changes"),
    ]


FIG5: Final = Part("fig5", "Figure 5: the detector on a synthetic series", nothing_to_run, _findings)
