from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ccplane.agent.monitor.spark import BLOCKS, axis_top, maximum, spark

NAN = math.nan
values = st.lists(st.just(NAN) | st.floats(0, 1e15), max_size=40)


def test_columns_reach_from_the_min_to_the_max_value() -> None:
    assert spark([0, 10, 20, 30, 40, 50, 60, 70], 8) == ["▁▂▃▄▅▆▇█"]


def test_newest_value_stands_at_the_right_and_what_is_not_there_is_empty() -> None:
    assert spark([0, 70], 4) == ["  ▁█"]
    assert spark([70, 0, 70], 2) == ["▁█"]


def test_missing_value_is_a_gap_and_zero_is_not() -> None:
    assert spark([70, NAN, 0], 3) == ["█ ▁"]


def test_nothing_is_drawn_without_values() -> None:
    assert spark([], 3) == ["   "]
    assert spark([NAN, NAN], 3) == ["   "]
    assert spark([1, 2], 0) == [""]


def test_columns_begin_at_zero_so_small_changes_look_small() -> None:
    (line,) = spark([1000, 900, 500, 0], 4)
    assert line == "█▇▄▁"


def test_top_can_be_given() -> None:
    assert spark([50, 100, 300], 3, top=100) == ["▄██"]


def test_all_zeros_are_the_lowest_block() -> None:
    assert spark([0, 0], 2) == ["▁▁"]


def test_higher_charts_are_drawn_from_above() -> None:
    assert spark([0, 100, 50], 3, height=2) == [" █ ", "▁██"]


@given(st.floats(1e-9, 1e12))
def test_top_of_an_axis_is_round_and_not_far_above(value: float) -> None:
    top = axis_top(value)
    assert value <= top * (1 + 1e-8)
    assert top <= 1.34 * value
    assert float(f"{top:.2g}") == pytest.approx(top)


def test_maximum_and_top_without_values() -> None:
    assert maximum([NAN, 3, 1]) == 3
    assert maximum([NAN]) == maximum([]) == 0
    assert axis_top(0) == 1


@given(values, st.integers(0, 50), st.integers(1, 6))
def test_chart_always_has_its_size_and_shows_every_value(shown: list[float], width: int, height: int) -> None:
    lines = spark(shown, width, height)
    assert [len(line) for line in lines] == [width] * height
    assert set("".join(lines)) <= set(BLOCKS)
    last = shown[-width:] if width else []
    drawn = lines[-1][width - len(last) :]
    assert [character != " " for character in drawn] == [not math.isnan(value) for value in last]


@given(st.lists(st.floats(0, 1e12), min_size=2, max_size=20))
def test_greater_values_never_look_smaller(shown: list[float]) -> None:
    (line,) = spark(shown, len(shown))
    order = sorted(range(len(shown)), key=shown.__getitem__)
    levels = [BLOCKS.index(line[i]) for i in order]
    assert levels == sorted(levels)
