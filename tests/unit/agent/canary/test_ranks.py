from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ccplane.agent.canary import ranks
from ccplane.agent.canary.ranks import p_smaller, spent

few = st.lists(st.integers(0, 5), min_size=1, max_size=4)


@settings(max_examples=60)
@given(few, few)
def test_it_is_the_share_of_all_choices_that_rank_as_low(chosen: list[int], others: list[int]) -> None:
    every = [*chosen, *others]
    rank = [sum(one < value for one in every) + (every.count(value) + 1) / 2 for value in every]
    found = sum(rank[: len(chosen)])
    sums = [sum(some) for some in itertools.combinations(rank, len(chosen))]
    expected = sum(one <= found for one in sums) / len(sums)
    p = p_smaller([float(one) for one in chosen], [float(one) for one in others])
    assert p == pytest.approx(expected) or (p == 1 and found >= np.mean(sums))


@pytest.mark.parametrize("shift", [0.5, 1.0])
def test_the_normal_distribution_stands_for_what_is_not_counted_out(
    shift: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(1)
    chosen, others = rng.normal(-shift, size=20).round(1), rng.normal(size=150).round(1)
    counted = p_smaller(chosen.tolist(), others.tolist())
    monkeypatch.setattr(ranks, "EXACT_STEPS", 0)
    assert 0.9 * counted < p_smaller(chosen.tolist(), others.tolist()) < 5 * counted


def test_without_one_side_nothing_is_known() -> None:
    assert p_smaller([], [1.0]) == p_smaller([1.0], []) == 1


def test_all_equal_says_nothing() -> None:
    assert p_smaller([1.0] * 5, [1.0] * 50) == 1


def test_looks_spend_no_more_than_the_level() -> None:
    assert 0.98 * 0.005 < sum(spent(look, 0.005) for look in range(1, 100)) <= 0.005
