"""One transfer: heavy loss starts the estimation; a steady one, far below the rate before, is a limit.

    WAITING --- first loss --> COUNTING --- more than beta lost within alpha min-RTTs --> ESTIMATING
       ^--------------------------'  no more than that

Source: S. Zhu et al., "R-TCP: A Framework to Optimize TCP Performance Over Rate-Limiting Networks", NSDI
2026, sections 4.1 and 4.3. Where the paper leaves a choice:

* "ACK h, the highest before detection is triggered" (equation 6) is the last one before the losses became
  heavy: the last of the window, or before it, up to which no more than beta were lost. The ACK that triggers
  would be later by alpha min-RTTs.
* Losses and deliveries are counted afresh in each window (footnote 1), from the ACK before its first loss.
* A window with heavy loss from the first data of the transfer on cannot trigger: it has no h.
* A transfer of more than 2 GB or 35 minutes is cut in two, as the kernel counts no further.

Deviations, with reasons:

* A(t) is what was delivered, selective acknowledgements included, not the cumulative ACK. It is what has
  passed the bucket. The cumulative ACK stands still for seconds while a retransmission dies at the limit
  again and again: meanwhile the estimate is a rate near 0, or none.
* The rate may change within the convergence window, and the bucket with it: both are of the line between
  two candidates, which moves a little with every ACK. In the paper the best candidate has to stay the same
  one. As time goes by larger ones become the best, although the limit stays. It may change by a tolerance,
  and by two packets over the window: where an RTT holds less than one, ACKs a packet early or late are more
  than that.
* At the end of the window deliveries must be at the line, no further below it than the candidate sizes are
  from each other, and must have grown at its rate since the window began, within a tenth. "A(t) should
  converge to C(t)", but an estimate also stays the same while a flow falls behind it, for other reasons.
  Until they are, the window lasts: a flow that waits for a timeout of 20 min-RTTs is behind meanwhile, and
  at the line again when it has used up what the bucket gained. Eight packets at least are delivered in it;
  96, where transfers follow each other: their estimate has more chances to be right for a while.
* The window lasts until something is lost in it: a flow that loses nothing may not have reached the limit,
  and its estimate is too low then.
"""

from __future__ import annotations

from typing import NamedTuple

from ccp_algs.rtcp.candidates import Candidates
from ccp_algs.rtcp.exact import MOST, MOST_BYTES_PER_S, PPM, UBYTES, US_PER_S, brings, bytes_of, share, since
from ccp_algs.rtcp.options import Options

LEAST_US = 1000
"""ACKs that come sooner after the start of a transfer make no rate [us]."""
STEADY_PKTS = 8
"""Fewer delivered in a convergence window make no verdict [packets]."""
CARRIED_PKTS = 96
"""Nor so many, if the estimate is that of several transfers [packets]."""
NEAR_PKTS = 2
"""ACKs are so many early or late [packets]."""


class Progress(NamedTuple):
    """What a flow has got to; counters never fall.

    Attributes:
        time_us: When, on any clock that does not go back [us].
        delivered_pkts: Acknowledged, cumulatively or selectively [packets].
        lost_pkts: Marked lost, each time a packet is [packets].
        min_rtt_us: Least RTT, less than 2^32 [us].
    """

    time_us: int
    delivered_pkts: int
    lost_pkts: int
    min_rtt_us: int

    def longer_than(self, since_us: int, min_rtts_ppm: int) -> bool:
        """Return whether more than so many millionths of the min-RTT have passed since then."""
        return since(self.time_us, since_us) * PPM > min_rtts_ppm * self.min_rtt_us


def same(
    rate_bytes_per_s: int, before_bytes_per_s: int, options: Options, slack_bytes_per_s: int = 0
) -> bool:
    """Return whether a rate still counts as the same, within the tolerance and some slack besides."""
    tolerance_bytes_per_s = share(before_bytes_per_s, options.exact.tolerance_ratio_ppm)
    return abs(rate_bytes_per_s - before_bytes_per_s) <= tolerance_bytes_per_s + slack_bytes_per_s


class Transfer:
    """A transfer and what became of it. None stands for what has not happened.

    Attributes:
        started_at_us: When its first data was sent [us].
        triggered_at_us: When heavy loss set the estimation off [us].
        detected_at_us: When it was found to be limited [us].
        undetected_at_us: When the limit was found to be gone in it [us].
        before_bytes_per_s: Mean throughput before the losses, R_h [bytes/s].
        estimate: The candidates; None before the trigger.
        is_carried: It is several, one after the other.
    """

    __slots__ = (
        "_before",
        "_counted",
        "_counting_since_us",
        "_mss_bytes",
        "_options",
        "_origin",
        "_steady_bytes_per_s",
        "_steady_since",
        "before_bytes_per_s",
        "detected_at_us",
        "estimate",
        "is_carried",
        "started_at_us",
        "triggered_at_us",
        "undetected_at_us",
    )

    def __init__(self, origin: Progress, options: Options, mss_bytes: int) -> None:
        """Begin at the first transmission: `origin` has the counters of then."""
        self.started_at_us = origin.time_us
        self.triggered_at_us: int | None = None
        self.detected_at_us: int | None = None
        self.undetected_at_us: int | None = None
        self.before_bytes_per_s = 0
        self.estimate: Candidates | None = None
        self.is_carried = False
        self._options = options
        self._mss_bytes = mss_bytes
        self._origin = origin
        self._counted = origin
        self._before = origin
        self._counting_since_us: int | None = None
        self._steady_bytes_per_s: int | None = None
        self._steady_since = origin

    def is_too_long(self, now: Progress) -> bool:
        """Return whether it would be longer, or of more bytes, than can be counted."""
        delivered_bytes = since(now.delivered_pkts, self._origin.delivered_pkts) * self._mss_bytes
        return since(now.time_us, self.started_at_us) > MOST or delivered_bytes > MOST

    def ack(self, now: Progress) -> None:
        """Take an ACK in."""
        if self.estimate is None:
            self._count_losses(now)
        t_us = since(now.time_us, self.started_at_us)
        if self.estimate is None or t_us < LEAST_US:
            return
        self.estimate.update(self._delivered_bytes(now), t_us)
        if self.detected_at_us is None:
            self._classify(self.estimate, now)

    def gap_ubytes(self, now: Progress) -> int:
        """Return how much more could have been delivered by the estimate [ubytes].

        Source: equation 18, what is left in the bucket.
        """
        assert self.estimate is not None
        bucket_bytes, rate_bytes_per_s = self.estimate.line
        through_ubytes = bucket_bytes * UBYTES + brings(
            rate_bytes_per_s, since(now.time_us, self.started_at_us)
        )
        return max(0, through_ubytes - self._delivered_bytes(now) * UBYTES)

    def _delivered_bytes(self, now: Progress) -> int:
        return bytes_of(since(now.delivered_pkts, self._origin.delivered_pkts), self._mss_bytes)

    def _count_losses(self, now: Progress) -> None:
        counted = self._counted
        if self._counting_since_us is None:
            if now.lost_pkts <= counted.lost_pkts:
                self._counted = now
                return
            self._counting_since_us = now.time_us
            self._before = counted
        options = self._options.exact
        lost_pkts = since(now.lost_pkts, counted.lost_pkts)
        delivered_pkts = since(now.delivered_pkts, counted.delivered_pkts)
        heavy = lost_pkts * PPM > options.loss_ratio_ppm * (delivered_pkts + lost_pkts)
        if not heavy:
            self._before = now
        if now.longer_than(self._counting_since_us, options.loss_window_min_rtts_ppm):
            if heavy:
                self._trigger(now)
            self._counting_since_us = None
            self._counted = now

    def _trigger(self, now: Progress) -> None:
        before = self._before
        delivered_bytes = self._delivered_bytes(before)
        t_us = since(before.time_us, self.started_at_us)
        if delivered_bytes > 0 and t_us >= LEAST_US:
            self.triggered_at_us = now.time_us
            self.before_bytes_per_s = min(delivered_bytes * US_PER_S // t_us, MOST_BYTES_PER_S)
            self.estimate = Candidates(delivered_bytes, t_us, self._options)

    def _classify(self, estimate: Candidates, now: Progress) -> None:
        rate_bytes_per_s, begin = estimate.line.rate_bytes_per_s, self._steady_since
        if rate_bytes_per_s >= share(self.before_bytes_per_s, self._options.exact.reduction_ratio_ppm):
            self._steady_bytes_per_s = None
        elif not self._is_steady(rate_bytes_per_s, now):
            self._watch(estimate, now)
        elif (
            now.lost_pkts > begin.lost_pkts
            and now.longer_than(begin.time_us, self._options.exact.convergence_min_rtts_ppm)
            and since(now.delivered_pkts, begin.delivered_pkts) >= self._least_pkts
        ):
            gap_ubytes = self.gap_ubytes(now)
            most_ubytes = max(estimate.step_bytes * UBYTES, self._near_ubytes)
            if gap_ubytes <= most_ubytes and self._keeps_up(estimate, now):
                self.detected_at_us = now.time_us
            elif gap_ubytes <= self._near_ubytes:
                self._watch(estimate, now)

    def _watch(self, estimate: Candidates, now: Progress) -> None:
        """Begin a convergence window, where deliveries are at the line."""
        is_at_line = self.gap_ubytes(now) <= self._near_ubytes
        self._steady_bytes_per_s = estimate.line.rate_bytes_per_s if is_at_line else None
        self._steady_since = now

    def _is_steady(self, rate_bytes_per_s: int, now: Progress) -> bool:
        """Return whether the rate is still that of the window: each end may be a packet early or late."""
        before_bytes_per_s = self._steady_bytes_per_s
        if before_bytes_per_s is None:
            return False
        window_us = since(now.time_us, self._steady_since.time_us)
        slack_bytes_per_s = MOST_BYTES_PER_S
        if window_us:
            slack_bytes_per_s = 2 * self._mss_bytes * US_PER_S // window_us
        return same(rate_bytes_per_s, before_bytes_per_s, self._options, slack_bytes_per_s)

    def _keeps_up(self, estimate: Candidates, now: Progress) -> bool:
        """Return whether deliveries have grown at the line's rate since the window began."""
        begin = self._steady_since
        tenth_ubytes = brings(estimate.line.rate_bytes_per_s, since(now.time_us, begin.time_us)) // 10
        delivered_pkts = since(now.delivered_pkts, begin.delivered_pkts)
        delivered_ubytes = bytes_of(delivered_pkts, self._mss_bytes) * UBYTES
        return tenth_ubytes * 9 < delivered_ubytes <= tenth_ubytes * 11 + self._near_ubytes

    @property
    def _least_pkts(self) -> int:
        return CARRIED_PKTS if self.is_carried else STEADY_PKTS

    @property
    def _near_ubytes(self) -> int:
        return NEAR_PKTS * self._mss_bytes * UBYTES
