"""Estimates of papers' figures: one value a run, the median over the runs, and its exact interval.

What a run has inside, such as flows, shares its network and its machine: the mean of it is the run's value.
"""

from __future__ import annotations

from typing import Final

import pandas as pd

from experiments.metrics import NAN
from experiments.statistics import Estimate, median_interval

IN_RUN: Final = "in_run"
"""Column that tells which rows are of the same run; without it each row is a run of its own."""


def over_runs(rows: pd.DataFrame, column: str) -> Estimate:
    """Return the median over the runs of a column.

    Args:
        rows: Of one or more runs.
        column: Which; NaN is left out, and what is not there is not known.
    """
    if column not in rows:
        return Estimate(NAN, NAN, NAN, 0)
    values = rows[column].astype(float)
    if IN_RUN in rows:
        values = values.groupby(rows[IN_RUN]).mean()
    return median_interval(values.to_numpy())


def of_pairs(above: pd.Series, below: pd.Series) -> Estimate:
    """Return the median over the runs of the quotient of what belongs together.

    Args:
        above: One value a run, by what tells which belong together, such as the seed.
        below: The same for what it is divided by; where it is 0 there is no quotient.
    """
    quotients = above.astype(float) / below.astype(float).where(below != 0)
    return median_interval(quotients.to_numpy())


def computed(value: float) -> Estimate:
    """Return what was computed: no runs, and nothing of chance in it."""
    return Estimate(value, value, value, 0)


def less(one: float, found: Estimate) -> Estimate:
    """Return a number less an estimate, such as what is saved from what is left."""
    return Estimate(one - found.value, one - found.high, one - found.low, found.n)
