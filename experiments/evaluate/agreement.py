"""Agreement of the simulator with real sockets, on the cases that ran on both.

The cases are chosen before anyone sees their results: all of them, or those that `--sample` draws.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import Final

import numpy as np

from experiments.evaluate.cases import Case
from experiments.evaluate.effects import Effect, overall
from experiments.evaluate.evaluation import Evaluation
from experiments.evaluate.measures import Measure
from experiments.evaluate.running import SIMULATOR, SOCKETS
from experiments.statistics import share_interval

QUANTILE: Final = 0.9
"""Quantile of the distance that is reported next to the median; also that of the simulator's error."""


@dataclass(frozen=True)
class Pair:
    """An effect on both sides.

    Attributes:
        case: The case.
        what: The measure.
        algorithm: The controller's algorithm.
        simulated: The effect in the simulator.
        real: The effect on real sockets.
    """

    case: Case
    what: Measure
    algorithm: str
    simulated: Effect
    real: Effect

    @property
    def same(self) -> bool:
        """Whether both verdicts are the same."""
        return self.simulated.verdict == self.real.verdict

    @property
    def opposite(self) -> bool:
        """Whether one side says better and the other one worse."""
        return {self.simulated.verdict, self.real.verdict} == {"better", "worse"}

    @property
    def apart(self) -> float:
        """Factor between both ratios, at least 1; NaN if one is 0."""
        if not self.simulated.ratio or not self.real.ratio:
            return math.nan
        return math.exp(abs(math.log(self.simulated.ratio / self.real.ratio)))

    @property
    def covered(self) -> bool:
        """Whether the simulated interval, with the simulator's error, has the ratio on real sockets."""
        judged, real = self.simulated.judged, self.real.found.value
        return judged.low <= real <= judged.high


@dataclass(frozen=True)
class Agreement:
    """How well some pairs agree.

    Attributes:
        pairs: The pairs.
    """

    pairs: tuple[Pair, ...]

    @property
    def verdicts(self) -> Counter[tuple[str, str]]:
        """Number of pairs by the verdicts in the simulator and on real sockets."""
        return Counter((str(one.simulated.verdict), str(one.real.verdict)) for one in self.pairs)

    @property
    def same(self) -> int:
        """Number of pairs with the same verdict."""
        return sum(one.same for one in self.pairs)

    @property
    def opposite(self) -> int:
        """Number of pairs with opposite verdicts."""
        return sum(one.opposite for one in self.pairs)

    @property
    def covered(self) -> int:
        """Number of pairs whose ratio on real sockets is within the simulated interval with its error."""
        return sum(one.covered for one in self.pairs)

    @property
    def cases(self) -> tuple[int, int]:
        """Number of cases of a controller with the same verdict on both sides, and of all.

        Measures of a case share their runs; cases are independent of each other.
        """
        verdicts: dict[tuple[str, str], list[Pair]] = {}
        for one in self.pairs:
            verdicts.setdefault((one.case.key, one.algorithm), []).append(one)
        same = (
            overall(one.simulated.verdict for one in own) == overall(one.real.verdict for one in own)
            for own in verdicts.values()
        )
        return sum(same), len(verdicts)

    def apart(self, quantile: float) -> float:
        """Return a quantile of the factors between both ratios; NaN without any."""
        known = [one.apart for one in self.pairs if not math.isnan(one.apart)]
        return float(np.quantile(known, quantile)) if known else math.nan

    def by_kind(self) -> dict[str, Agreement]:
        """Return the agreement on each kind of path."""
        kinds = sorted({one.case.kind for one in self.pairs})
        return {kind: Agreement(tuple(one for one in self.pairs if one.case.kind == kind)) for kind in kinds}


def agreement(evaluation: Evaluation, against: str | None = None) -> Agreement:
    """Return the effects that have an interval on both sides.

    Args:
        evaluation: The evaluation; with one side only, there are no pairs.
        against: Algorithm of the reference; None for the standard's.
    """
    reference = against or evaluation.against[0].algorithm
    found = []
    for subject in evaluation.subjects:
        for case in evaluation.cases:
            for what in case.measures:
                simulated, real = (
                    evaluation.effect(case, what, side, subject.algorithm, reference)
                    for side in (SIMULATOR, SOCKETS)
                )
                if what.better and simulated.low is not None and real.low is not None:
                    found.append(Pair(case, what, subject.algorithm, simulated, real))
    return Agreement(tuple(found))


def said(found: Agreement) -> str:
    """Return the agreement as sentences; empty without pairs."""
    n = len(found.pairs)
    if not n:
        return ""
    same, cases = found.cases
    share = share_interval(same, cases)
    return (
        f"Simulator and real sockets give the same verdict on {same} of {cases} cases "
        f"({100 * share.value:.0f} %, 95 % interval {100 * share.low:.0f} to {100 * share.high:.0f} %). "
        f"Of {n} effects, {found.same} have the same verdict and {found.opposite} opposite verdicts; for "
        f"{found.covered}, the ratio on real sockets is within the simulated interval with the simulator's "
        f"error. The two ratios are a factor of "
        f"{found.apart(0.5):.2f} apart in the median, {found.apart(QUANTILE):.2f} at the 90th percentile."
    )
