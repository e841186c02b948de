"""Windows over counters that only grow: what is new since so many interval ends. Pure: no clock, no I/O."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

Values = Mapping[str, int | None]
"""Counter by name -> its value; None where the kernel does not have it."""

U32: Final = 1 << 32


@dataclass(frozen=True, slots=True)
class Growth:
    """What counters grew by over a window.

    Attributes:
        elapsed_us: Length of the window [us].
        values: Counter by name -> growth; None where it was missing at one of the ends.
    """

    elapsed_us: int
    values: Values


class Series:
    """Counters at the ends of intervals; a window is the last `intervals` of them.

    Windows end where intervals end, so with one interval a window every event is in exactly one window,
    however late the ends come.
    """

    def __init__(self, start_us: int, values: Values, intervals: int) -> None:
        """Start with the values at `start_us`.

        Args:
            start_us: When the first interval begins [us].
            values: The counters then.
            intervals: Length of a window in intervals, at least 1.
        """
        self._ends: deque[tuple[int, dict[str, int | None]]] = deque(maxlen=intervals + 1)
        self._ends.append((start_us, dict(values)))

    def close(self, now_us: int, values: Values) -> Growth:
        """End an interval.

        Args:
            now_us: When it ends [us].
            values: The counters then.

        Returns:
            The growth over the last `intervals` of them, fewer if there were not yet so many.
        """
        self._ends.append((now_us, dict(values)))
        first_us, first = self._ends[0]
        return Growth(now_us - first_us, {name: difference(first.get(name), values[name]) for name in values})


def difference(before: int | None, after: int | None) -> int | None:
    """Return after - before; None if one is missing, or if the counter was set back."""
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
