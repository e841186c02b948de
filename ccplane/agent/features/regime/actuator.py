"""The interface of actuators, which apply regimes to single TCP sockets or to a whole host."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

from msgspec import Struct, field

from telemetry.bus import mono_us, wall_us
from telemetry.regime.follow import Path, Standing
from telemetry.schema import AlgorithmEvent, FlowId

SWITCHED: Final = "regime:switched"
REFUSED: Final = "regime:refused"
FAIL_SAFE: Final = "regime:fail_safe"

PUT_BACK: Final = "restored"
"""Reason given for the switch by which the actuator restores the earlier state when it ends."""

Regimes = Mapping[Path, Standing]
"""Current regime of each path for which a decision was received."""


class RegimeEvent(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An event of a flow, or of a whole host.

    Attributes:
        kind: `regime:switched`, `regime:refused`, or `regime:fail_safe` (decisions are no longer available).
        t_wall_us: Time, wall clock [us].
        t_mono_us: Time, CLOCK_MONOTONIC [us].
        flow: The flow, as seen from this host; None for the host.
        before: Congestion control before the switch.
        after: Congestion control after the switch.
        wanted: Congestion control that was refused.
        regime: The regime.
        reason: Reason for the regime: the detector's, or the loss of decisions.
        why: Why it was refused, or why the safe regime applies.
    """

    kind: str
    t_wall_us: int = field(default_factory=wall_us)
    t_mono_us: int = field(default_factory=mono_us)
    flow: FlowId | None = None
    before: str = ""
    after: str = ""
    wanted: str = ""
    regime: str = ""
    reason: str = ""
    why: str = ""

    def message(self, algorithm: str) -> AlgorithmEvent:
        """Return the event as a message for the bus, with the name of an algorithm."""
        said = {
            name: getattr(self, name) for name in ("before", "after", "wanted", "regime", "reason", "why")
        }
        detail = {name: text for name, text in said.items() if text}
        return AlgorithmEvent(algorithm=algorithm, event=self.kind, flow=self.flow, detail=detail)


class Actuator(Protocol):
    """Applies regimes. All calls are made on one thread."""

    def apply(self, regimes: Regimes) -> list[RegimeEvent]:
        """Apply regimes; called in each iteration of the loop, even if nothing changed.

        Returns:
            Events since the last call.

        Raises:
            CcpError: If regimes cannot be applied.
        """
        ...

    def close(self, *, leave: bool) -> list[RegimeEvent]:
        """Stop, and restore the state before the start, unless `leave` is set; return the last events."""
        ...
