"""Growth of monotonic counters over windows of intervals. Pure: no clock, no I/O."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

Values = Mapping[str, int | None]
"""Counter -> its value; None if the kernel lacks it."""

U32: Final = 1 << 32


@dataclass(frozen=True, slots=True)
class Growth:
    """Growth of counters over a window.

    Attributes:
        elapsed_us: Length of the window [us].
        values: Counter -> growth; None if it was missing at one of the ends.
    """

    elapsed_us: int
    values: Values


class Series:
    """Counters at the ends of intervals; a window is the last `intervals` of them.

    Windows end where intervals end, so with one interval per window every event is in exactly one window,
    however late the ends come.
    """

    def __init__(self, start_us: int, values: Values, intervals: int) -> None:
        """Start with the values at `start_us`.

        Args:
            start_us: Start of the first interval [us].
            values: The counters at that time.
            intervals: Length of a window in intervals, at least 1.
        """
        self._ends: deque[tuple[int, dict[str, int | None]]] = deque(maxlen=intervals + 1)
        self._ends.append((start_us, dict(values)))

    def close(self, now_us: int, values: Values) -> Growth:
        """End an interval; return the growth over the last `intervals` intervals, or fewer at the start."""
        self._ends.append((now_us, dict(values)))
        first_us, first = self._ends[0]
        return Growth(now_us - first_us, {name: difference(first.get(name), values[name]) for name in values})


def difference(before: int | None, after: int | None) -> int | None:
    """Return after - before; None if one is missing, or if the counter was reset."""
    if before is None or after is None or after < before:
        return None
    return after - before


def total(values: Iterable[int | None]) -> int | None:
    """Return the sum of counters; None if one is missing."""
    summed = 0
    for value in values:
        if value is None:
            return None
        summed += value
    return summed
