from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.evaluate.effects import Effect, compared, decided, overall, overall_why, widened
from experiments.evaluate.measures import GOODPUT, Measure
from experiments.statistics import Estimate, median_interval

MORE = Measure("goodput", "goodput", "Mbit/s", lambda _: math.nan, "more", GOODPUT, 0.01)
LESS = Measure("rtt", "RTT", "ms", lambda _: math.nan, "less", GOODPUT)
SHOWN = Measure("harm", "harm", "", lambda _: math.nan, "", GOODPUT)

positive = st.floats(0.02, 1e6)
runs = st.lists(st.tuples(positive, positive), min_size=6, max_size=15)


@given(runs)
def test_an_effect_and_its_reverse_are_reciprocal_with_opposite_verdicts(
    pairs: list[tuple[float, float]],
) -> None:
    own, others = zip(*pairs, strict=True)
    there = compared(MORE, "other", own, others, 0.0)
    back = compared(MORE, "own", others, own, 0.0)
    assert there.found.low == pytest.approx(1 / back.found.high)
    assert there.found.high == pytest.approx(1 / back.found.low)
    opposite = {"better": "worse", "worse": "better", "undecided": "undecided"}
    assert there.verdict is not None
    assert back.verdict == opposite[there.verdict]


@given(runs, st.floats(0, 2))
def test_an_error_only_takes_verdicts_away(pairs: list[tuple[float, float]], error: float) -> None:
    own, others = zip(*pairs, strict=True)
    certain, uncertain = (compared(LESS, "other", own, others, one) for one in (0.0, error))
    assert uncertain.verdict in {certain.verdict, "undecided"}
    assert uncertain.judged.low <= certain.found.low <= certain.found.high <= uncertain.judged.high


@given(st.lists(positive, min_size=6), st.floats(0.001, 1))
def test_equal_figures_never_differ_in_the_simulator(values: list[float], error: float) -> None:
    for what in (MORE, LESS):
        found = compared(what, "other", values, values, error)
        assert found.verdict == "undecided"
        assert found.alike


def test_what_is_only_shown_has_no_verdict() -> None:
    assert compared(SHOWN, "other", [1.0] * 9, [2.0] * 9, 0.0).verdict is None


def test_values_below_the_floor_are_equal() -> None:
    assert compared(MORE, "other", [0.001] * 9, [0.009] * 9, 0.0).found.value == 1


def test_failed_runs_are_left_out_in_pairs() -> None:
    found = compared(MORE, "other", [2.0] * 7 + [math.nan, 2.0], [1.0] * 6 + [math.nan, 1.0, 1.0], 0.0)
    assert (found.n, found.ratio, found.verdict) == (7, 2.0, "better")


def test_too_few_runs_decide_nothing() -> None:
    assert compared(MORE, "other", [9.0] * 5, [1.0] * 5, 0.0).verdict == "undecided"


@pytest.mark.parametrize(
    ("own", "error", "verdict", "why"),
    [
        ([2.0] * 9, 0.5, "better", ""),
        ([2.0] * 5, 0.0, "undecided", "more seeds"),
        ([0.5, 2.0] * 5, 0.0, "undecided", "more seeds"),
        ([0.5, 2.0] * 5, 0.5, "undecided", "more seeds"),
        ([1.2] * 9, 0.3, "undecided", "model"),
        ([1.2] * 9, 0.0, "better", ""),
        ([1.02] * 9, 0.3, "undecided", "about the same"),
        ([1.02] * 9, 0.0, "better", ""),
        ([0.99, 1.01] * 5, 0.0, "undecided", "about the same"),
        ([math.nan] * 9, 0.3, "undecided", "not measured"),
    ],
)
def test_an_undecided_effect_says_why(own: list[float], error: float, verdict: str, why: str) -> None:
    found = compared(MORE, "other", own, [1.0] * len(own), error)
    assert (found.verdict, found.why) == (verdict, why)
    assert found.records()["why"] == why


def test_what_is_only_shown_needs_no_reason() -> None:
    assert compared(SHOWN, "other", [1.0, 2.0] * 5, [1.0] * 10, 0.0).why == ""


def test_the_number_of_seeds_is_said_where_more_would_decide() -> None:
    few = compared(MORE, "other", [2.0] * 5, [1.0] * 5, 0.0)
    assert few.seeds_needed == 6
    wide = compared(MORE, "other", [0.8, 1.1, 1.2, 1.2, 1.3, 1.6], [1.0] * 6, 0.0)
    assert wide.seeds_needed == 24  # 6 * (0.4 / 0.2) ** 2
    near = compared(MORE, "other", [0.9, 0.95, 1.0, 1.0, 1.05, 1.1], [1.0] * 6, 0.0)
    assert near.seeds_needed == 27  # 6 * (0.1 / (1 - 1 / 1.05)) ** 2
    assert compared(MORE, "other", [1.2] * 9, [1.0] * 9, 0.3).seeds_needed is None
    touching = compared(MORE, "other", [1.0, *[2.0] * 5], [1.0] * 6, 0.0)
    assert (touching.why, touching.seeds_needed) == ("more seeds", None)


def test_a_case_has_the_reason_that_more_runs_remove_first() -> None:
    def with_ratios(*ratios: float) -> Effect:
        return compared(MORE, "other", list(ratios), [1.0] * len(ratios), 0.3)

    same, model, seeds = with_ratios(*[1.0] * 9), with_ratios(*[1.2] * 9), with_ratios(*[0.5, 2.0] * 5)
    assert overall_why([same]) == "about the same"
    assert overall_why([same, model]) == "model"
    assert overall_why([same, model, seeds]) == "more seeds"
    assert overall_why([same, with_ratios(*[9.0] * 9)]) == ""
    assert overall_why([]) == "not measured"


def test_a_margin_is_needed_on_both_sides() -> None:
    just = Estimate(1.02, 1.015, 1.03, 9)
    assert decided("more", just) == "better"
    assert decided("less", just) == "worse"
    assert decided("less", just, margin=0.02) == "undecided"
    assert decided("more", widened(Estimate(0.9, 0.89, 0.91, 9), 0.0), margin=0.05) == "worse"


def test_the_verdict_on_a_case_names_both_sides_of_a_trade() -> None:
    assert overall(["better", "undecided"]) == "better"
    assert overall(["worse", "better", None]) == "mixed"
    assert overall(["undecided", None]) == "undecided"
    assert overall([]) == "undecided"


def test_the_interval_is_the_one_of_the_median_of_ratios() -> None:
    own, others = [float(n) for n in range(10, 19)], [10.0] * 9
    wanted = median_interval([one / 10 for one in own])
    found = compared(MORE, "other", own, others, 0.0)
    assert (found.ratio, found.low, found.high) == pytest.approx((wanted.value, wanted.low, wanted.high))
