"""A paper's claims as data: the claim, how it is tested, and why it fails or is not tested."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Final

import pandas as pd

from experiments.metrics import NAN
from experiments.papers.estimates import over_runs
from experiments.papers.tables import Check, bounds_text
from experiments.statistics import Estimate, median_interval

_WITHIN: Final = {"operator", "number"}
"""Columns that distinguish what is compared inside a run: the mean of the ratios is the run's value."""


@dataclass(frozen=True)
class Comparison:
    """A figure of some runs of a part, or the ratio of two figures, with bounds.

    Attributes:
        name: Unique in its part.
        says: What is measured, as a noun phrase; bounds and `where` are appended.
        column: Column of the part's table of runs.
        of: Column -> value: selects the runs.
        by: Selects the runs of the denominator. Runs with the same seed are compared. None: no ratio.
        at_least: Lower bound, or None.
        at_most: Upper bound, or None.
        where: The conditions of this comparison, among others that measure the same.
    """

    name: str
    says: str
    column: str
    of: Mapping[str, Any] = field(default_factory=dict)
    by: Mapping[str, Any] | None = None
    at_least: float | None = None
    at_most: float | None = None
    where: str = field(default="", kw_only=True)

    @property
    def sentence(self) -> str:
        """What is measured, with its conditions."""
        return f"{self.says} ({self.where})" if self.where else self.says

    def check(self, table: pd.DataFrame) -> Check:
        """Return the measured value; `table` has a row per run, with `seed`; columns may be missing."""
        return Check(self.sentence, self._found(table), self.at_least, self.at_most, self.name)

    def _found(self, table: pd.DataFrame) -> Estimate:
        if {self.column, *self.of, *(self.by or {})} - set(table.columns):
            return Estimate(NAN, NAN, NAN, 0)
        if self.by is None:
            return over_runs(chosen(table, self.of), self.column)
        reported_apart = {"seed", *(_WITHIN & set(table.columns))} - self.of.keys() - self.by.keys()
        above, below = (
            chosen(table, which).groupby(sorted(reported_apart))[self.column].mean()
            for which in (self.of, self.by)
        )
        quotients = (above.astype(float) / below.astype(float).where(below != 0)).groupby("seed").mean()
        return median_interval(quotients.to_numpy())


def chosen(table: pd.DataFrame, which: Mapping[str, Any]) -> pd.DataFrame:
    """Return the rows of a table that have these values in these columns."""
    for column, value in which.items():
        table = table[table[column] == value]
    return table


@dataclass(frozen=True)
class Claim:
    """A claim of a paper.

    Attributes:
        source: Figure, table or section.
        says: The claim, paraphrased.
        part: The part of the experiments that tests it; None: it is not tested.
        tests: Comparisons, all of which have to hold.
        checks: Names of checks that the part makes itself, all of which have to hold.
        how: How it is tested, where `tests` do not say so.
        why: Why it fails or is undecided, or why it is not tested.
        simulable: Whether simulated runs are evidence.
    """

    source: str
    says: str
    part: str | None = None
    tests: Sequence[Comparison] = ()
    checks: Sequence[str] = ()
    how: str = ""
    why: str = ""
    simulable: bool = True

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all checks that decide the claim."""
        return (*(test.name for test in self.tests), *self.checks)

    @property
    def tested(self) -> str:
        """How the claim is tested; comparisons that differ only in their conditions are one sentence."""
        said = [self.how] if self.how else []
        for (says, *bounds), tests in groupby(
            self.tests, lambda test: (test.says, test.at_least, test.at_most)
        ):
            where = "; ".join(test.where for test in tests if test.where)
            said.append(f"{says}{bounds_text(*bounds)}{f' ({where})' if where else ''}")
        return f"`{self.part}`: {'; '.join(said)}" if self.part else ""
