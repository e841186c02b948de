"""Limits log lines that each flow or message can cause, as thousands of them would hide other lines."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Final

LINES: Final = 5
"""Maximum lines per cause and period."""

PERIOD_S: Final = 60.0

MAX_CAUSES: Final = 1000
"""Maximum causes counted; if there are more, counting starts again."""


@dataclass(slots=True)
class Admitted:
    """A line that may be logged.

    Attributes:
        times: How often its cause occurred so far.
        last: Whether it is the last line of the period.
    """

    times: int
    last: bool

    def __str__(self) -> str:
        so_far = f"{self.times} times so far" if self.times > 1 else ""
        later = f"more are not logged for up to {PERIOD_S:g} s" if self.last else ""
        text = ", ".join(filter(None, (so_far, later)))
        return f" ({text})" if text else ""


@dataclass(slots=True)
class _Cause:
    times: int = 0
    lines: int = 0
    end_s: float = 0.0


class LogLimit:
    """Admits `LINES` lines per cause in each `PERIOD_S`."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._causes: dict[Hashable, _Cause] = {}

    def admit(self, cause: Hashable) -> Admitted | None:
        """Count an occurrence; return None if it must not be logged."""
        if cause not in self._causes and len(self._causes) >= MAX_CAUSES:
            self._causes.clear()
        one = self._causes.setdefault(cause, _Cause())
        one.times += 1
        now_s = self._clock()
        if now_s >= one.end_s:
            one.lines, one.end_s = 0, now_s + PERIOD_S
        one.lines += 1
        return Admitted(one.times, one.lines == LINES) if one.lines <= LINES else None
