"""Paired rounds, in which all benchmarks measure.

A round measures each of the compared alternatives once, in random order, so that slow hours and warm caches
affect all alternatives alike. A round with a disturbed measurement (`experiments.disturbance`) is discarded,
counted and repeated. Measuring continues until the intervals of the headline figures are narrow enough.

Stopping as soon as an interval is narrow makes narrow intervals wrong more often. So intervals are checked
only after the minimum number of rounds, and each time that their number has grown by half; the exact interval
of the median is wide enough to make up for these checks (`tests/unit/experiments/test_bench_rounds.py`
counts).
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from experiments.bench.errors import BenchError
from experiments.bench.progress import RoundsProgress
from experiments.disturbance import CAUSES, TAKEN_APART, TAKEN_MAX, Seen, Watch, disturbances
from experiments.statistics import median_interval, min_runs

T = TypeVar("T")

MIN_ROUNDS: Final = min_runs()
"""Minimum rounds for an interval and a verdict."""
UNFIT: Final = "unfit"
"""Cause for rounds in which a measurement was not possible."""
MORE: Final = 1.5
"""Factor between the numbers of rounds at two checks."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How long to measure.

    Attributes:
        rounds: Minimum rounds that count.
        max_rounds: Maximum rounds that count, and maximum disturbed rounds.
        precision: Maximum ratio of half an interval's width to the median.
        seed: Seed of the order within rounds.
    """

    rounds: int = MIN_ROUNDS
    max_rounds: int = 18
    precision: float = 0.03
    seed: int = 1

    def __post_init__(self) -> None:
        """Check the limits.

        Raises:
            BenchError: `bench.bad_options`.
        """
        if not 1 <= self.rounds <= self.max_rounds:
            raise BenchError(
                "bench.bad_options",
                f"the minimum of {self.rounds} rounds exceeds the maximum of {self.max_rounds}",
                "--rounds, --max-rounds",
                fix="set --max-rounds to at least --rounds",
            )

    def looks(self) -> list[int]:
        """Return the numbers of rounds after which intervals are checked."""
        looks = [self.rounds]
        while looks[-1] < self.max_rounds:
            looks.append(min(int(looks[-1] * MORE + 0.5), self.max_rounds))
        return looks


@dataclass(slots=True)
class Tally:
    """How many rounds count and how many were discarded.

    Attributes:
        counted: Rounds that count.
        disturbed: Discarded rounds.
        causes: Cause of `disturbance.CAUSES`, or `UNFIT` -> rounds discarded for it.
        stopped: Why measuring stopped: "precise", "max_rounds", or "disturbed" if too many were.
        taken_ratio: Maximum share of the machine that other processes used in a measurement that counts.
    """

    counted: int = 0
    disturbed: int = 0
    causes: dict[str, int] = field(default_factory=lambda: dict.fromkeys((*CAUSES, UNFIT), 0))
    stopped: str = ""
    taken_ratio: float = 0.0


@dataclass(frozen=True, slots=True)
class Rounds(Generic[T]):
    """Measurements.

    Attributes:
        samples: Way -> its measurement in each round that counts; of all ways in the same rounds.
        tally: Numbers of rounds.
    """

    samples: Mapping[str, list[T]]
    tally: Tally


class Unfit(Exception):  # noqa: N818 -- not an error: the round is repeated
    """A measurement was not possible, for example because the link was not filled; the message says why."""


Headlines = Callable[[Mapping[str, list[T]]], Iterable[Sequence[float]]]
"""Returns the figures, one value per round, whose intervals must become narrow."""


def precise(values: Sequence[float], precision: float) -> bool:
    """Return whether half the width of a median's interval is at most this share of the median."""
    if len(values) < MIN_ROUNDS:
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
    """Measure all alternatives in rounds, until the headlines are precise or a limit of `plan` is reached.

    Args:
        ways: Names of what is compared, at least one.
        measure: Measures one way, or raises `Unfit`; the unique number of the round serves as a seed.
        plan: How long to measure.
        title: Title of the progress bar.
        headlines: Figures that must become precise; none for the maximum number of rounds.
        judge: Returns why a round does not count.

    Raises:
        BenchError: `bench.disturbed`, if too many rounds were disturbed.
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
        f"{tally.disturbed} rounds were disturbed; {tally.counted} were not, but {plan.rounds} are needed",
        title,
        f"causes: {why}. The share of other processes exceeded {TAKEN_MAX:.0%} of the machine, or differed by"
        f" {TAKEN_APART:.0%} between the measurements of a round; or clocks disagreed; or there"
        " was nothing to measure" + (f" ({missing})" if missing else ""),
        "stop other processes, try again later, or raise --max-rounds",
    )
