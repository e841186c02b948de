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
"""

from __future__ import annotations

from ccp_algs.rtcp.options import Options

US_PER_S = 1e6


class Candidates:
    """Bucket sizes and rates of one transfer, in rising order of size.

    Attributes:
        bucket_bytes: Of the best one [bytes].
        rate_bytes_per_s: Of the best one [bytes/s].
        step_bytes: From one size to the next [bytes].
    """

    __slots__ = ("_buckets", "_rates", "bucket_bytes", "rate_bytes_per_s", "step_bytes")

    def __init__(self, delivered_bytes: int, t_us: int, options: Options) -> None:
        """Choose the sizes.

        Args:
            delivered_bytes: Delivered before the first loss, > 0 [bytes]: no bucket is larger.
            t_us: Since the transfer began, > 0 [us].
            options: Number of candidates and theta: smaller buckets than those chosen, but 0, would leave
                no abrupt reduction (equation 35).
        """
        n, theta = options.n_candidates, options.reduction_ratio
        self.step_bytes = theta * delivered_bytes / (n - 1)
        self._buckets = [0.0, *(delivered_bytes - k * self.step_bytes for k in range(n - 2, -1, -1))]
        self._rates = [(delivered_bytes - bucket) * US_PER_S / t_us for bucket in self._buckets]
        self._select(t_us)

    def update(self, delivered_bytes: int, t_us: int) -> None:
        """Take an ACK in.

        Args:
            delivered_bytes: Delivered since the transfer began [bytes].
            t_us: Since the transfer began, > 0 [us].
        """
        buckets, rates = self._buckets, self._rates
        per_s = US_PER_S / t_us
        for j, bucket in enumerate(buckets):
            rate = (delivered_bytes - bucket) * per_s
            if rate > rates[j]:
                rates[j] = rate
        # At most twice: both new lines go through this ACK, and there the smaller bucket wins.
        while self._select(t_us) == len(buckets) - 1 and buckets[-1] < delivered_bytes:
            bucket = buckets[-1] + self.step_bytes
            del buckets[0], rates[0]
            buckets.append(bucket)
            rates.append(max(0.0, (delivered_bytes - bucket) * per_s))

    def _select(self, t_us: int) -> int:
        """Choose the best candidate, and return its place."""
        buckets, rates = self._buckets, self._rates
        half_s = t_us / (2 * US_PER_S)
        best = len(buckets) - 1
        height_bytes = buckets[best] + rates[best] * half_s
        for j in range(best - 1, -1, -1):
            other_bytes = buckets[j] + rates[j] * half_s
            if other_bytes >= height_bytes:  # Theorem 2: no smaller one is better either
                break
            best, height_bytes = j, other_bytes
        self.bucket_bytes = buckets[best]
        self.rate_bytes_per_s = rates[best]
        return best
