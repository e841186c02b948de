"""R-Hybrid: for how long the detector is wrong of a run, by the paper's rules and by those of `own`."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import pandas as pd

from experiments.papers.r_hybrid.false import replayed
from experiments.papers.r_hybrid.path import SETTLED_S
from experiments.results import Result
from telemetry.regime import SHARED
from telemetry.regime.modes import MODES

PAPERS: Final = "fast"
OWN: Final = "own"
"""The modes that are compared: with the paper's rules, and with those that know own queues."""

WRONGS: Final = ("false_shared_ratio", "false_single_owner_ratio", "switches")
"""Columns of `wrong` that are estimated."""


def wrong_ratios(result: Result, regimes: pd.Series, from_s: float = SETTLED_S) -> dict[str, float]:
    """Return for how long regimes are wrong of a run.

    Others count from the moment on when they begin: what a detector takes to notice is wrong, too.

    Args:
        result: The run.
        regimes: One for each row of its table `regimes`.
        from_s: From when on it counts [s].

    Returns:
        `false_shared_ratio` of the time in which nobody else sent, `false_single_owner_ratio` of that in
        which others did; NaN, if there was none.
    """
    times_s = result.regimes["t_s"]
    others = pd.Series(False, index=times_s.index)
    for flow in result.scenario.flows[1:]:
        stop_s = result.scenario.duration_s if flow.stop_s is None else flow.stop_s
        others |= times_s.between(flow.start_s, stop_s)
    counts, shared = times_s >= from_s, regimes == SHARED
    return {
        "false_shared_ratio": float(shared[counts & ~others].mean()),
        "false_single_owner_ratio": float((~shared[counts & others]).mean()),
    }


def wrong(result: Result, modes: Collection[str] = (PAPERS, OWN), from_s: float = SETTLED_S) -> pd.DataFrame:
    """Return how wrong each mode's detector is of what the receiver observed in a run.

    Args:
        result: The run.
        modes: Which.
        from_s: From when on it counts [s].

    Returns:
        A row for each mode: `mode`, what `wrong_ratios` has, `switches` in the whole run.
    """
    rows = []
    for mode in modes:
        found = replayed(result, MODES[mode].options).set_index(result.regimes.index)
        ratios = wrong_ratios(result, found["regime"], from_s)
        rows.append({"mode": mode, **ratios, "switches": int(found["switched"].sum())})
    return pd.DataFrame(rows)
