"""What carries out regimes: TCP sockets one by one, or a host as a whole."""

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

PUT_BACK: Final = "put back"
"""Reason of the switch at the end."""

Regimes = Mapping[Path, Standing]
"""What holds of each path that a decision was heard of."""


class RegimeEvent(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something happened to a flow, or to a whole host.

    Attributes:
        kind: `regime:switched`, `regime:refused`, or `regime:fail_safe`: decisions are no longer to be had.
        t_wall_us: When, by the wall clock [us].
        t_mono_us: The same by CLOCK_MONOTONIC [us].
        flow: The flow, seen from here; None: the host.
        before: Congestion control before it was switched.
        after: Congestion control since.
        wanted: Congestion control that was refused.
        regime: Regime that asked for it.
        reason: What the detector, or the loss of it, says for it.
        why: Why it was refused, or why the safe regime holds.
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
        """Return the event as the bus carries it.

        Args:
            algorithm: Who did it.
        """
        said = {
            name: getattr(self, name) for name in ("before", "after", "wanted", "regime", "reason", "why")
        }
        detail = {name: text for name, text in said.items() if text}
        return AlgorithmEvent(algorithm=algorithm, event=self.kind, flow=self.flow, detail=detail)


class Actuator(Protocol):
    """Does what regimes ask for. All calls are made on one thread."""

    def apply(self, regimes: Regimes) -> list[RegimeEvent]:
        """Make it so; called in each turn of the loop, whether something changed or not.

        Args:
            regimes: What holds now.

        Returns:
            What happened since the last call.

        Raises:
            CcpError: It cannot be done any more.
        """
        ...

    def close(self, *, leave: bool) -> list[RegimeEvent]:
        """End, and put back what was there before.

        Args:
            leave: Leave everything as it is now instead.

        Returns:
            What happened since the last call, and what was put back.
        """
        ...
