"""Planted defect: a rate in bits per second where bytes per second are meant."""

from paced import Paced


class Bits(Paced):
    """The rate-based algorithm, eight times too fast."""

    def apply(self, window_bytes: float, rate_bytes_per_s: float) -> None:
        """Set both."""
        self.flow.set(cwnd_bytes=8 * window_bytes, rate_bytes_per_s=8 * rate_bytes_per_s)
