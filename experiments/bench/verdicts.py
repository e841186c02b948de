"""Better, worse, the same or undecided: what pairs of measurements of two builds say.

Each pair gives a ratio, this build by the other. The verdict goes by a 99 % interval of the true ratio, and
by a margin that says how much matters:

    worse      the whole interval is more than the margin on the bad side
    better     the whole interval is more than the margin on the good side
    same       the whole interval is within the margin on either side
    undecided  anything else

The interval is that of the signed-rank test. It assumes that logarithms of ratios lie alike on both sides of
the true one, and nothing else about them: where noise is the same for both builds, which random order in each
pair sees to, the difference of two noises is symmetric, however they are distributed.

Error rate: where the true ratio is within the margin, "worse" comes in at most 0.5 % of comparisons. Of
five figures one is worse by mistake in at most 2.5 %, and that only where the truth is at the margins: with a
build against itself it is far rarer.

Source: Hollander and Wolfe, Nonparametric Statistical Methods, section 3.3 (Tukey's interval).
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from experiments.statistics import least_runs

LEVEL: Final = 0.99
PAIRS: Final = 10
"""Enough that one pair that is far off does not decide."""
FEWEST_PAIRS: Final = least_runs(LEVEL)
"""With fewer the interval cannot have the level."""


class Verdict(enum.StrEnum):
    """What a comparison says of this build."""

    BETTER = "better"
    WORSE = "worse"
    SAME = "same"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class Rule:
    """How a figure is judged.

    Attributes:
        margin_ratio: By how much a ratio may differ from 1 without mattering.
        more_is_better: Whether a larger figure is the better one.
    """

    margin_ratio: float
    more_is_better: bool = False


@dataclass(frozen=True, slots=True)
class Judgement:
    """What is said of a figure.

    Attributes:
        value: Ratio of this build to the other, as estimated.
        low: Lower end of the 99 % interval.
        high: Upper end.
        margin_ratio: Of the rule.
        verdict: What follows.
    """

    value: float
    low: float
    high: float
    margin_ratio: float
    verdict: Verdict


def judge_pairs(ratios: Sequence[float], rule: Rule) -> Judgement:
    """Judge a figure by its ratios, one a pair.

    Args:
        ratios: This build by the other, `FEWEST_PAIRS` at least.
        rule: How it is judged.

    Raises:
        ValueError: If there are too few pairs.
    """
    if len(ratios) < FEWEST_PAIRS:
        raise ValueError(f"{len(ratios)} pairs have no interval of {LEVEL:.0%}: {FEWEST_PAIRS} have")
    logs = np.log(ratios)
    first, second = np.triu_indices(len(logs))
    averages = np.sort((logs[first] + logs[second]) / 2)
    cut = _signed_rank_cut(len(logs))
    value, low, high = np.exp([np.median(averages), averages[cut], averages[-1 - cut]])
    return _judged(float(value), float(low), float(high), rule)


def _signed_rank_cut(pairs: int) -> int:
    """Return how many averages of two values the interval leaves out at either end.

    Of all 2^n ways to choose from the ranks 1 to n, so many have a sum that small.
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
    """Return what an interval of a ratio says."""
    least, most = 1 / (1 + rule.margin_ratio), 1 + rule.margin_ratio
    if least <= low and high <= most:
        return Verdict.SAME
    if low > most:
        return Verdict.BETTER if rule.more_is_better else Verdict.WORSE
    if high < least:
        return Verdict.WORSE if rule.more_is_better else Verdict.BETTER
    return Verdict.UNDECIDED
