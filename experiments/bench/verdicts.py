"""Verdict of pairs of measurements of two builds: better, worse, same or undecided.

Each pair gives a ratio of this build to the other. The verdict compares a 99 % interval of the true ratio
with a margin:

    worse      the whole interval is more than the margin on the bad side
    better     the whole interval is more than the margin on the good side
    same       the whole interval is within the margin on either side
    undecided  anything else

The interval comes from the signed-rank test. The interval only assumes that logarithms of ratios are
distributed symmetrically around that of the true ratio, which holds if noise is the same for both builds;
random order in each pair ensures that.

Error rate: if the true ratio is within the margin, the verdict is "worse" in at most 0.5 % of comparisons.

Source: Hollander and Wolfe, Nonparametric Statistical Methods, section 3.3 (Tukey's interval).
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from experiments.statistics import min_runs

LEVEL: Final = 0.99
PAIRS: Final = 10
"""Number of pairs, enough that a single outlier does not decide."""
FEWEST_PAIRS: Final = min_runs(LEVEL)
"""Minimum number of pairs for an interval of this level."""


class Verdict(enum.StrEnum):
    """Verdict on this build."""

    BETTER = "better"
    WORSE = "worse"
    SAME = "same"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class Rule:
    """How a figure is judged.

    Attributes:
        margin_ratio: Maximum irrelevant difference of a ratio from 1.
        more_is_better: Whether larger figures are better.
    """

    margin_ratio: float
    more_is_better: bool = False


@dataclass(frozen=True, slots=True)
class Judgement:
    """Estimate and verdict of a figure.

    Attributes:
        value: Estimated ratio of this build to the other.
        low: Lower end of the 99 % interval.
        high: Upper end.
        margin_ratio: Margin of the rule.
        verdict: The verdict.
    """

    value: float
    low: float
    high: float
    margin_ratio: float
    verdict: Verdict


def judge_pairs(ratios: Sequence[float], rule: Rule) -> Judgement:
    """Judge a measurement by its ratios, one for each pair of runs.

    Raises:
        ValueError: If there are too few pairs.
    """
    if len(ratios) < FEWEST_PAIRS:
        raise ValueError(
            f"{len(ratios)} pairs are too few for an interval of {LEVEL:.0%}: it needs {FEWEST_PAIRS}"
        )
    logs = np.log(ratios)
    first, second = np.triu_indices(len(logs))
    averages = np.sort((logs[first] + logs[second]) / 2)
    cut = _signed_rank_cut(len(logs))
    value, low, high = np.exp([np.median(averages), averages[cut], averages[-1 - cut]])
    return _judged(float(value), float(low), float(high), rule)


def _signed_rank_cut(pairs: int) -> int:
    """Return how many averages of two values the interval leaves out at either end.

    `ways` counts the subsets of the ranks 1 to n by their sum.
    """
    ways = [1] + [0] * (pairs * (pairs + 1) // 2)
    for rank in range(1, pairs + 1):
        for total in range(len(ways) - 1, rank - 1, -1):
            ways[total] += ways[total - rank]
    left_out = 0
    while 2 * sum(ways[: left_out + 2]) <= (1 - LEVEL) * 2**pairs:
        left_out += 1
    return left_out


def _judged(value: float, low: float, high: float, rule: Rule) -> Judgement:
    return Judgement(value, low, high, rule.margin_ratio, judge(low, high, rule))


def judge(low: float, high: float, rule: Rule) -> Verdict:
    """Return the verdict for an interval of a ratio."""
    minimum, maximum = 1 / (1 + rule.margin_ratio), 1 + rule.margin_ratio
    if minimum <= low and high <= maximum:
        return Verdict.SAME
    if low > maximum:
        return Verdict.BETTER if rule.more_is_better else Verdict.WORSE
    if high < minimum:
        return Verdict.WORSE if rule.more_is_better else Verdict.BETTER
    return Verdict.UNDECIDED
