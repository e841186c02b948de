from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.evaluate import page
from experiments.evaluate.baseline import Changes, changes
from experiments.evaluate.errors import EvaluateError
from experiments.evaluate.running import SIMULATOR
from experiments.report import rendered
from tests.unit.experiments.evaluate.made import BBR, CASES, CUBIC, made, seeds, usual


def test_a_figure_that_is_worse_with_its_whole_interval_is_named() -> None:
    found = changes(usual(), usual(goodput=43.0), "old.json")
    (worse,) = found.with_verdict("worse")
    assert (worse.case.key, worse.what.key) == ("alone-tenth", "goodput")
    assert str(worse).startswith("alone-tenth: goodput 46.2 Mbit/s")
    assert "0.935 times [0.935, 0.935]" in str(worse)
    assert found.with_verdict("better") == []


def test_the_report_names_what_changed() -> None:
    html = rendered(page.report_of(usual(), changes(usual(goodput=43.0), usual(), "old.json")))
    assert "1 better." in html
    assert "Better than in the baseline" in html
    assert "Worse than in the baseline" not in html
    assert "alone-tenth: goodput 43.2 Mbit/s" in html


def test_what_is_better_does_not_count_as_worse() -> None:
    found = changes(usual(), usual(retransmitted=1.0), "old.json")
    assert found.with_verdict("worse") == []
    assert [one.what.key for one in found.with_verdict("better")] == ["retransmitted"]


def test_an_interval_across_no_change_is_not_worse() -> None:
    noisy = tuple(46.0 * (0.8 if n % 2 else 1.1) for n in range(9))
    after = made({("goodput", SIMULATOR, BBR.algorithm): noisy})
    assert changes(usual(), after, "old.json").with_verdict("worse") == []


@given(st.floats(0.5, 2.0))
def test_changes_up_to_the_margin_are_none(factor: float) -> None:
    found = changes(usual(), usual(goodput=46.0 * factor), "old.json", margin=0.05)
    goodput = next(one for one in found.all if one.what.key == "goodput")
    if abs(factor - 1) < 0.04:
        assert goodput.verdict == "undecided"
    if factor < 0.95:
        assert goodput.verdict == "worse"
    if factor > 1.06:
        assert goodput.verdict == "better"


def test_a_figure_that_only_one_has_is_named() -> None:
    after = made({("retransmitted", SIMULATOR, BBR.algorithm): seeds(3.0)})
    assert changes(usual(), after, "old.json").alone == ("alone-tenth, goodput (simulator)",)


def test_of_many_figures_without_a_comparison_some_are_named() -> None:
    found = Changes((), tuple(f"case-{number}, goodput (simulator)" for number in range(12)))
    assert found.counted.endswith("case-4, goodput (simulator) and 7 more.")
    assert "case-5" not in found.counted


def test_a_baseline_without_a_common_figure_is_refused() -> None:
    other = made({("goodput", SIMULATOR, CUBIC.algorithm): seeds(1.0)}, cases=[CASES["queue-1bdp"]])
    with pytest.raises(EvaluateError) as caught:
        changes(other, usual(), "old.json")
    assert caught.value.slug == "evaluate.bad_baseline"
    assert caught.value.where == "old.json"
