"""Token buckets that a transfer may have gone through: a few bucket sizes, and the lowest rate for each.

A bucket of size b that is refilled at rate r lets through at most b + r t by time t (equation 3). For each
candidate size the lowest rate is kept that no ACK so far contradicts; history is not. Of all candidates the
one is best whose line lies closest above what was delivered.

Source: S. Zhu et al., "R-TCP: A Framework to Optimize TCP Performance Over Rate-Limiting Networks", NSDI
2026, section 4.2 and appendices D, E and F.

Deviations, with reasons:

* Two candidates are compared by the height of their lines at half the time, b + r t / 2. That is Theorem 1
  (t < 2 p) multiplied out: no division, and equal rates are no special case.
* The range is extended only up to what has been delivered: a larger bucket would be a guess.
* The best of all lines, whatever their bucket, goes through the corners of the concave hull of what was
  delivered, on either side of half the time: a steeper or flatter line is higher there. The line of each
  candidate touches a corner, and {B, R} is the line through two of these. A candidate's own rate is wrong by
  a part of a step over the time: by a quarter in the first seconds of a large bucket and a low rate.
"""

from __future__ import annotations

from typing import NamedTuple

from ccp_algs.rtcp.exact import UBYTES, brings, lowest_rate, share
from ccp_algs.rtcp.options import Options


class Limit(NamedTuple):
    """A token bucket."""

    bucket_bytes: int
    rate_bytes_per_s: int


class _Candidate(NamedTuple):
    """A size, the lowest rate that no ACK contradicts, and the ACK that asks for it."""

    bucket_bytes: int
    rate_bytes_per_s: int
    touch_us: int
    touch_bytes: int

    @classmethod
    def touching(cls, bucket_bytes: int, delivered_bytes: int, t_us: int) -> _Candidate:
        rate_bytes_per_s = lowest_rate(delivered_bytes - bucket_bytes, t_us)
        return cls(bucket_bytes, rate_bytes_per_s, t_us, delivered_bytes)


class Candidates:
    """Bucket sizes and rates of one transfer, in rising order of size.

    Attributes:
        best: The best one.
        line: The estimate {B, R}: between the best one and its neighbour.
        step_bytes: From one size to the next [bytes].
    """

    __slots__ = ("_all", "best", "line", "step_bytes")

    def __init__(self, delivered_bytes: int, t_us: int, options: Options) -> None:
        """Choose the sizes.

        Args:
            delivered_bytes: Delivered before the first loss, > 0 [bytes]: no bucket is larger.
            t_us: Since the transfer began, > 0 [us].
            options: Number of candidates and theta: smaller buckets than those chosen, but 0, would leave
                no abrupt reduction (equation 35).
        """
        n, theta_ppm = options.n_candidates, options.exact.reduction_ratio_ppm
        self.step_bytes = share(delivered_bytes, theta_ppm) // (n - 1)
        buckets = [0, *(delivered_bytes - k * self.step_bytes for k in range(n - 2, -1, -1))]
        self._all = [_Candidate.touching(bucket, delivered_bytes, t_us) for bucket in buckets]
        self._draw_line(self._select(t_us), t_us)

    def update(self, delivered_bytes: int, t_us: int) -> None:
        """Take an ACK in.

        Args:
            delivered_bytes: Delivered since the transfer began [bytes].
            t_us: Since the transfer began, > 0 [us].
        """
        candidates = self._all
        for j, (bucket, rate, _, _) in enumerate(candidates):
            if brings(rate, t_us) < (delivered_bytes - bucket) * UBYTES:
                candidates[j] = _Candidate.touching(bucket, delivered_bytes, t_us)
        chosen = self._select(t_us)
        # Both new lines go through this ACK, and there the smaller bucket wins: twice at most.
        for _ in range(2):
            if chosen < len(candidates) - 1 or self.best.bucket_bytes >= delivered_bytes:
                break
            bucket = self.best.bucket_bytes + self.step_bytes
            del candidates[0]
            candidates.append(_Candidate.touching(bucket, delivered_bytes, t_us))
            chosen = self._select(t_us)
        self._draw_line(chosen, t_us)

    def _select(self, t_us: int) -> int:
        """Choose the best candidate, and return its place."""
        candidates = self._all
        best = len(candidates)
        lowest_ubytes = 2**64
        for j in range(len(candidates) - 1, -1, -1):
            bucket, rate, _, _ = candidates[j]
            ubytes = bucket * UBYTES + brings(rate, t_us) // 2
            if ubytes >= lowest_ubytes:  # Theorem 2: no smaller one is better either
                break
            best, lowest_ubytes = j, ubytes
        self.best = Limit(*candidates[best][:2])
        return best

    def _draw_line(self, low: int, t_us: int) -> None:
        """Draw the line through the ACKs that two neighbours' lines touch before and after half the time.

        Args:
            low: Place of the best candidate.
            t_us: Since the transfer began [us].
        """
        self.line = self.best
        if self._all[low].touch_us * 2 > t_us:
            low -= 1
        if not 0 <= low < len(self._all) - 1:
            return
        before, after = self._all[low], self._all[low + 1]
        if after.touch_us <= before.touch_us:
            return
        rate = (after.touch_bytes - before.touch_bytes) * UBYTES // (after.touch_us - before.touch_us)
        rate = min(max(rate, after.rate_bytes_per_s), before.rate_bytes_per_s)
        self.line = Limit(max(0, before.touch_bytes * UBYTES - rate * before.touch_us) // UBYTES, rate)
