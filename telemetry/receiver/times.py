"""How often a receiver agent measures and says something, and for how long that is true."""

from __future__ import annotations

from typing import Final, Protocol

INTERVAL_MS: Final = 1000
PROBE_MS: Final = 50

TTL_INTERVALS: Final = 3
LEAST_TTL_MS: Final = 1000
"""What is said in every interval is true for so many, and not less than this [ms]: networks and busy hosts
delay some."""


class Pace(Protocol):
    """What a detector asks of the receiver that feeds it: window, interval and distance of probes [ms]."""

    @property
    def window_ms(self) -> int:
        """Length of a window [ms]."""
        ...

    @property
    def interval_ms(self) -> int:
        """Maximum length of an interval [ms]."""
        ...

    @property
    def probe_ms(self) -> int:
        """Time between two probes [ms]."""
        ...


def times(
    mode: Pace | None, window_ms: int | None, interval_ms: int | None, probe_ms: int | None
) -> tuple[int, int, int]:
    """Return window, interval and distance of probes [ms]: as given, else as the mode has them."""
    if mode is None:
        interval_ms = interval_ms or INTERVAL_MS
        return window_ms or interval_ms, interval_ms, probe_ms or PROBE_MS
    window_ms = window_ms or mode.window_ms
    return window_ms, interval_ms or min(mode.interval_ms, window_ms), probe_ms or mode.probe_ms


def lives_ms(every_ms: int) -> int:
    """Return how long something is true that is said so often [ms]."""
    return max(every_ms * TTL_INTERVALS, LEAST_TTL_MS)
