from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.evaluate import markdown, page
from experiments.evaluate.comparing import ranked, ranking
from experiments.evaluate.measures import GOODPUT, Measure
from experiments.evaluate.running import SIMULATOR
from experiments.report import rendered
from tests.unit.experiments.evaluate.made import BBR, CUBIC, RENO, made, seeds

MORE = Measure("goodput", "goodput", "Mbit/s", lambda _: math.nan, "more", GOODPUT, 0.01)
LESS = Measure("rtt", "RTT", "ms", lambda _: math.nan, "less", GOODPUT)
values = st.lists(st.floats(0, 1e6) | st.just(math.nan), min_size=1, max_size=8)


@given(values)
def test_ranks_add_up_whatever_is_equal(found: list[float]) -> None:
    n = len(found)
    assert sum(ranked(MORE, found)) == pytest.approx(n * (n + 1) / 2)


@given(values)
def test_the_order_of_controllers_does_not_matter(found: list[float]) -> None:
    assert ranked(LESS, found[::-1]) == ranked(LESS, found)[::-1]


def test_more_or_less_is_better_and_unknown_is_last() -> None:
    assert ranked(MORE, [1.0, 3.0, math.nan, 2.0]) == [3, 1, 4, 2]
    assert ranked(LESS, [1.0, 3.0, math.nan, 2.0]) == [1, 3, 4, 2]
    assert ranked(MORE, [0.001, 0.002]) == [1.5, 1.5]


def test_the_best_is_first_and_wins_are_clear_of_all_others() -> None:
    three = (CUBIC, BBR, RENO)
    goodputs = {CUBIC: 44.0, BBR: 10.0, RENO: 43.0}
    again = {CUBIC: 0.4, BBR: 9.0, RENO: 0.01}
    found = made(
        {("goodput", SIMULATOR, one.algorithm): seeds(value) for one, value in goodputs.items()}
        | {("retransmitted", SIMULATOR, one.algorithm): seeds(value) for one, value in again.items()},
        subjects=three,
    )
    ranks = ranking(found, SIMULATOR)
    assert list(ranks.ranks)[2] == BBR.algorithm
    assert ranks.ranks[BBR.algorithm].value == 3
    assert [one.what.key for one in ranks.wins[RENO.algorithm]] == ["retransmitted"]
    assert ranks.wins[CUBIC.algorithm] == []  # ahead of Reno by less than the simulator's error
    html = rendered(page.comparison_of(found, {SIMULATOR: ranks}))
    assert "Ranks: simulator" in html
    text = markdown.of_comparison(found, {SIMULATOR: ranks})
    assert "kernel Reno wins: alone, 0.1 BDP of buffer: retransmitted (6.1)." in text
