"""Effects: how a controller's figures relate to those of another, with intervals over seeds.

A ratio compares two runs with the same seed, so the same network and start times. On real sockets an effect
is decided if its whole interval is on one side of 1. A simulated effect also has to exceed the simulator's
error.

Effects are undecided for different reasons, which need different things: `Why`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal

import msgspec

from experiments import verdicts
from experiments.evaluate.measures import Better, Measure
from experiments.statistics import Estimate, median_interval

Verdict = Literal["better", "worse", "undecided"]
Overall = Literal["better", "worse", "mixed", "undecided"]

Why = Literal["", "more seeds", "model", "not measured", "about the same"]
"""Why an effect is undecided; empty if it is decided, or only shown.

More seeds: the interval over the seeds includes 1, or there is none. Model: it excludes 1, but with the
simulator's error it does not, as in `experiments.papers.claims`. About the same: it is close to 1.
"""
WHYS: Final[tuple[Why, ...]] = ("more seeds", "model", "not measured", "about the same")
"""The reasons; the first one that an effect of a case has is that of the case."""

ALIKE: Final = 1.05
"""Ratios whose interval is within this factor of 1 are called about the same."""


class Effect(msgspec.Struct, frozen=True):
    """A ratio between two controllers' figures.

    Attributes:
        against: The other controller's algorithm.
        ratio: Median over the seeds.
        low: Lower end of its interval; None with too few seeds.
        high: Upper end.
        n: Number of seeds.
        error: The simulator's relative error; 0 on real sockets.
        verdict: Verdict; None if the measure is only shown.
    """

    against: str
    ratio: float | None
    low: float | None
    high: float | None
    n: int
    error: float
    verdict: Verdict | None

    @property
    def found(self) -> Estimate:
        """The ratio with its interval over the seeds."""
        value, low, high = (math.nan if one is None else one for one in (self.ratio, self.low, self.high))
        return Estimate(value, low, high, self.n)

    @property
    def judged(self) -> Estimate:
        """The ratio with the interval that decides: it includes the simulator's error."""
        return widened(self.found, self.error)

    @property
    def alike(self) -> bool:
        """Whether the interval over the seeds is close to 1."""
        return self.found.low >= 1 / ALIKE and self.found.high <= ALIKE

    @property
    def why(self) -> Why:
        """Why it is undecided."""
        if self.verdict != "undecided":
            return ""
        if not self.n:
            return "not measured"
        if self.alike:
            return "about the same"
        return "model" if self.found.low > 1 or self.found.high < 1 else "more seeds"

    @property
    def seeds_needed(self) -> int | None:
        """Number of seeds whose interval would exclude 1 or be close to it; None if unknown or not needed."""
        if self.why != "more seeds":
            return None
        bounds: list[tuple[float, float | None]] = [(1.0, None)]
        if 1 / ALIKE <= self.found.value <= ALIKE:
            bounds.append((1 / ALIKE, ALIKE))
        needed = (verdicts.runs_needed(self.found, low, high) for low, high in bounds)
        return min((one for one in needed if one is not None and one > self.n), default=None)

    def records(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {**msgspec.to_builtins(self), "why": self.why, "seeds_needed": self.seeds_needed}


def widened(found: Estimate, error: float) -> Estimate:
    """Return a ratio with an interval that includes a relative error of one of its two figures."""
    return Estimate(found.value, found.low / (1 + error), found.high * (1 + error), found.n)


def compared(
    what: Measure, against: str, values: Sequence[float], others: Sequence[float], error: float
) -> Effect:
    """Return the effect between the values of two controllers, seed by seed.

    Args:
        what: The measure.
        against: The other controller's algorithm.
        values: Values of the controller that is evaluated.
        others: Values of the other one.
        error: The simulator's relative error; 0 on real sockets.
    """
    ratios = [
        what.ratio(own, other)
        for own, other in zip(values, others, strict=False)
        if not math.isnan(own) and not math.isnan(other)
    ]
    found = median_interval([one for one in ratios if math.isfinite(one)])
    verdict = decided(what.better, widened(found, error)) if what.better else None
    value, low, high = (None if math.isnan(x) else x for x in (found.value, found.low, found.high))
    return Effect(against, value, low, high, found.n, error, verdict)


def decided(better: Better, judged: Estimate, margin: float = 0.0) -> Verdict:
    """Return the verdict on a ratio: its whole interval has to be beyond 1, and beyond the margin."""
    if judged.low > 1 + margin:
        return "better" if better == "more" else "worse"
    if judged.high < 1 / (1 + margin):
        return "worse" if better == "more" else "better"
    return "undecided"


def overall(verdicts: Iterable[Verdict | None]) -> Overall:
    """Return the verdict on a case from those on its measures."""
    known = set(verdicts)
    if {"better", "worse"} <= known:
        return "mixed"
    return "better" if "better" in known else "worse" if "worse" in known else "undecided"


def overall_why(effects: Iterable[Effect]) -> Why:
    """Return why a case is undecided; empty if it is decided."""
    effects = list(effects)
    if overall(one.verdict for one in effects) != "undecided":
        return ""
    return next((why for why in WHYS if any(one.why == why for one in effects)), "not measured")
