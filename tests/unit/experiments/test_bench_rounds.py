"""Rounds of benchmarks: what disturbs them, when they are enough, and what their intervals are worth."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pytest

from experiments.bench.errors import BenchError
from experiments.bench.rounds import MIN_ROUNDS, Plan, Rounds, Unfit, measure_rounds, precise
from experiments.disturbance import (
    CLOCKS_APART_S,
    TAKEN_APART,
    TAKEN_MAX,
    Seen,
    Watch,
    disturbances,
    disturbances_alone,
)
from experiments.netlab import CpuSeconds
from experiments.processes import Process, family, foreign_s, parse
from experiments.statistics import median_interval

Draw = Callable[[np.random.Generator, int], np.ndarray]

SHAPES: dict[str, tuple[Draw, float]] = {
    "normal": (lambda rng, n: rng.normal(1, 0.1, n), 1.0),
    "skewed": (lambda rng, n: np.exp(rng.normal(0, 1, n)), 1.0),
    # Two thirds in a fast hour around 1, the others around 2: the median is the 3/4 quantile of the first.
    "bimodal": (
        lambda rng, n: np.where(rng.random(n) < 2 / 3, rng.normal(1, 0.01, n), rng.normal(2, 0.01, n)),
        1 + 0.01 * 0.6744898,
    ),
}


def seen(stolen: float = 0.0, foreign: float = 0.0, clocks_apart_s: float = 0.0) -> Seen:
    """Ten seconds of two processors, of which others had these shares."""
    return Seen(CpuSeconds(5.0, 10.0, stolen * 20), foreign * 20, clocks_apart_s, 2)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("n", [6, 10, 20])
def test_the_interval_covers_the_median_whatever_the_distribution(shape: str, n: int) -> None:
    draw, true = SHAPES[shape]
    rng = np.random.default_rng(n)
    intervals = [median_interval(draw(rng, n)) for _ in range(2000)]
    covered = np.mean([one.low <= true <= one.high for one in intervals])
    assert covered > 0.95 - 3 * np.sqrt(0.95 * 0.05 / 2000)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("precision", [0.02, 0.05, 0.2])
def test_to_stop_when_the_interval_is_narrow_leaves_it_honest(shape: str, precision: float) -> None:
    draw, true = SHAPES[shape]
    rng = np.random.default_rng(1)
    looks = Plan(MIN_ROUNDS, 40).looks()
    covered = 0
    for _ in range(1000):
        values = draw(rng, looks[-1])
        n = next((n for n in looks if precise(values[:n].tolist(), precision)), looks[-1])
        found = median_interval(values[:n])
        covered += found.low <= true <= found.high
    assert covered / 1000 > 0.93 - 3 * np.sqrt(0.93 * 0.07 / 1000)


@pytest.mark.parametrize(
    ("round_", "causes"),
    [
        ([seen(), seen()], ()),
        ([seen(stolen=0.3), seen(stolen=0.3)], ()),
        ([seen(stolen=0.02), seen(stolen=0.02 + TAKEN_APART + 0.01)], ("steal",)),
        ([seen(foreign=0.02), seen(foreign=0.02 + TAKEN_APART + 0.01)], ("processes",)),
        # Stolen and foreign time are added.
        ([seen(stolen=0.05, foreign=0.05), seen(stolen=0.1)], ()),
        ([seen(stolen=TAKEN_MAX + 0.01)], ("steal",)),
        ([seen(stolen=0.1, foreign=TAKEN_MAX)], ("processes",)),
        ([seen(), seen(clocks_apart_s=2 * CLOCKS_APART_S)], ("clock",)),
    ],
)
def test_a_round_is_judged_by_what_others_took(round_: list[Seen], causes: tuple[str, ...]) -> None:
    assert disturbances(round_) == causes


def test_measurements_that_are_not_compared_are_judged_alone() -> None:
    assert disturbances_alone([seen(stolen=0.01), seen(stolen=0.3)]) == ()
    assert disturbances_alone([seen(), seen(stolen=0.5), seen(stolen=0.6)]) == ("steal",)


def stat(
    pid: int, parent: int, session: int, cpu: int, ended: int = 0, flags: int = 0, priority: int = 20
) -> Process:
    """A line of /proc/PID/stat, with half of the ticks in the kernel."""
    line = (
        f"{pid} (a (b) c) S {parent} 1 {session} 0 -1 {flags} 1 2 3 4 "
        f"{cpu - cpu // 2} {cpu // 2} {ended} 0 {priority} 0 1 0 99"
    )
    return parse(line, ticks_per_s=100)


def by_pid(*processes: Process) -> dict[int, Process]:
    return {one.pid: one for one in processes}


def test_a_process_is_read_whatever_its_name() -> None:
    assert stat(7, 3, 5, cpu=150, ended=50) == Process(
        7, 3, 5, kernel=False, cpu_s=1.5, ended_s=0.5, priority=20
    )
    assert stat(2, 0, 0, cpu=1, flags=0x208040).kernel


def test_own_processes_are_descendants_and_those_left_in_their_sessions() -> None:
    rows = [(1, 0, 1), (5, 1, 5), (10, 5, 5), (11, 10, 11), (12, 1, 11)]
    assert family(by_pid(*(stat(*row, 0) for row in rows)), 10) == {10, 11, 12}


def test_foreign_time_is_that_of_other_programs() -> None:
    kernel = stat(2, 0, 0, 50, flags=0x200000)
    before = by_pid(stat(1, 0, 1, 10), kernel, stat(5, 1, 5, 100), stat(10, 5, 5, 7))
    after = by_pid(
        stat(1, 0, 1, 20, ended=500),  # processes that init inherits are of unknown origin
        stat(2, 0, 0, 900, flags=0x200000),  # a thread of the kernel works for own packets
        stat(5, 1, 5, 130),
        stat(6, 5, 5, 40),
        stat(10, 5, 5, 700),
    )
    assert foreign_s(before, after, {10}) == pytest.approx(0.1 + 0.3 + 0.4)


def test_processes_that_yield_can_be_left_out() -> None:
    before = by_pid(stat(5, 1, 5, 0), stat(6, 1, 6, 0, priority=15), stat(7, 5, 5, 10))
    real_time = stat(8, 1, 8, 40, priority=-2)
    after = by_pid(stat(5, 1, 5, 100, ended=60), stat(6, 1, 6, 200, priority=15), real_time)
    assert foreign_s(before, after, set(), 20) == pytest.approx(2.4)
    assert foreign_s(before, after, set(), 15) == pytest.approx(0.4)
    assert foreign_s(before, after, set()) == pytest.approx(1.0 + 0.5 + 2.4)


@pytest.mark.skipif(os.getuid() != 0, reason="needs the right to raise a priority")
def test_started_processes_go_first_until_the_end() -> None:
    # In its own process: children of a thread that was real-time once never go first (SCHED_RESET_ON_FORK).
    program = """
import os, subprocess
from experiments.processes import going_first, parse
before = os.getpriority(os.PRIO_PROCESS, 0)
with going_first():
    text = subprocess.run(["cat", "/proc/self/stat"], capture_output=True, text=True, check=True).stdout
print(parse(text, ticks_per_s=100).priority, os.getpriority(os.PRIO_PROCESS, 0) == before)
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["5", "True"]


def test_time_of_processes_that_yield_competes_with_nothing() -> None:
    found = Seen(CpuSeconds(5.0, 10.0, 0.0), 6.0, 0.0, 2, yielding_s=4.0)
    assert found.foreign_ratio == pytest.approx(0.3)
    assert found.competing_ratio == pytest.approx(0.1)


def test_a_foreign_process_that_ended_counts_once_with_its_parent() -> None:
    before = by_pid(stat(5, 1, 5, 0), stat(6, 5, 5, 40))
    after = by_pid(stat(5, 1, 5, 0, ended=100))
    assert foreign_s(before, after, set()) == pytest.approx(0.6)


def test_what_a_foreign_family_had_before_does_not_count_when_it_ends() -> None:
    """A shell waits for make, make for a compiler, which has had 40 s when the measurement begins."""
    shell, make, compiler = stat(5, 1, 5, 0), stat(6, 5, 5, 10, ended=300), stat(7, 6, 5, 4000)
    after = by_pid(stat(5, 1, 5, 0, ended=4360))
    assert foreign_s(by_pid(shell, make, compiler), after, set()) == pytest.approx(0.5)


def test_a_busy_child_is_no_foreign_process() -> None:
    with Watch() as watch:
        busy = "import time\nwhile time.process_time() < 0.3: pass"
        subprocess.run([sys.executable, "-c", busy], check=True)
    assert watch.seen.cpu.busy_s > 0.25
    assert watch.seen.foreign_s < watch.seen.cpu.busy_s
    assert watch.seen.elapsed_s >= 0.3
    assert watch.seen.own_busy_s > 0


def measured(
    values: Iterator[float],
    plan: Plan,
    *,
    judge: Callable[[Sequence[Seen]], Sequence[str]] = lambda _: (),
    ways: Sequence[str] = ("way",),
) -> Rounds[float]:
    headlines = dict.values
    return measure_rounds(ways, lambda *_: next(values), plan, title="t", headlines=headlines, judge=judge)


def test_equal_values_are_precise_after_the_min_number_of_rounds() -> None:
    tally = measured(itertools.repeat(1.0), Plan(6, 40)).tally
    assert (tally.counted, tally.disturbed, tally.stopped) == (6, 0, "precise")


def test_rounds_are_looked_at_now_and_then_only() -> None:
    assert Plan(5, 40).looks() == [5, 8, 12, 18, 27, 40]
    assert Plan(5, 5).looks() == [5]
    values = itertools.chain([1.0, 2.0], itertools.repeat(1.0))
    # With two far values of n, the interval leaves them out from twelve rounds on; nine are not looked at.
    assert measured(values, Plan(5, 40)).tally.counted == 12


def test_it_ends_with_the_max_rounds() -> None:
    tally = measured(itertools.cycle([1.0, 2.0]), Plan(5, 9)).tally
    assert (tally.counted, tally.stopped) == (9, "max_rounds")


def test_below_six_rounds_nothing_is_precise() -> None:
    assert measured(itertools.repeat(1.0), Plan(2, 3)).tally.stopped == "max_rounds"


def test_each_round_has_all_ways_in_an_order_that_the_seed_gives() -> None:
    def orders(seed: int) -> list[tuple[str, int]]:
        taken: list[tuple[str, int]] = []
        plan, never = Plan(5, 5, seed=seed), lambda _: ()
        measure_rounds("abc", lambda *one: taken.append(one), plan, title="t", headlines=never, judge=never)
        return taken

    first = orders(1)
    rounds = [first[start : start + 3] for start in range(0, 15, 3)]
    assert [{way for way, _ in one} for one in rounds] == [{"a", "b", "c"}] * 5
    assert [{number for _, number in one} for one in rounds] == [{1}, {2}, {3}, {4}, {5}]
    assert len({tuple(way for way, _ in one) for one in rounds}) > 1
    assert orders(1) == first
    assert orders(2) != first


def test_a_disturbed_round_is_thrown_away_whole_and_repeated() -> None:
    verdicts = itertools.chain([(), ("steal", "clock"), ("steal",)], itertools.repeat(()))
    values = map(float, itertools.count())
    found = measured(values, Plan(5, 5), judge=lambda _: next(verdicts), ways="ab")
    assert sorted([*found.samples["a"], *found.samples["b"]]) == [0.0, 1.0, *map(float, range(6, 14))]
    assert (found.tally.counted, found.tally.disturbed) == (5, 2)
    assert found.tally.causes == {"clock": 1, "steal": 2, "processes": 0, "unfit": 0}


def test_a_measurement_that_did_not_come_about_is_repeated() -> None:
    count = itertools.count(1)

    def measure(_: str, number: int) -> float:
        if next(count) == 2:
            raise Unfit("the link stayed empty")
        return float(number)

    found = measure_rounds(("a",), measure, Plan(5, 5), title="t", headlines=lambda _: [], judge=lambda _: ())
    assert found.samples["a"] == [1.0, 3.0, 4.0, 5.0, 6.0]
    assert found.tally.causes["unfit"] == 1


def test_too_many_disturbed_rounds_are_an_error_that_says_why() -> None:
    with pytest.raises(BenchError) as caught:
        measured(itertools.repeat(1.0), Plan(5, 6), judge=lambda _: ("steal",))
    assert caught.value.slug == "bench.disturbed"
    assert "steal 7" in caught.value.why


def test_enough_rounds_count_even_if_too_many_were_disturbed() -> None:
    verdicts = itertools.chain([()] * 5, itertools.repeat(("steal",)))
    tally = measured(itertools.cycle([1.0, 2.0]), Plan(5, 9), judge=lambda _: next(verdicts)).tally
    assert (tally.counted, tally.disturbed, tally.stopped) == (5, 10, "disturbed")


def test_fewer_rounds_at_most_than_at_least_are_refused() -> None:
    with pytest.raises(BenchError) as caught:
        Plan(9, 5)
    assert caught.value.slug == "bench.bad_options"
