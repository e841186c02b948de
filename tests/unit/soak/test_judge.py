from __future__ import annotations

from itertools import count
from random import Random

import pytest

from experiments.soak import judge as judging
from experiments.soak.judge import Point, Trend

EACH_S = 60.0
LIMIT = 4e6
MB = 1e6
WARM_UP = 2


def judge(points: list[Point], limit_per_hour: float, warm_up: int = WARM_UP) -> Trend:
    return judging.judge(points, limit_per_hour, warm_up=warm_up)


def series(
    lives: int,
    samples: int,
    *,
    per_hour: float = 0.0,
    noise: float = 1 * MB,
    warm: float = 0.0,
    seed: int = 0,
) -> list[Point]:
    random, at_s = Random(seed), count(0.0, EACH_S)
    points = []
    for life in range(lives):
        level = 100 * MB + random.gauss(0, 10 * MB)
        for number in range(samples):
            leaked = per_hour * number * EACH_S / 3600
            warming = warm if number >= 2 else warm * number / 2
            value = level + warming + leaked + random.gauss(0, noise)
            points.append(Point(next(at_s), f"agent {life}", value))
    return points


def test_the_interval_has_the_true_slope_as_often_as_it_says() -> None:
    slopes = (0.0, 40 * MB)
    trends = [
        (true, judge(series(12, 10, per_hour=true, seed=seed), LIMIT))
        for true in slopes
        for seed in range(200)
    ]
    missed = sum(not trend.low < true < trend.high for true, trend in trends)
    assert missed <= 12, "of 400, four are to be expected"


def test_noise_at_levels_of_its_own_is_no_leak() -> None:
    verdicts = {judge(series(12, 10, seed=seed), LIMIT).verdict for seed in range(100)}
    assert "fails" not in verdicts


def test_what_is_quiet_for_long_holds() -> None:
    trend = judge(series(12, 10, noise=0.1 * MB), LIMIT)
    assert trend.verdict == "holds"
    assert trend.level == pytest.approx(100 * MB, rel=0.1)


def test_a_leak_is_found_though_processes_begin_again() -> None:
    verdicts = {judge(series(12, 10, per_hour=40 * MB, seed=seed), LIMIT).verdict for seed in range(100)}
    assert verdicts == {"fails"}


def test_a_leak_is_not_hidden_by_single_samples_that_are_far_off() -> None:
    points = series(1, 100, per_hour=20 * MB, noise=0.5 * MB)
    spoiled = [Point(one.at_s, one.life, 0.0) if n % 10 == 5 else one for n, one in enumerate(points)]
    assert judge(spoiled, LIMIT).verdict == "fails"


def test_what_fills_at_the_beginning_of_a_life_is_no_leak() -> None:
    points = series(12, 10, warm=20 * MB, noise=0.1 * MB)
    assert judge(points, LIMIT).verdict == "holds"
    assert judge(points, LIMIT, warm_up=0).verdict != "holds", "it has to be left out"


def test_a_count_that_never_varies_holds() -> None:
    points = [Point(n * EACH_S, "agent 1", 50.0) for n in range(10)]
    trend = judge(points, 2.0)
    assert (trend.verdict, trend.per_hour, trend.low, trend.high, trend.n) == ("holds", 0.0, 0.0, 0.0, 8)


def test_a_descriptor_lost_now_and_then_is_found() -> None:
    points = [Point(n * EACH_S, "agent 1", 50.0 + n // 4) for n in range(60)]
    assert judge(points, 2.0).verdict == "fails"


def test_lives_are_reported_apart_when_they_take_turns() -> None:
    points = [Point(n * EACH_S, f"room {n % 2}", 50.0 + 1000 * (n % 2)) for n in range(40)]
    assert judge(points, 2.0).verdict == "holds"


def test_what_fills_for_minutes_is_no_leak_either() -> None:
    points = [
        Point(n * EACH_S, f"agent {life}", 100 * MB + 2 * MB * min(n, judging.WARM_UP))
        for life in range(4)
        for n in range(40)
    ]
    assert judging.judge(points, LIMIT).verdict == "holds"


@pytest.mark.parametrize("samples", [0, 1, 3, 5])
def test_a_few_samples_decide_nothing(samples: int) -> None:
    points = [Point(n * EACH_S, "agent 1", 50.0 + 10 * n) for n in range(samples)]
    assert judge(points, 2.0).verdict == "undecided"
