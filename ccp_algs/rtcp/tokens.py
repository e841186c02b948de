"""How many tokens a bucket holds, as far as a sender can tell."""

from __future__ import annotations

from ccp_algs.rtcp.exact import MOST_UBYTES, UBYTES, brings


class Tokens:
    """The level of a token bucket whose size and rate may change.

    The level is followed from ACK to ACK and kept between 0 and the size, as a real bucket's is; equation 20
    of the paper clamps only the result.

    Attributes:
        level_ubytes: What was in it when something was last taken [millionths of a byte].
    """

    __slots__ = ("level_ubytes",)

    def __init__(self, level_ubytes: int) -> None:
        """Begin with what is in it."""
        self.level_ubytes = level_ubytes

    def level_after(self, past_us: int, bucket_bytes: int, rate_bytes_per_s: int) -> int:
        """Return what is in it after a time, if nothing is taken meanwhile [ubytes]."""
        gained_ubytes = brings(rate_bytes_per_s, past_us)
        return min(self.level_ubytes + gained_ubytes, bucket_bytes * UBYTES)

    def refill(self, past_us: int, rate_bytes_per_s: int) -> None:
        """Let it fill for a time, as yet without a bound: what is taken next has it."""
        self.level_ubytes = min(self.level_ubytes + brings(rate_bytes_per_s, past_us), MOST_UBYTES)

    def take(self, past_us: int, taken_bytes: int, bucket_bytes: int, rate_bytes_per_s: int) -> bool:
        """Refill it for a time, take from it, and return whether there was enough.

        Args:
            past_us: Since something was last taken [us].
            taken_bytes: What went through [bytes].
            bucket_bytes: Size of the bucket [bytes].
            rate_bytes_per_s: Its rate [bytes/s].
        """
        level_ubytes = self.level_after(past_us, bucket_bytes, rate_bytes_per_s) - taken_bytes * UBYTES
        self.level_ubytes = max(0, level_ubytes)
        return level_ubytes >= 0
