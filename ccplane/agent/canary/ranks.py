"""A rank test: are the values of a randomly chosen group lower than the others, by more than chance?

Flows get the new version at random. If that version makes no difference, every selection of n flows is
equally likely, however flows depend on each other, on the time of day and on their size. So the distribution
of the rank sum of the selected flows is known.

Source: Wilcoxon 1945, with average ranks for ties; Fisher 1935 for randomisation as the basis of a test.
Repeated evaluations of a trial share its level by alpha spending (Lan and DeMets 1983).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import numpy as np

EXACT_STEPS: Final = 4_000_000
"""Maximum additions for the exact distribution (a few ms); beyond, the normal approximation is used."""


def p_smaller(chosen: Sequence[float], others: Sequence[float]) -> float:
    """Return the probability that chance alone ranks the chosen values as low as observed, or lower.

    Returns:
        The one-sided p-value; 1 if a side is empty. The normal approximation has a continuity correction of
        half a rank and heavier tails than the exact distribution, so it tends to overestimate p.
    """
    import numpy as np

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
    """Return the level of one evaluation; the levels of all evaluations add up to at most `level`.

    Args:
        look: Number of the evaluation, from 1.
        level: Probability of a false alarm in the whole trial.
    """
    return level / (look * (look + 1))


def _doubled_ranks(values: np.ndarray) -> np.ndarray:
    """Return twice the ranks (from 1), as integers; equal values share their average rank."""
    import numpy as np

    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (2 * last - counts + 1)[inverse]


def _counted(ranks: np.ndarray, n: int, maximum: int) -> float:
    """Return the fraction of all selections of n ranks whose sum is at most `maximum`."""
    import numpy as np

    ways = np.zeros((n + 1, maximum + 1))
    ways[0, 0] = 1.0
    for rank in ranks.tolist():
        if rank <= maximum:
            ways[1:, rank:] += ways[:-1, : maximum + 1 - rank].copy()
    return float(ways[n].sum()) / math.comb(len(ranks), n)
