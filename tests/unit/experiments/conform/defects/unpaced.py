"""Planted defect: a rate-based algorithm that sets its window, and forgets to pace."""

from paced import Paced


class Unpaced(Paced):
    """The rate-based algorithm without its rate."""

    def apply(self, window_bytes: float, rate_bytes_per_s: float) -> None:
        """Set the window alone."""
        self.flow.set(cwnd_bytes=window_bytes)
