"""Estimates of papers' figures: one value per run, the median over the runs, and its exact interval.

The flows of a run share a network and a machine, so their mean is the run's value.
"""

from __future__ import annotations

from typing import Final

import pandas as pd

from experiments.metrics import NAN
from experiments.statistics import Estimate, median_interval

IN_RUN: Final = "in_run"
"""Column that identifies the run of a row; without it each row is a run."""


def over_runs(rows: pd.DataFrame, column: str) -> Estimate:
    """Return the median of a column over the runs; NaN is left out, and a missing column is unknown."""
    if column not in rows:
        return Estimate(NAN, NAN, NAN, 0)
    values = rows[column].astype(float)
    if IN_RUN in rows:
        values = values.groupby(rows[IN_RUN]).mean()
    return median_interval(values.to_numpy())


def of_pairs(above: pd.Series, below: pd.Series) -> Estimate:
    """Return the median of a ratio over the runs.

    Args:
        above: One value per run, indexed by what pairs runs, such as the seed.
        below: The denominators, likewise; 0 gives no ratio.
    """
    quotients = above.astype(float) / below.astype(float).where(below != 0)
    return median_interval(quotients.to_numpy())


def computed(value: float) -> Estimate:
    """Return the estimate for a computed value, which has neither runs nor randomness."""
    return Estimate(value, value, value, 0)


def less(one: float, found: Estimate) -> Estimate:
    """Return a number minus an estimate, such as 1 minus the share that is left, which is the saved share."""
    return Estimate(one - found.value, one - found.high, one - found.low, found.n)
