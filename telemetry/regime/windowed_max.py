"""The maximum of recent values. Pure: no clock, no I/O."""

from __future__ import annotations

import math
from collections import deque


class WindowedMax:
    """The maximum of the values within a horizon.

    Attributes:
        value: The maximum; None before the first value. Old values are forgotten when a new one is added.
    """

    def __init__(self, horizon_s: float) -> None:
        """Create an empty window of `horizon_s` [s]; infinity keeps values forever."""
        self.value: float | None = None
        self._horizon_s = horizon_s
        self._clock_s = 0.0
        # Times and values that may become the maximum, in descending order of values.
        self._candidates: deque[tuple[float, float]] = deque()

    def add(self, value: float | None, passed_s: float) -> None:
        """Add a value, `passed_s` after the previous one; None only lets time pass."""
        self._clock_s += passed_s
        if value is None:
            return
        if math.isinf(self._horizon_s):
            self._candidates.clear()  # the maximum stays forever, so smaller values are irrelevant
            value = value if self.value is None else max(value, self.value)
        while self._candidates and self._candidates[-1][1] <= value:
            self._candidates.pop()
        self._candidates.append((self._clock_s, value))
        while self._candidates[0][0] < self._clock_s - self._horizon_s:
            self._candidates.popleft()
        self.value = self._candidates[0][1]
