"""The effect of detectors' decisions at a sender: the regime of each path, and its reason.

    follower = Follower(stale_ms=1000)
    follower.take(sample)                       # decisions, and births and wills of senders
    follower.set_connected(bus.connected, now_us)
    follower.regimes(now_us)[Path("10.0.0.1", "10.1.0.1")].regime

No I/O and no clock. A path is SHARED unless a valid decision says otherwise. A decision becomes invalid a
grace period after it expired, its sender went offline, or the broker was disconnected.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from msgspec import Struct

from telemetry.regime.detector import SHARED, Regime
from telemetry.schema import AgentStatus, RegimeDecision, Sample, canonical

STALE_MS: Final = 1000
"""Default grace period [ms]."""

MAX_PATHS: Final = 200
"""Default maximum number of paths with known decisions."""

MAX_SENDERS: Final = 1000
"""Maximum number of senders known to be offline; the first one is forgotten."""

STALE: Final = "stale"
OFFLINE: Final = "sender_offline"
AWAY: Final = "broker_away"


class Path(NamedTuple):
    """The path from a sender of data to a receiver.

    Attributes:
        peer: The sender's address, as the receiver sees it.
        address: The receiver's address; None for all paths from the sender.
    """

    peer: str
    address: str | None


class Standing(Struct, frozen=True, kw_only=True):
    """The regime of a path.

    Attributes:
        regime: The regime.
        lost: Why the decision is invalid: `stale`, `sender_offline` or `broker_away`; empty if it is valid.
        reason: The reason as text: the detector's, or why its decision is invalid.
    """

    regime: Regime
    lost: str = ""
    reason: str = ""


class _Received(Struct):
    sender: str
    made_us: int
    expires_us: int | None
    body: RegimeDecision


class Follower:
    """Keeps the newest decision of each path, and checks its validity."""

    def __init__(self, stale_ms: float = STALE_MS, max_paths: int = MAX_PATHS) -> None:
        """Start without decisions; the broker counts as connected.

        Args:
            stale_ms: Grace period of an invalid decision [ms].
            max_paths: Maximum number of paths with known decisions; the least recently updated is forgotten.
        """
        self._grace_us = round(stale_ms * 1000)
        self._max_paths = max_paths
        self._received: dict[Path, _Received] = {}
        self._offline_us: dict[str, int] = {}
        self._away_us: int | None = None

    def take(self, sample: Sample) -> None:
        """Take a decision about a path, or the birth or last will of a sender; ignore other samples."""
        body = sample.body
        if isinstance(body, AgentStatus):
            if body.status == "online":
                self._offline_us.pop(sample.sender, None)
            else:
                self._offline_us.setdefault(sample.sender, sample.received_us)
                if len(self._offline_us) > MAX_SENDERS:
                    del self._offline_us[next(iter(self._offline_us))]
        elif isinstance(body, RegimeDecision) and body.peer is not None and body.flow is None:
            self._decide(body.peer, body, sample)

    def set_connected(self, connected: bool, now_us: int) -> None:
        """Set whether the broker is connected."""
        if connected:
            self._away_us = None
        elif self._away_us is None:
            self._away_us = now_us

    def regimes(self, now_us: int) -> dict[Path, Standing]:
        """Return the regime of each path with a decision.

        Args:
            now_us: CLOCK_MONOTONIC, as in the samples [us].
        """
        return {path: self._standing(received, now_us) for path, received in self._received.items()}

    def _decide(self, peer: str, body: RegimeDecision, sample: Sample) -> None:
        path = Path(canonical(peer), None if body.address is None else canonical(body.address))
        made_us = sample.received_us - sample.age_at_receipt_us
        before = self._received.get(path)
        if before is not None and made_us < before.made_us:
            return  # retained message of another sender
        if not sample.retained:
            self._offline_us.pop(sample.sender, None)  # its sender is online
        self._received.pop(path, None)
        self._received[path] = _Received(sample.sender, made_us, sample.expires_us, body)
        if len(self._received) > self._max_paths:
            del self._received[next(iter(self._received))]

    def _standing(self, received: _Received, now_us: int) -> Standing:
        causes = [
            (self._away_us, AWAY, "the broker is disconnected"),
            (self._offline_us.get(received.sender), OFFLINE, f"{received.sender} is offline"),
            (received.expires_us, STALE, "the last decision has expired"),
        ]
        for since_us, lost, why in causes:
            if since_us is not None and now_us >= since_us + self._grace_us:
                return Standing(regime=SHARED, lost=lost, reason=why)
        return Standing(regime=received.body.regime, reason=received.body.reason)
