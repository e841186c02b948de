"""What the host of this machine lent to others during a test.

While a processor is taken away, nothing on it sends, forwards or answers: a link that programs emulate stands
idle, and a deadline passes. With 13 % of the machine stolen, a flow got 89 of the 95 Mbit/s that it gets with
1 %. Tests of utilisation ask for as much less.
"""

from __future__ import annotations

from typing import Final

from experiments.netlab import cpu_counts


class Lent:
    """Counts from `begin` on."""

    def __init__(self) -> None:
        """Begin."""
        self.begin()

    def begin(self) -> None:
        """Count from now on."""
        self._counts = cpu_counts()

    @property
    def share(self) -> float:
        """Share of the machine that the hypervisor took since, while there was something to do."""
        now = cpu_counts()
        spent = now - self._counts
        return spent.stolen_s / (len(now.idle_s) * spent.elapsed_s)


TEST: Final = Lent()
"""Of the test that runs."""
