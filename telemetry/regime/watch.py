"""Detectors for a receiver: signals in, decisions about its peers out. Pure: the clock is an argument.

    watch = Watch(MODES["fast"].options, intervals=1)
    for one in watch.take(signals, now_us, wall_us):
        bus.publish(one.decision, ttl_ms=ttl_ms)

The receiver's windows may overlap, but the detector's intervals must not, or an event would count more than
once. So each peer is observed once per window, from the signal that ends it. Intervals without any
measurement are skipped, and no decision is published for them, so the previous decision expires.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from telemetry.regime.detector import Detector, DetectorOptions, Observation, Verdict
from telemetry.schema import ReceiverSignal, RegimeDecision

KEEP_US: Final = 3_600_000_000
"""Time without measurements after which a peer is forgotten, with its baseline [us]."""


def observation_of(signal: ReceiverSignal, t_s: float) -> Observation:
    """Convert a signal to an observation.

    Retransmissions are those that the peer reports; otherwise those recognised on arrival; otherwise segments
    that arrive after a gap (one loss causes several).
    """
    retransmits = (signal.retrans_pkts, signal.resent_pkts, signal.reordered_pkts)
    return Observation(
        t_s=t_s,
        rtt_min_ms=_ms(signal.rtt_min_us),
        rtt_p50_ms=_ms(signal.rtt_p50_us),
        rtt_tail_ms=_ms(signal.rtt_p99_us),
        ce_marks=signal.ce_marks,
        retransmits=next((count for count in retransmits if count is not None), None),
        arrival_pkts_per_s=signal.arrival_pkts_per_s,
        goodput_bytes_per_s=signal.goodput_bytes_per_s,
    )


def _ms(us: int | None) -> float | None:
    return None if us is None else us / 1000


@dataclass(frozen=True, slots=True)
class Watched:
    """One interval of one peer.

    Attributes:
        peer: The peer.
        observation: The observation.
        baseline_ms: RTT of the empty path that was used [ms]; None if unknown.
        verdict: The detector's verdict.
        decision: The decision to publish.
    """

    peer: str
    observation: Observation
    baseline_ms: float | None
    verdict: Verdict
    decision: RegimeDecision

    @property
    def details(self) -> dict[str, object]:
        """Additional fields of a line of JSON."""
        seen = msgspec.structs.asdict(self.observation)
        del seen["t_s"]  # t_mono_us
        return {**seen, "baseline_ms": self.baseline_ms, "switched": self.verdict.switched}


@dataclass(slots=True)
class _Path:
    detector: Detector
    since_wall_us: int
    seen_us: int = 0


class Watch:
    """A detector for each peer.

    Attributes:
        options: Parameters of each detector.
        decisions: Peer -> decision at the end of the last window.
    """

    def __init__(self, options: DetectorOptions, intervals: int) -> None:
        """Start without peers."""
        self.options = options
        self.decisions: dict[str, RegimeDecision] = {}
        self._intervals = intervals
        self._turn = 0
        self._paths: dict[str, _Path] = {}

    def take(self, signals: Sequence[ReceiverSignal], now_us: int, wall_us: int) -> list[Watched]:
        """Add the signals of an interval; signals of single flows are ignored.

        Args:
            signals: Signals of all peers.
            now_us: End of the interval by the monotonic clock [us].
            wall_us: The same by the wall clock [us].

        Returns:
            At the end of a window, a decision for each peer with measurements.
        """
        self._turn = (self._turn + 1) % self._intervals
        if self._turn:
            return []
        found = []
        for signal in signals:
            observation = observation_of(signal, now_us / 1e6)
            if signal.flow is None and _has_any(observation):
                found.append(self._observe(signal, observation, now_us, wall_us))
        self.decisions = {one.peer: one.decision for one in found}
        after_us = now_us - KEEP_US
        self._paths = {peer: path for peer, path in self._paths.items() if path.seen_us > after_us}
        return found

    def _observe(
        self, signal: ReceiverSignal, observation: Observation, now_us: int, wall_us: int
    ) -> Watched:
        path = self._paths.get(signal.peer)
        if path is None:
            path = self._paths[signal.peer] = _Path(Detector(self.options), wall_us)
        path.seen_us = now_us
        before = path.detector.regime
        verdict = path.detector.observe(observation)
        if verdict.regime != before:
            path.since_wall_us = wall_us
        decision = RegimeDecision(
            peer=signal.peer,
            address=signal.address,
            regime=verdict.regime,
            score=verdict.score,
            density=verdict.density,
            estimate=verdict.estimate,
            window_ms=signal.window_ms,
            since_wall_us=path.since_wall_us,
            reason=_reason(verdict, observation, path.detector),
        )
        return Watched(signal.peer, observation, path.detector.baseline_ms, verdict, decision)


def _has_any(observation: Observation) -> bool:
    values = (observation.rtt_tail_ms, observation.ce_marks, observation.retransmits)
    return any(value is not None for value in values)


def _reason(verdict: Verdict, seen: Observation, detector: Detector) -> str:
    baseline_ms, intervals = detector.baseline_ms, detector.options.window
    counted = "intervals" if detector.options.event_intervals == 1 else "intervals or periods"
    parts = [f"{round(verdict.density * intervals)} of {intervals} {counted} congested"]
    if seen.rtt_tail_ms is None:
        parts.append("no RTT")
    elif baseline_ms is not None:
        parts.append(f"tail RTT {seen.rtt_tail_ms:.1f} ms, empty {baseline_ms:.1f} ms")
    if seen.ce_marks is not None:
        parts.append(f"CE marks {seen.ce_marks:g}")
    if seen.retransmits is not None:
        parts.append(f"retransmissions {seen.retransmits:g}")
    if verdict.is_own:
        parts.append("the sender fills the path by itself")
    return "; ".join(parts)
