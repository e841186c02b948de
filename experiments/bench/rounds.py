"""Paired rounds: what all benchmarks measure in.

A round measures each way once, in random order, so that a slow hour or a warm cache meets all ways alike. A
round in which others disturbed one of its measurements (`experiments.disturbance`) is thrown away
whole, counted, and repeated. Rounds go on until the intervals of the headline figures are as narrow as asked.

Whoever looks at an interval after each round, and stops when he likes it, deceives himself: narrow intervals
are wrong more often. So it is looked at after the least number of rounds, and then each time that there are
half as many again, some six times in all; that the median's interval is exact, and wider than one that
assumes a distribution, makes up for these (`tests/unit/experiments/test_bench_rounds.py` counts it).
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from experiments.bench.errors import BenchError
from experiments.bench.progress import RoundsProgress
from experiments.disturbance import CAUSES, TAKEN_APART, TAKEN_MOST, Seen, Watch, disturbances
from experiments.statistics import least_runs, median_interval

T = TypeVar("T")

LEAST_ROUNDS: Final = least_runs()
"""Below so many there is no interval and no verdict."""
UNFIT: Final = "unfit"
"""The cause where a measurement did not come about."""
MORE: Final = 1.5
"""So many times the rounds of the last look are measured until the next."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How long to measure.

    Attributes:
        rounds: Rounds that count, at least.
        max_rounds: Rounds that count, at most; and so many may be thrown away.
        precision: Half the width of an interval by the median, at which it is narrow enough.
        seed: Of the order within rounds.
    """

    rounds: int = LEAST_ROUNDS
    max_rounds: int = 18
    precision: float = 0.03
    seed: int = 1

    def __post_init__(self) -> None:
        """Check.

        Raises:
            BenchError: `bench.bad_options`, if there are fewer rounds at most than at least.
        """
        if not 1 <= self.rounds <= self.max_rounds:
            raise BenchError(
                "bench.bad_options",
                f"{self.rounds} rounds at least, {self.max_rounds} at most",
                "--rounds, --max-rounds",
                fix="give --max-rounds at least as much as --rounds",
            )

    def looks(self) -> list[int]:
        """Return after how many rounds the intervals are looked at."""
        looks = [self.rounds]
        while looks[-1] < self.max_rounds:
            looks.append(min(int(looks[-1] * MORE + 0.5), self.max_rounds))
        return looks


@dataclass(slots=True)
class Tally:
    """How many rounds there were.

    Attributes:
        counted: Rounds that count.
        disturbed: Rounds that were thrown away.
        causes: Cause of `disturbance.CAUSES`, or `UNFIT` -> rounds that were thrown away for it, perhaps
            among others.
        stopped: Why there are no more: "precise", "max_rounds", or "disturbed" if too many were.
        taken_ratio: The largest share of the machine that others had in a measurement that counts.
    """

    counted: int = 0
    disturbed: int = 0
    causes: dict[str, int] = field(default_factory=lambda: dict.fromkeys((*CAUSES, UNFIT), 0))
    stopped: str = ""
    taken_ratio: float = 0.0


@dataclass(frozen=True, slots=True)
class Rounds(Generic[T]):
    """What was measured.

    Attributes:
        samples: Way -> what it came to in each round that counts; of all ways in the same rounds.
        tally: How many rounds there were.
    """

    samples: Mapping[str, list[T]]
    tally: Tally


class Unfit(Exception):  # noqa: N818 -- it is no error, the round is repeated
    """A measurement that did not come about, such as of a link that nothing filled; the message says why."""


Headlines = Callable[[Mapping[str, list[T]]], Iterable[Sequence[float]]]
"""Returns the figures, one value a round, whose intervals are to become narrow."""


def precise(values: Sequence[float], precision: float) -> bool:
    """Return whether half the interval of a median is at most this share of the median."""
    if len(values) < LEAST_ROUNDS:
        return False
    found = median_interval(values)
    return (found.high - found.low) / 2 <= precision * abs(found.value)


def measure_rounds(
    ways: Sequence[str],
    measure: Callable[[str, int], T],
    plan: Plan,
    *,
    title: str,
    headlines: Headlines[T],
    judge: Callable[[Sequence[Seen]], Sequence[str]] = disturbances,
) -> Rounds[T]:
    """Measure ways in rounds until the headlines are precise, or `plan` says that it is enough.

    Args:
        ways: Names of what is compared, at least one.
        measure: Measures one way, or raises `Unfit`; the number of the round is a seed for it, and never
            comes again.
        plan: How long.
        title: What the progress says.
        headlines: Figures that are to become precise; none for as many rounds as possible.
        judge: Says why a round does not count.

    Raises:
        BenchError: `bench.disturbed`, if more than `plan.max_rounds` were disturbed before the least number
            of rounds was there.
    """
    order = random.Random(plan.seed)
    looks, missing = plan.looks(), ""
    samples: dict[str, list[T]] = {way: [] for way in ways}
    tally = Tally()
    causes: Counter[str] = Counter()
    with RoundsProgress(title, plan.max_rounds) as progress:
        number = 0
        while not tally.stopped:
            number += 1
            taken: dict[str, T] = {}
            seen: list[Seen] = []
            why: Sequence[str] = ()
            try:
                for way in order.sample(ways, len(ways)):
                    with Watch() as watch:
                        taken[way] = measure(way, number)
                    seen.append(watch.seen)
                why = judge(seen)
            except Unfit as unfit:
                why, missing = (UNFIT,), str(unfit)
            if why:
                tally.disturbed += 1
                causes.update(why)
                if tally.disturbed > plan.max_rounds:
                    tally.stopped = "disturbed"
            else:
                tally.counted += 1
                tally.taken_ratio = max(tally.taken_ratio, *(one.taken_ratio for one in seen))
                for way, sample in taken.items():
                    samples[way].append(sample)
                tally.stopped = _stop(tally.counted, looks, plan, samples, headlines)
            progress.show(tally.counted, tally.disturbed)
    tally.causes |= causes
    if tally.counted < plan.rounds:
        raise _disturbed(title, tally, plan, missing)
    return Rounds(samples, tally)


def _stop(
    counted: int, looks: Sequence[int], plan: Plan, samples: Mapping[str, list[T]], headlines: Headlines[T]
) -> str:
    if counted in looks:
        figures = list(headlines(samples))
        if figures and all(precise(values, plan.precision) for values in figures):
            return "precise"
    return "max_rounds" if counted >= plan.max_rounds else ""


def _disturbed(title: str, tally: Tally, plan: Plan, missing: str) -> BenchError:
    why = ", ".join(f"{cause} {count}" for cause, count in tally.causes.items() if count)
    return BenchError(
        "bench.disturbed",
        f"{tally.disturbed} rounds were disturbed, {tally.counted} count, {plan.rounds} are needed",
        title,
        f"by {why}: others took more than {TAKEN_MOST:.0%} of the machine, or {TAKEN_APART:.0%} more from one"
        " measurement of a round than from another, clocks disagreed, or there was nothing to measure"
        + (f": {missing}" if missing else ""),
        "let nothing else run, try at another hour, or give --max-rounds more patience",
    )
