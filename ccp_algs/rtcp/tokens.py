"""How many tokens a bucket holds, as far as a sender can tell."""

from __future__ import annotations

from ccp_algs.rtcp.candidates import US_PER_S


class Tokens:
    """The level of a token bucket whose size and rate may change.

    The level is followed from ACK to ACK and kept between 0 and the size, as a real bucket's is; equation 20
    of the paper clamps only the result.

    Attributes:
        level_bytes: What is in it [bytes].
        at_us: When that was [us].
    """

    __slots__ = ("at_us", "level_bytes")

    def __init__(self, at_us: int, level_bytes: float) -> None:
        """Begin with what is in it."""
        self.at_us = at_us
        self.level_bytes = level_bytes

    def level_at(self, now_us: int, bucket_bytes: float, rate_bytes_per_s: float) -> float:
        """Return what is in it at a time, if nothing is taken until then [bytes]."""
        gained_bytes = max(0, now_us - self.at_us) * rate_bytes_per_s / US_PER_S
        return min(self.level_bytes + gained_bytes, bucket_bytes)

    def take(self, now_us: int, taken_bytes: float, bucket_bytes: float, rate_bytes_per_s: float) -> bool:
        """Refill it up to a time, take from it, and return whether there was enough.

        Args:
            now_us: The time [us].
            taken_bytes: What went through [bytes].
            bucket_bytes: Size of the bucket [bytes].
            rate_bytes_per_s: Its rate [bytes/s].
        """
        level_bytes = self.level_at(now_us, bucket_bytes, rate_bytes_per_s) - taken_bytes
        self.at_us = now_us
        self.level_bytes = max(0.0, level_bytes)
        return level_bytes >= 0
