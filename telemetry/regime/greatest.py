"""The greatest value of the last while. Pure: no clock, no I/O."""

from __future__ import annotations

import math
from collections import deque


class Greatest:
    """The greatest of the values that came within a horizon.

    Attributes:
        value: It; None before the first value. What is too old is forgotten when a value comes.
    """

    def __init__(self, horizon_s: float) -> None:
        """Begin.

        Args:
            horizon_s: How long a value counts [s]; infinity: for ever.
        """
        self.value: float | None = None
        self._horizon_s = horizon_s
        self._clock_s = 0.0
        # Times and values that may become the greatest: values descend, as a greater one ends those before.
        self._candidates: deque[tuple[float, float]] = deque()

    def add(self, value: float | None, passed_s: float) -> None:
        """Take a value, so long after the one before [s]; None is none, but time passes."""
        self._clock_s += passed_s
        if value is None:
            return
        if math.isinf(self._horizon_s):
            self._candidates.clear()  # the greatest one stays; what is smaller never becomes it
            value = value if self.value is None else max(value, self.value)
        while self._candidates and self._candidates[-1][1] <= value:
            self._candidates.pop()
        self._candidates.append((self._clock_s, value))
        while self._candidates[0][0] < self._clock_s - self._horizon_s:
            self._candidates.popleft()
        self.value = self._candidates[0][1]
