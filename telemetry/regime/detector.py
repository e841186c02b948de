"""The regime detector of R-Hybrid: observations in, decisions out, no I/O and no clock.

    detector = Detector(DetectorOptions(baseline_ms=1.0))
    verdict = detector.observe(
        Observation(t_s=5.0, rtt_min_ms=1.0, rtt_tail_ms=9.0, ce_marks=0, retransmits=0)
    )

In each interval:

1. *Score*: 1 if the tail of the RTTs exceeds the baseline by more than delta, or there were more new CE
   marks, or more retransmissions, than the noise threshold. Missing values do not count. With `own_queue`,
   which is not in the paper, the score is 0 while the sender fills the path by itself
   (`telemetry.regime.own`).
2. *Density*: share of the window of the last N scores that are 1; scores before the start count as 0. If
   marks and retransmissions are also counted by periods of several intervals, the same share of the last N
   periods counts if it is higher.
3. *Estimate*: SHARED if the density is at least ceil(majority x N) / N, or if none of these intervals has an
   RTT and a baseline for it, else SINGLE_OWNER.
4. *Regime*: SHARED until the baseline is known; then the start regime, unless the estimate is SHARED. The
  regime changes at the M-th estimate in a row that differs from it, if the cooldown since the last change is
  over; otherwise at the first such estimate after the cooldown.

Source: K. Nguyen, "R-Hybrid: Fast Receiver-Driven Congestion Regime Detection for Adaptive Congestion Control
Switching in AWS", sections 4.2 and 4.3; for the windowed baseline and the start in SHARED see sections 6 and
8.

Deviations, with reasons:

* A count equal to the noise threshold does not indicate congestion (section 4.3 has both "> 0" and "exceeding
  a noise threshold, e.g. > 1"; the second is stricter).
* The paper learns the baseline, the minimum RTT, when the detector starts (section 8). Here a lower RTT also
  lowers the baseline later, because a receiver that starts under load would otherwise take the queue for the
  empty path forever. With a horizon, the baseline is the minimum of that time, for routes that become longer.
* The paper has an RTT in every interval. A path without RTTs is SHARED here, because the absence of marks and
  losses does not show a single owner: most queues neither mark nor drop (section 6: fresh metrics, and CUBIC
  for safety).
* Backward steps of the clock are ignored, so they never shorten the cooldown.
"""

from __future__ import annotations

import math
from collections import deque
from fractions import Fraction
from typing import Final, Literal

from msgspec import Struct

from telemetry.regime.errors import RegimeError
from telemetry.regime.own import OwnLoad
from telemetry.regime.windowed_max import WindowedMax

Regime = Literal["SINGLE_OWNER", "SHARED"]

SINGLE_OWNER: Final = "SINGLE_OWNER"
"""R_0 of section 4.2: the sender has the bottleneck alone."""
SHARED: Final = "SHARED"
"""R_1 of section 4.2: other senders also use the bottleneck."""


class Observation(Struct, frozen=True, kw_only=True):
    """A receiver's measurements of an interval; None if missing.

    Attributes:
        t_s: End of the interval, on any clock [s].
        rtt_min_ms: Minimum RTT [ms]; if missing, the tail is used.
        rtt_p50_ms: Median RTT [ms].
        rtt_tail_ms: Tail of the RTTs, such as the 99th percentile [ms].
        ce_marks: Packets with ECN CE, new in the interval.
        retransmits: Retransmissions, new in the interval.
        arrival_pkts_per_s: Data packets received from the path's sender [packets/s].
        goodput_bytes_per_s: Its data received in order [bytes/s].
    """

    t_s: float
    rtt_min_ms: float | None = None
    rtt_p50_ms: float | None = None
    rtt_tail_ms: float | None = None
    ce_marks: float | None = None
    retransmits: float | None = None
    arrival_pkts_per_s: float | None = None
    goodput_bytes_per_s: float | None = None


class Verdict(Struct, frozen=True, kw_only=True):
    """The detector's result for an observation.

    Attributes:
        t_s: Time of the observation [s].
        score: 1 if the interval looks congested, else 0.
        density: Share of the last N scores that are 1, or of the last N periods if that is higher.
        estimate: Estimate of the window.
        regime: Regime from now on.
        switched: Whether the regime has just changed.
        is_own: Whether the sender filled the path by itself; known only with `own_queue`.
    """

    t_s: float
    score: int
    density: float
    estimate: Regime
    regime: Regime
    switched: bool = False
    is_own: bool = False


class DetectorOptions(Struct, frozen=True, kw_only=True):
    """Parameters; the defaults are the paper's (section 4.3), for its intervals of 5 s.

    Attributes:
        delta_ms: Excess of the tail RTT over the baseline that is not yet congestion [ms].
        noise_ce_marks: New CE marks in an interval that count as noise.
        noise_retransmits: Retransmissions in an interval that count as noise.
        event_intervals: Intervals in a period, over which marks and retransmissions are also counted; 1: only
            by intervals.
        window: Scores in the window, N.
        majority: Share of the scores that makes the estimate SHARED.
        persistence: Consecutive estimates that change the regime, M.
        cooldown_s: Minimum time between two changes [s].
        baseline_ms: RTT of the empty path [ms]; None to learn it.
        baseline_of: RTT whose minimum is the baseline: `min`, as in the paper, or `tail`, for receivers that
            are themselves late with some probes of every interval. Their tail is never near the minimum RTT,
            and would always look like a queue.
        baseline_samples: Intervals with an RTT after which a learned baseline is known.
        baseline_horizon_s: Window for the learned baseline [s]; None for unlimited.
        own_queue: Whether to ignore delay, marks and losses while the sender fills the path by itself; not in
            the paper.
        start: Regime once the baseline is known.
    """

    delta_ms: float = 5.0
    noise_ce_marks: float = 1.0
    noise_retransmits: float = 1.0
    event_intervals: int = 1
    window: int = 5
    majority: float = 0.6
    persistence: int = 3
    cooldown_s: float = 15.0
    baseline_ms: float | None = None
    baseline_of: Literal["min", "tail"] = "min"
    baseline_samples: int = 5
    baseline_horizon_s: float | None = None
    own_queue: bool = False
    start: Regime = SINGLE_OWNER

    def __post_init__(self) -> None:
        for name in ("delta_ms", "noise_ce_marks", "noise_retransmits", "cooldown_s", "baseline_ms"):
            value = getattr(self, name)
            _check(value is None or 0 <= value < math.inf, name, value, "give 0 or more")
        for name in ("event_intervals", "window", "persistence", "baseline_samples"):
            _check(getattr(self, name) >= 1, name, getattr(self, name), "give 1 or more")
        _check(0 < self.majority <= 1, "majority", self.majority, "give more than 0 and at most 1")
        horizon_s = self.baseline_horizon_s
        _check(horizon_s is None or horizon_s > 0, "baseline_horizon_s", horizon_s, "give more than 0")
        both = self.baseline_ms is not None and horizon_s is not None
        _check(not both, "baseline_horizon_s", horizon_s, "omit baseline_ms, so that it is learned")
        _check(self.baseline_of in ("min", "tail"), "baseline_of", self.baseline_of, "give min or tail")
        _check(self.start in (SINGLE_OWNER, SHARED), "start", self.start, f"give {SINGLE_OWNER} or {SHARED}")

    @property
    def needed(self) -> int:
        """Number of scores that make the estimate SHARED: ceil(majority x N), computed exactly."""
        return math.ceil(Fraction(str(self.majority)) * self.window)


def _check(good: bool, name: str, value: object, fix: str) -> None:
    if not good:
        raise RegimeError("regime.bad_option", f"invalid {name}: {value}", name, fix=fix)


class Detector:
    """The regime of one path.

    Attributes:
        options: Its parameters.
        regime: The current regime.
    """

    def __init__(self, options: DetectorOptions | None = None) -> None:
        self.options = options or DetectorOptions()
        self.regime: Regime = SHARED
        self._scores: deque[int] = deque(maxlen=self.options.window)
        self._delays: deque[bool] = deque(maxlen=self.options.window)
        self._ce_marks = _Periods(self.options, self.options.noise_ce_marks)
        self._retransmits = _Periods(self.options, self.options.noise_retransmits)
        self._baseline = _Baseline(self.options)
        self._own = OwnLoad(self.options.delta_ms) if self.options.own_queue else None
        self._started = False
        self._differing = 0
        self._seen_s: float | None = None
        self._since_switch_s = math.inf

    @property
    def baseline_ms(self) -> float | None:
        """RTT of the empty path [ms]; None if unknown."""
        return self._baseline.value_ms

    def observe(self, observation: Observation) -> Verdict:
        """Add an interval, and return the verdict."""
        t_s = observation.t_s
        passed_s = 0.0 if self._seen_s is None else max(0.0, t_s - self._seen_s)
        self._seen_s = t_s
        self._since_switch_s += passed_s
        self._baseline.learn(observation, passed_s)
        is_own = self._own is not None and self._own.fills(
            observation.arrival_pkts_per_s,
            observation.goodput_bytes_per_s,
            observation.rtt_p50_ms,
            self._baseline.value_ms,
            passed_s,
        )
        score = int(self._congested(observation) and not is_own)
        self._scores.append(score)
        self._delays.append(observation.rtt_tail_ms is not None and self._baseline.is_known)
        congested = max(
            sum(self._scores),
            self._ce_marks.congested(0.0 if is_own else observation.ce_marks),
            self._retransmits.congested(0.0 if is_own else observation.retransmits),
        )
        is_shared = congested >= self.options.needed or not any(self._delays)
        estimate: Regime = SHARED if is_shared else SINGLE_OWNER
        if not self._started and self._delays[-1]:
            self._started = True
            self.regime = SHARED if is_shared else self.options.start
        self._differing = self._differing + 1 if estimate != self.regime else 0
        switched = (
            self._started
            and self._differing >= self.options.persistence
            and self._since_switch_s >= self.options.cooldown_s
        )
        if switched:
            self.regime = estimate
            self._since_switch_s = 0.0
            self._differing = 0
        return Verdict(
            t_s=t_s,
            score=score,
            density=congested / self.options.window,
            estimate=estimate,
            regime=self.regime,
            switched=switched,
            is_own=is_own,
        )

    def _congested(self, observation: Observation) -> bool:
        rtt_ms, baseline_ms = observation.rtt_tail_ms, self._baseline.value_ms
        return (
            (rtt_ms is not None and baseline_ms is not None and rtt_ms > baseline_ms + self.options.delta_ms)
            or (observation.ce_marks or 0) > self.options.noise_ce_marks
            or (observation.retransmits or 0) > self.options.noise_retransmits
        )


class _Periods:
    """Counts of events by periods of several intervals."""

    def __init__(self, options: DetectorOptions, noise_per_interval: float) -> None:
        self._intervals = options.event_intervals
        self._noise = noise_per_interval * options.event_intervals
        self._counts: deque[float] = deque(maxlen=options.window * options.event_intervals)

    def congested(self, count: float | None) -> int:
        """Add an interval's count; return the number of periods of the window with more than noise."""
        self._counts.appendleft(count or 0.0)
        counts = list(self._counts)
        starts = range(0, len(counts), self._intervals)
        return sum(sum(counts[start : start + self._intervals]) > self._noise for start in starts)


class _Baseline:
    """The RTT of the empty path: given, or the minimum so far or within a horizon."""

    def __init__(self, options: DetectorOptions) -> None:
        self.value_ms = options.baseline_ms
        self._is_given = options.baseline_ms is not None
        self._of_tail = options.baseline_of == "tail"
        self._to_learn = 0 if self._is_given else options.baseline_samples
        horizon_s = options.baseline_horizon_s
        self._negative = WindowedMax(math.inf if horizon_s is None else horizon_s)

    @property
    def is_known(self) -> bool:
        return not self._to_learn

    def learn(self, observation: Observation, passed_s: float) -> None:
        if self._is_given:
            return
        tail_ms, min_ms = observation.rtt_tail_ms, observation.rtt_min_ms
        rtt_ms = tail_ms if self._of_tail or min_ms is None else min_ms
        self._negative.add(None if rtt_ms is None else -rtt_ms, passed_s)
        if rtt_ms is not None and self._negative.value is not None:
            self._to_learn = max(0, self._to_learn - 1)
            self.value_ms = -self._negative.value
