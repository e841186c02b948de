"""How many tokens a bucket holds, as far as a sender can tell."""

from __future__ import annotations

from ccp_algs.rtcp.exact import UBYTES, brings, since


class Tokens:
    """The level of a token bucket whose size and rate may change.

    The level is followed from ACK to ACK and kept between 0 and the size, as a real bucket's is; equation 20
    of the paper clamps only the result.

    Attributes:
        level_ubytes: What is in it [millionths of a byte].
        at_us: When that was [us].
    """

    __slots__ = ("at_us", "level_ubytes")

    def __init__(self, at_us: int, level_ubytes: int) -> None:
        """Begin with what is in it."""
        self.at_us = at_us
        self.level_ubytes = level_ubytes

    def level_at(self, now_us: int, bucket_bytes: int, rate_bytes_per_s: int) -> int:
        """Return what is in it at a time, if nothing is taken until then [ubytes]."""
        gained_ubytes = brings(rate_bytes_per_s, since(now_us, self.at_us))
        return min(self.level_ubytes + gained_ubytes, bucket_bytes * UBYTES)

    def take(self, now_us: int, taken_bytes: int, bucket_bytes: int, rate_bytes_per_s: int) -> bool:
        """Refill it up to a time, take from it, and return whether there was enough.

        Args:
            now_us: The time [us].
            taken_bytes: What went through [bytes].
            bucket_bytes: Size of the bucket [bytes].
            rate_bytes_per_s: Its rate [bytes/s].
        """
        level_ubytes = self.level_at(now_us, bucket_bytes, rate_bytes_per_s) - taken_bytes * UBYTES
        self.at_us = now_us
        self.level_ubytes = max(0, level_ubytes)
        return level_ubytes >= 0
