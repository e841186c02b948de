"""A paper's claims as data: the claim, how it is tested, and why it fails or is not tested."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Final

import pandas as pd

from experiments.metrics import NAN
from experiments.papers.estimates import over_runs
from experiments.papers.tables import Check, Table, bounds_text
from experiments.statistics import Estimate, median_interval

_WITHIN: Final = {"operator", "number"}
"""Columns that distinguish what is compared inside a run: the mean of the ratios is the run's value."""

Bounds = tuple[float | None, float | None]
"""Lower and upper bound; None for none."""
MARGIN: Final = 0.02
"""Ratios that differ from 1 by at most this much count as equal, unless the claim gives another margin."""
EQUAL: Final[Bounds] = (1 - MARGIN, 1 + MARGIN)
"""Bounds of "as good as", "the same", "hardly matters"."""
NO_LESS: Final[Bounds] = (1 - MARGIN, None)
"""Bounds of "no less than", "keeps", "as much as" where more would also do."""
NO_MORE: Final[Bounds] = (None, 1 + MARGIN)
MORE: Final[Bounds] = (1 + MARGIN, None)
"""Bounds of "more than", "longer": a ratio that counts as equal is not more."""
LESS: Final[Bounds] = (None, 1 - MARGIN)
FAIR_JAIN: Final = 0.9
"""Minimum Jain index of "fair", where the paper gives none."""
FAIR_SHARES: Final[Bounds] = (0.333, 0.667)
"""Shares of one of two flows, or of one of two equal groups, that have a Jain index of `FAIR_JAIN`."""


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
        path: Kind of path, as in `experiments.papers.model_error`; empty: the claim's.
    """

    name: str
    says: str
    column: str
    of: Mapping[str, Any] = field(default_factory=dict)
    by: Mapping[str, Any] | None = None
    at_least: float | None = None
    at_most: float | None = None
    where: str = field(default="", kw_only=True)
    path: str = field(default="", kw_only=True)

    @property
    def sentence(self) -> str:
        """What is measured, with its conditions."""
        return f"{self.says} ({self.where})" if self.where else self.says

    def check(self, table: pd.DataFrame) -> Check:
        """Return the measured value; `table` has a row per run, with `seed`; columns may be missing."""
        return Check(self.sentence, self._found(table), self.at_least, self.at_most, self.name)

    def of_tables(self, tables: Iterable[Table]) -> Check | None:
        """Return the value from tables of estimates, for comparisons that are newer than the runs.

        Runs are not paired in such tables, so that the interval of a ratio is wider than necessary: from the
        lowest numerator by the highest denominator to the opposite. None: no table has the rows.
        """
        needed = {*self.of, *(self.by or {})}
        for table in tables:
            if needed <= set(table.by) and self.column in table.values:
                found = _estimate(table, self.of, self.column)
                if found is not None and self.by is not None:
                    found = _quotient(found, _estimate(table, self.by, self.column))
                if found is not None:
                    return Check(self.sentence, found, self.at_least, self.at_most, self.name)
        return None

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


def _estimate(table: Table, which: Mapping[str, Any], column: str) -> Estimate | None:
    rows = chosen(table.rows, which)
    if len(rows) != 1:
        return None
    row = rows.iloc[0]
    return Estimate(
        float(row[column]), float(row[f"{column}.low"]), float(row[f"{column}.high"]), int(row["n"])
    )


def _quotient(above: Estimate, below: Estimate | None) -> Estimate | None:
    if below is None or not below.value:
        return None
    ends = (above.low / below.high, above.high / below.low) if below.low and below.high else (NAN, NAN)
    return Estimate(above.value / below.value, *ends, min(above.n, below.n))


@dataclass(frozen=True)
class Tuned:
    """Parameters that were chosen on runs; a claim that uses them has no verdict on these runs.

    Attributes:
        parameters: The parameters, as text.
        seeds: Seeds of the runs that they were chosen on; empty: all runs of the claim's part.
    """

    parameters: str
    seeds: frozenset[int] = frozenset()

    def covers(self, seeds: Iterable[int] | None) -> bool:
        """Return whether any of the seeds of a result was used for tuning; None: they are not known."""
        return not self.seeds or seeds is None or bool(self.seeds & set(seeds))


LITERAL: Final = "-literal"
"""Suffix of parts that have the paper's rule where the part before it has ccplane's (`literal.py`)."""


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
        number: The paper's number, as text; empty if it gives none.
        rule: ccplane's rule that the runs had instead of the paper's; empty: the paper's rule. The claim with
            the paper's rule is another row.
        path: Kind of path of its runs, as in `experiments.papers.model_error`.
        fast: Whether the bottleneck of its runs exceeds 100 Mbit/s.
        bars: Name of one of `checks` -> bounds that replace those kept with the check.
        measures: Column that all `checks` measure, or, with `saved` before it, a share of it that is saved;
            empty: a quantity that the simulator's accuracy is not known for.
        readings: Whether `checks` are readings of the same sentence, which decide only if they agree.
        also: Another part that has the same runs among its own; the one with more runs is used.
        tuned: Parameters of the runs that were chosen on runs of the same part, and on which of them.
    """

    source: str
    says: str
    part: str | None = None
    tests: Sequence[Comparison] = ()
    checks: Sequence[str] = ()
    how: str = ""
    why: str = ""
    simulable: bool = True
    number: str = ""
    rule: str = ""
    path: str = "drop-tail"
    fast: bool = False
    bars: Mapping[str, Bounds] = field(default_factory=dict)
    measures: str = ""
    readings: bool = False
    also: str = ""
    tuned: Tuned | None = None

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
        return f"`{self.part}`: {'; '.join(said)}" if self.part and said else ""
