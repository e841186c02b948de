"""Whether some values are smaller than others by more than chance: a rank test that lots justify.

Which flows get the new version is drawn by lot. Where that version is no different, the lots say nothing
about how flows fare, however these depend on each other, on the hour and on their size: every choice of so
many from all flows is equally likely. So the rank sum of the chosen ones has a distribution that is known.

Source: Wilcoxon 1945, with average ranks for equal values; Fisher 1935 for lots as the ground of a test.
Looks at one trial spend its level in parts, as alpha spending does (Lan and DeMets 1983).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

EXACT_STEPS: Final = 4_000_000
"""Up to so many additions the distribution is counted out, in some ms; beyond, it is nearly normal."""


def p_smaller(chosen: Sequence[float], others: Sequence[float]) -> float:
    """Return how likely lots alone make the chosen values rank as low as they do, or lower.

    Args:
        chosen: Values of those that the lots chose.
        others: Values of the rest.

    Returns:
        The one-sided p-value; 1 where a side is empty. Where it is not counted out, the normal distribution
        stands for it, with half a rank of continuity correction: that has more in its tails, so p is rather
        too large.
    """
    n, total = len(chosen), len(chosen) + len(others)
    if not chosen or not others:
        return 1.0
    ranks = _doubled_ranks(np.concatenate([np.asarray(chosen, float), np.asarray(others, float)]))
    found = int(ranks[:n].sum())
    mean = n * (total + 1)  # twice the mean of the rank sum
    if found >= mean:
        return 1.0
    if n * total * found <= EXACT_STEPS:
        return _counted(ranks, n, found)
    variance = n * (total - n) / (total * (total - 1)) * float(((ranks - (total + 1)) ** 2).sum())
    return 0.5 * math.erfc((mean - found - 1) / math.sqrt(2 * variance))


def spent(look: int, level: float) -> float:
    """Return what a look may spend of a trial's level; all looks together spend no more than that.

    Args:
        look: Number of the look, from 1.
        level: Chance of a false alarm that the whole trial may have.
    """
    return level / (look * (look + 1))


def _doubled_ranks(values: np.ndarray) -> np.ndarray:
    """Return twice the ranks from 1, whole numbers; equal values share their average."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (2 * last - counts + 1)[inverse]


def _counted(ranks: np.ndarray, n: int, most: int) -> float:
    """Return the share of all choices of n ranks whose sum is at most this."""
    ways = np.zeros((n + 1, most + 1))
    ways[0, 0] = 1.0
    for rank in ranks.tolist():
        if rank <= most:
            ways[1:, rank:] += ways[:-1, : most + 1 - rank].copy()
    return float(ways[n].sum()) / math.comb(len(ranks), n)
