"""Comparison with an earlier evaluation: what has become better or worse.

Both evaluations ran the same scenarios with the same seeds, so figures are compared seed by seed. The
simulator's error does not count here: both figures have it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from experiments.evaluate.cases import Case
from experiments.evaluate.effects import Verdict, decided
from experiments.evaluate.errors import EvaluateError
from experiments.evaluate.evaluation import SIDES, Evaluation
from experiments.evaluate.measures import Measure
from experiments.evaluate.words import value_text
from experiments.report.model import written
from experiments.statistics import Estimate, median_interval, min_runs

MARGIN: Final = 0.01
"""Smaller relative changes do not count, even if the whole interval is on one side."""
DIRECTIONS: Final[Mapping[str, Verdict]] = {"Worse": "worse", "Better": "better"}
"""Heading -> verdict."""
_NAMED: Final = 5
"""Figures without a comparison that are named; with `--only` there are many."""


@dataclass(frozen=True)
class Change:
    """How one figure has changed.

    Attributes:
        case: The case.
        what: The measure.
        side: The side.
        before: Median of the earlier evaluation.
        after: Median of this one.
        ratio: Ratio of this one to the earlier one, with its interval over the seeds.
        verdict: Verdict.
    """

    case: Case
    what: Measure
    side: str
    before: float
    after: float
    ratio: Estimate
    verdict: Verdict

    def __str__(self) -> str:
        ends = f"[{written(self.ratio.low)}, {written(self.ratio.high)}]"
        return (
            f"{self.case.key}: {self.what.label} {value_text(self.what, self.before)} before, "
            f"{value_text(self.what, self.after)} now: {written(self.ratio.value)} times {ends} "
            f"({self.case.criterion.section} {self.case.criterion.title}, {SIDES[self.side]})"
        )


@dataclass(frozen=True)
class Changes:
    """All changes since an earlier evaluation.

    Attributes:
        all: A change for each figure that both have.
        alone: Figures that only one of them has, or with too few seeds: `case, measure`.
    """

    all: tuple[Change, ...]
    alone: tuple[str, ...]

    def with_verdict(self, verdict: Verdict) -> list[Change]:
        """Return the changes with a verdict, the largest first."""
        own = [one for one in self.all if one.verdict == verdict]
        return sorted(own, key=lambda one: abs(math.log(one.ratio.value)), reverse=True)

    @property
    def counted(self) -> str:
        """How many figures changed, and which ones cannot be compared, as a sentence."""
        worse, better = (len(self.with_verdict(verdict)) for verdict in ("worse", "better"))
        text = f"{worse} of {len(self.all)} figures are worse than in the baseline, {better} better"
        if self.alone:
            rest = len(self.alone) - _NAMED
            more = f" and {rest} more" if rest > 0 else ""
            text += f"; not comparable: {'; '.join(self.alone[:_NAMED])}{more}"
        return f"{text}."


def changes(before: Evaluation, after: Evaluation, where: str, margin: float = MARGIN) -> Changes:
    """Return how the figures of the evaluated controller have changed.

    Args:
        before: The earlier evaluation.
        after: This one.
        where: File of the earlier one, for errors.
        margin: Smaller relative changes do not count.

    Raises:
        EvaluateError: `evaluate.bad_baseline`, if they have no figure in common.
    """
    found, alone = [], []
    cases = {one.key: one for one in (*before.cases, *after.cases)}
    for case in cases.values():
        for what in case.measures:
            if not what.better:
                continue
            for side in SIDES:
                own = after.values(case, what, side, after.subject.algorithm)
                earlier = before.values(case, what, side, before.subject.algorithm)
                if not own and not earlier:
                    continue
                pairs = zip(own, earlier, strict=False)
                ratios = [what.ratio(new, old) for new, old in pairs if new == new and old == old]
                ratio = median_interval([one for one in ratios if math.isfinite(one)])
                if math.isnan(ratio.low):
                    alone.append(f"{case.key}, {what.label} ({SIDES[side]})")
                    continue
                was, now = (
                    one.estimate(case, what, side, one.subject.algorithm).value for one in (before, after)
                )
                verdict = decided(what.better, ratio, margin)
                found.append(Change(case, what, side, was, now, ratio, verdict))
    if not found:
        raise EvaluateError(
            "evaluate.bad_baseline",
            "the baseline has no figure in common with this evaluation",
            where,
            f"both need the same case and side, measured with the same {min_runs()} seeds or more",
            "create the baseline again with the same options and --json",
        )
    return Changes(tuple(found), tuple(alone))
