"""Intervals of a receiver agent, and the lifetime of its messages."""

from __future__ import annotations

from typing import Final, Protocol

INTERVAL_MS: Final = 1000
PROBE_MS: Final = 50

TTL_INTERVALS: Final = 3
MIN_TTL_MS: Final = 1000
"""Lifetime of a periodic message in intervals, and its minimum [ms]; it allows for delays of networks and
busy hosts."""


class Pace(Protocol):
    """Times that a detector requires of its receiver: window, interval and probe interval [ms]."""

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
    """Return window, interval and probe interval [ms]: as given, else those of the mode."""
    if mode is None:
        interval_ms = interval_ms or INTERVAL_MS
        return window_ms or interval_ms, interval_ms, probe_ms or PROBE_MS
    window_ms = window_ms or mode.window_ms
    return window_ms, interval_ms or min(mode.interval_ms, window_ms), probe_ms or mode.probe_ms


def lives_ms(every_ms: int) -> int:
    """Return the lifetime of a message that is sent every `every_ms` [ms]."""
    return max(every_ms * TTL_INTERVALS, MIN_TTL_MS)
