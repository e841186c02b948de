"""Several controllers next to each other: ranks with intervals, and where each one wins."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from experiments.evaluate.effects import compared
from experiments.evaluate.evaluation import Evaluation
from experiments.evaluate.figures import Drawn, all_measures
from experiments.evaluate.measures import Measure
from experiments.evaluate.model_error import error
from experiments.evaluate.running import SIMULATOR
from experiments.statistics import Estimate, median_interval


@dataclass(frozen=True)
class Ranking:
    """Controllers on one side.

    Attributes:
        ranks: Algorithm -> its mean rank over the criteria, from 1, the best first.
        wins: Algorithm -> measures in which it is better than each other one.
    """

    ranks: dict[str, Estimate]
    wins: dict[str, list[Drawn]]


def ranked(what: Measure, values: Sequence[float]) -> list[float]:
    """Return the ranks of controllers' values, from 1; equal values share the mean of their ranks.

    Values below the measure's floor are equal; unknown ones come last.
    """
    keys = [_sortable(what, one) for one in values]
    return [
        1 + sum(other < own for other in keys) + (sum(other == own for other in keys) - 1) / 2 for own in keys
    ]


def _sortable(what: Measure, value: float) -> float:
    if math.isnan(value):
        return math.inf
    return max(value, what.floor) * (-1 if what.better == "more" else 1)


def ranking(evaluation: Evaluation, side: str) -> Ranking | None:
    """Return the ranking on one side; None if a case was run for some controllers only.

    The rank of one seed is the mean over criteria of the mean over their measures, so a criterion with many
    cases counts as much as one with few. The estimate is the median over the seeds.
    """
    algorithms = [one.algorithm for one in evaluation.subjects]
    by_criterion: dict[str, list[np.ndarray]] = {}
    for row in all_measures(evaluation.cases):
        table = [evaluation.values(row.case, row.what, side, one) for one in algorithms]
        if not any(table):
            continue
        if not all(table):
            return None
        ranks = np.array([ranked(row.what, seed) for seed in zip(*table, strict=True)])
        by_criterion.setdefault(row.case.criterion.section, []).append(ranks)
    if not by_criterion:
        return None
    means = np.mean([np.mean(own, axis=0) for own in by_criterion.values()], axis=0)
    found = {name: median_interval(means[:, place]) for place, name in enumerate(algorithms)}
    return Ranking(
        dict(sorted(found.items(), key=lambda one: one[1].value)),
        {name: _wins(evaluation, side, name) for name in algorithms},
    )


def _wins(evaluation: Evaluation, side: str, algorithm: str) -> list[Drawn]:
    return [row for row in all_measures(evaluation.cases) if _is_won(evaluation, side, algorithm, row)]


def _is_won(evaluation: Evaluation, side: str, algorithm: str, row: Drawn) -> bool:
    others = [one.algorithm for one in evaluation.subjects if one.algorithm != algorithm]
    own = evaluation.values(row.case, row.what, side, algorithm)
    uncertain = error(row.case.kind, row.what.quantity) if side == SIMULATOR else 0.0
    return all(
        compared(row.what, other, own, evaluation.values(row.case, row.what, side, other), uncertain).verdict
        == "better"
        for other in others
    )
