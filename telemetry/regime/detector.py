"""The regime detector of R-Hybrid: observations in, decisions out, no I/O and no clock.

    detector = Detector(DetectorOptions(baseline_ms=1.0))
    verdict = detector.observe(Observation(t_s=5.0, rtt_tail_ms=9.0, ce_marks=0, retransmits=0))

In each interval:

1. *Score*: 1 if the tail of the RTTs is more than delta above the baseline, or there were more new CE marks,
   or more retransmissions, than noise. What is missing speaks for nothing.
2. *Density*: share of the window of the last N scores that are 1; scores that are not there yet count as 0.
3. *Estimate*: SHARED if at least ceil(majority x N) of the scores are 1, else SINGLE_OWNER.
4. *Regime*: changes on the M-th estimate in a row that differs from it, if the last change is at least the
   cooldown ago; if it is not, on the first such estimate after that.

Source: K. Nguyen, "R-Hybrid: Fast Receiver-Driven Congestion Regime Detection for Adaptive Congestion Control
Switching in AWS", sections 4.2 and 4.3; for the windowed baseline and the start in SHARED sections 6 and 8.

Deviations, with reasons:

* A count of exactly the noise threshold is no congestion (section 4.3 has both "> 0" and "exceeding a noise
  threshold, e.g. > 1"; the second is the stricter one).
* The baseline is the least tail RTT of the first samples, where the paper takes the least RTT: an observation
  has the tail only. With a horizon it is the least one of that time, for routes that become longer.
* Time that goes back does not count: a step of a clock never shortens the cooldown.
"""

from __future__ import annotations

import math
from collections import deque
from fractions import Fraction
from typing import Final, Literal

from msgspec import Struct

from telemetry.regime.errors import RegimeError

Regime = Literal["SINGLE_OWNER", "SHARED"]

SINGLE_OWNER: Final = "SINGLE_OWNER"
"""R_0 of section 4.2: the bottleneck is ours alone."""
SHARED: Final = "SHARED"
"""R_1 of section 4.2: others use the bottleneck, too."""


class Observation(Struct, frozen=True, kw_only=True):
    """What a receiver saw in an interval; None is missing.

    Attributes:
        t_s: When the interval ended, on any clock [s].
        rtt_tail_ms: Tail of the RTTs, such as the 99th percentile [ms].
        ce_marks: Packets with ECN CE, new in the interval.
        retransmits: Retransmissions, new in the interval.
    """

    t_s: float
    rtt_tail_ms: float | None = None
    ce_marks: float | None = None
    retransmits: float | None = None


class Verdict(Struct, frozen=True, kw_only=True):
    """What an observation led to.

    Attributes:
        t_s: Of the observation [s].
        score: 1 if the interval looks congested, else 0.
        density: Share of the last N scores that are 1.
        estimate: What the window says.
        regime: What holds from now on.
        switched: Whether the regime has just changed.
    """

    t_s: float
    score: int
    density: float
    estimate: Regime
    regime: Regime
    switched: bool = False


class DetectorOptions(Struct, frozen=True, kw_only=True):
    """Parameters; the defaults are the paper's (section 4.3).

    Attributes:
        delta_ms: Tail RTT above the baseline that is no congestion yet [ms].
        noise_ce_marks: New CE marks that are none yet.
        noise_retransmits: Retransmissions that are none yet.
        window: Scores in the window, N.
        majority: Share of them that makes the estimate SHARED.
        persistence: Estimates in a row that change the regime, M.
        cooldown_s: Least time between two changes [s].
        baseline_ms: RTT of the empty path [ms]; None: learned.
        baseline_samples: Of so many first samples with an RTT it is the least one.
        baseline_horizon_s: Learned anew all the time, as the least one of so long [s]; None: never again.
        start: Regime before the first change.
    """

    delta_ms: float = 5.0
    noise_ce_marks: float = 1.0
    noise_retransmits: float = 1.0
    window: int = 5
    majority: float = 0.6
    persistence: int = 3
    cooldown_s: float = 15.0
    baseline_ms: float | None = None
    baseline_samples: int = 5
    baseline_horizon_s: float | None = None
    start: Regime = SINGLE_OWNER

    def __post_init__(self) -> None:
        """Refuse what cannot be."""
        for name in ("delta_ms", "noise_ce_marks", "noise_retransmits", "cooldown_s", "baseline_ms"):
            value = getattr(self, name)
            _check(value is None or 0 <= value < math.inf, name, value, "give 0 or more")
        for name in ("window", "persistence", "baseline_samples"):
            _check(getattr(self, name) >= 1, name, getattr(self, name), "give 1 or more")
        _check(0 < self.majority <= 1, "majority", self.majority, "give more than 0 and at most 1")
        horizon_s = self.baseline_horizon_s
        _check(horizon_s is None or horizon_s > 0, "baseline_horizon_s", horizon_s, "give more than 0")
        both = self.baseline_ms is not None and horizon_s is not None
        _check(not both, "baseline_horizon_s", horizon_s, "leave baseline_ms out to have it learned")
        _check(self.start in (SINGLE_OWNER, SHARED), "start", self.start, f"{SINGLE_OWNER} or {SHARED}")

    @property
    def needed(self) -> int:
        """How many scores of the window make it SHARED: ceil(majority x N), in exact numbers."""
        return math.ceil(Fraction(str(self.majority)) * self.window)


def _check(good: bool, name: str, value: object, fix: str) -> None:
    if not good:
        raise RegimeError("regime.bad_option", f"{name} cannot be {value}", name, fix=fix)


class Detector:
    """The regime of one path.

    Attributes:
        options: Its parameters.
        regime: What holds now.
        last_switch_s: When it changed, by the observations' clock [s]; None: never yet.
    """

    def __init__(self, options: DetectorOptions | None = None) -> None:
        """Start without a history."""
        self.options = options or DetectorOptions()
        self.regime: Regime = self.options.start
        self.last_switch_s: float | None = None
        self._scores: deque[int] = deque(maxlen=self.options.window)
        self._baseline = _Baseline(self.options)
        self._differing = 0
        self._seen_s: float | None = None
        self._since_switch_s = math.inf

    @property
    def baseline_ms(self) -> float | None:
        """RTT that stands for the empty path [ms]; None if nothing is known of it yet."""
        return self._baseline.value_ms

    def observe(self, observation: Observation) -> Verdict:
        """Take an interval in, and say what follows from it."""
        t_s = observation.t_s
        passed_s = 0.0 if self._seen_s is None else max(0.0, t_s - self._seen_s)
        self._seen_s = t_s
        self._since_switch_s += passed_s
        score = int(self._congested(observation, passed_s))
        self._scores.append(score)
        congested = sum(self._scores)
        estimate: Regime = SHARED if congested >= self.options.needed else SINGLE_OWNER
        self._differing = self._differing + 1 if estimate != self.regime else 0
        switched = (
            self._differing >= self.options.persistence and self._since_switch_s >= self.options.cooldown_s
        )
        if switched:
            self.regime = estimate
            self.last_switch_s = t_s
            self._since_switch_s = 0.0
            self._differing = 0
        return Verdict(
            t_s=t_s,
            score=score,
            density=congested / self.options.window,
            estimate=estimate,
            regime=self.regime,
            switched=switched,
        )

    def _congested(self, observation: Observation, passed_s: float) -> bool:
        rtt_ms = observation.rtt_tail_ms
        baseline_ms = self._baseline.learn(rtt_ms, passed_s)
        return (
            (rtt_ms is not None and baseline_ms is not None and rtt_ms > baseline_ms + self.options.delta_ms)
            or (observation.ce_marks or 0) > self.options.noise_ce_marks
            or (observation.retransmits or 0) > self.options.noise_retransmits
        )


class _Baseline:
    """The RTT of the empty path: given, learned at the start, or the least one of a horizon."""

    def __init__(self, options: DetectorOptions) -> None:
        self.value_ms = options.baseline_ms
        self._to_learn = options.baseline_samples if options.baseline_ms is None else 0
        self._horizon_s = options.baseline_horizon_s
        self._clock_s = 0.0
        # Times and RTTs that may become the least one: RTTs ascend, since a later lower one ends an earlier.
        self._candidates: deque[tuple[float, float]] = deque()

    def learn(self, rtt_ms: float | None, passed_s: float) -> float | None:
        """Take a sample in; returns the baseline that it is held against."""
        self._clock_s += passed_s
        if rtt_ms is None:
            return self.value_ms
        if self._horizon_s is not None:
            self._slide(rtt_ms, self._clock_s - self._horizon_s)
        elif self._to_learn:
            self._to_learn -= 1
            self.value_ms = rtt_ms if self.value_ms is None else min(self.value_ms, rtt_ms)
        return self.value_ms

    def _slide(self, rtt_ms: float, oldest_s: float) -> None:
        while self._candidates and self._candidates[-1][1] >= rtt_ms:
            self._candidates.pop()
        self._candidates.append((self._clock_s, rtt_ms))
        while self._candidates[0][0] < oldest_s:
            self._candidates.popleft()
        self.value_ms = self._candidates[0][1]
