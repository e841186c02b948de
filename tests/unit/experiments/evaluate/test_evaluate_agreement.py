from __future__ import annotations

import pytest

from experiments.evaluate import agreement, page
from experiments.evaluate.evaluating import sampled
from experiments.evaluate.running import SIMULATOR, SOCKETS
from experiments.report import rendered
from tests.unit.experiments.evaluate.made import BBR, CASES, CUBIC, RENO, made, seeds

ALL = list(CASES.values())


def drawn(share: float, seed: int = 1, subjects: tuple[object, ...] = (BBR, RENO)) -> dict[str, list[str]]:
    work = sampled(ALL, subjects, (CUBIC,), share, seed)  # type: ignore[arg-type]
    assert all(controllers[-1] is CUBIC for _, controllers in work)
    return {case.key: [one.given for one in controllers[:-1]] for case, controllers in work}


def test_a_tenth_of_the_cases_is_drawn_for_each_algorithm() -> None:
    found = drawn(0.1)
    for name in (BBR.given, RENO.given):
        assert sum(name in algorithms for algorithms in found.values()) == round(0.1 * len(ALL))
    assert found != drawn(0.1, seed=2)
    assert list(found) == [key for key in CASES if key in found]


def test_the_draw_of_an_algorithm_does_not_depend_on_others_and_grows_with_the_share() -> None:
    both = {key for key, algorithms in drawn(0.1).items() if BBR.given in algorithms}
    assert set(drawn(0.1, subjects=(BBR,))) == both
    assert set(drawn(0.05, subjects=(BBR,))) < both
    assert len(drawn(0.0, subjects=(BBR,))) == 1
    assert drawn(1.0) == {key: [BBR.given, RENO.given] for key in CASES}


def both_sides(simulated: dict[str, float], real: dict[str, float]) -> agreement.Agreement:
    """BBR's goodput and retransmissions alone on a path, as ratios to CUBIC's."""
    values = {}
    for side, ratios in ((SIMULATOR, simulated), (SOCKETS, real)):
        for measure, ratio in ratios.items():
            values[measure, side, BBR.algorithm] = seeds(2 * ratio)
            values[measure, side, CUBIC.algorithm] = seeds(2.0)
    return agreement.agreement(made(values, sides=(SIMULATOR, SOCKETS)))


def test_equal_effects_agree() -> None:
    found = both_sides({"goodput": 0.3, "retransmitted": 20.0}, {"goodput": 0.3, "retransmitted": 20.0})
    assert (len(found.pairs), found.same, found.opposite, found.covered) == (2, 2, 0, 2)
    assert found.cases == (1, 1)
    assert found.apart(0.5) == pytest.approx(1)
    assert list(found.by_kind()) == ["drop-tail"]


def test_opposite_effects_are_not_those_of_which_one_is_undecided() -> None:
    found = both_sides({"goodput": 10.0, "retransmitted": 1.0}, {"goodput": 0.5, "retransmitted": 3.0})
    assert (found.same, found.opposite, found.covered) == (0, 1, 0)
    assert found.cases == (0, 1)
    assert sorted(one.apart for one in found.pairs) == pytest.approx([3, 20])
    assert found.verdicts == {("better", "worse"): 1, ("undecided", "worse"): 1}
    assert "same verdict on 0 of 1 cases" in agreement.said(found)


def test_without_a_second_side_nothing_is_said() -> None:
    evaluation = made({("goodput", SIMULATOR, one.algorithm): seeds(44.0) for one in (BBR, CUBIC)})
    assert agreement.said(agreement.agreement(evaluation)) == ""
    assert "Agreement of simulator" not in rendered(page.report_of(evaluation))


def test_the_report_has_the_agreement_of_both_sides() -> None:
    values = {
        ("goodput", side, one.algorithm): seeds(44.0) for side in (SIMULATOR, SOCKETS) for one in (BBR, CUBIC)
    }
    html = rendered(page.report_of(made(values, sides=(SIMULATOR, SOCKETS))))
    assert "same verdict on 1 of 1 cases" in html
