"""What a paper claims, as data: in our words, how it is tested here, and why it is not where it is not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pandas as pd

from experiments.metrics import NAN
from experiments.papers.estimates import over_runs
from experiments.papers.tables import Check
from experiments.statistics import Estimate, median_interval

_WITHIN: Final = {"operator", "number"}
"""Columns that tell apart what a run compares inside: the mean of its quotients is the run's."""


@dataclass(frozen=True)
class Comparison:
    """A figure of some runs of a part, or its quotient with that of others, and its bounds.

    Attributes:
        name: Once in its part.
        says: What is compared, as people say it; bounds are added.
        column: Of the part's table of runs.
        of: Column -> value: the runs whose figure it is.
        by: The runs that it is divided by, likewise; those with the same seed belong together, and of what
            they have inside what is limited alike. None: no quotient.
        at_least: Lower bound; None: there is none.
        at_most: Upper bound, likewise.
    """

    name: str
    says: str
    column: str
    of: Mapping[str, Any] = field(default_factory=dict)
    by: Mapping[str, Any] | None = None
    at_least: float | None = None
    at_most: float | None = None

    @property
    def sentence(self) -> str:
        """What is compared, with its bounds."""
        return f"{self.says}{told_bounds(self.at_least, self.at_most)}"

    def check(self, table: pd.DataFrame) -> Check:
        """Return what runs say.

        Args:
            table: A row for each run, with `seed`; what it has no column for is not measured.
        """
        return Check(self.sentence, self._found(table), self.at_least, self.at_most, self.name)

    def _found(self, table: pd.DataFrame) -> Estimate:
        if {self.column, *self.of, *(self.by or {})} - set(table.columns):
            return Estimate(NAN, NAN, NAN, 0)
        if self.by is None:
            return over_runs(chosen(table, self.of), self.column)
        told_apart = {"seed", *(_WITHIN & set(table.columns))} - self.of.keys() - self.by.keys()
        above, below = (
            chosen(table, which).groupby(sorted(told_apart))[self.column].mean()
            for which in (self.of, self.by)
        )
        quotients = (above.astype(float) / below.astype(float).where(below != 0)).groupby("seed").mean()
        return median_interval(quotients.to_numpy())


def chosen(table: pd.DataFrame, which: Mapping[str, Any]) -> pd.DataFrame:
    """Return the rows of a table that have these values in these columns."""
    for column, value in which.items():
        table = table[table[column] == value]
    return table


def told_bounds(at_least: float | None, at_most: float | None) -> str:
    """Return bounds as they end a sentence."""
    if at_least is not None and at_most is not None:
        return f" is {at_least:g} to {at_most:g}" if at_least != at_most else f" is {at_least:g}"
    if at_least is not None:
        return f" is at least {at_least:g}"
    return "" if at_most is None else f" is at most {at_most:g}"


@dataclass(frozen=True)
class Claim:
    """What a paper claims.

    Attributes:
        source: Its figure, table or section.
        says: What it claims, in our words.
        part: The part of the experiments that tests it; None: it is not tested here.
        tests: What that compares; the claim holds if all do.
        checks: Names of checks that the part has itself, likewise.
        how: How it is tested, where `tests` do not say so.
        why: Why it fails or is undecided here, or why it is not tested, or not run.
        simulable: Whether simulated runs say anything about it.
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
        """Names of all checks that decide it."""
        return (*(test.name for test in self.tests), *self.checks)

    @property
    def tested(self) -> str:
        """How it is tested, in words."""
        said = "; ".join([*([self.how] if self.how else []), *(test.sentence for test in self.tests)])
        return f"`{self.part}`: {said}" if self.part else ""
