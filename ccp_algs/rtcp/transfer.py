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

Deviations, with reasons:

* A(t) is what was delivered, selective acknowledgements included, not the cumulative ACK. It is what has
  passed the bucket. The cumulative ACK stands still for seconds while a retransmission dies at the limit
  again and again: meanwhile the estimate is a rate near 0, or none.
* The rate may rise by a tolerance within the convergence window. Computed exactly it rises for ever, by less
  and less, whenever the candidate bucket is larger than the true one.
* At the end of the window what was delivered must be no further below the estimate than the candidate sizes
  are from each other, and must have grown. "A(t) should converge to C(t)", but an estimate also stays the
  same while a flow falls behind it, for other reasons. If it is not, a new window begins.
"""

from __future__ import annotations

from typing import NamedTuple

from ccp_algs.rtcp.candidates import US_PER_S, Candidates
from ccp_algs.rtcp.options import Options

LEAST_US = 1000
"""ACKs that come sooner after the start of a transfer make no rate [us]."""


class Progress(NamedTuple):
    """What a flow has got to; counters never fall.

    Attributes:
        time_us: When, on any clock that does not go back [us].
        delivered_pkts: Acknowledged, cumulatively or selectively [packets].
        lost_pkts: Marked lost, each time a packet is [packets].
        min_rtt_us: Least RTT [us].
    """

    time_us: int
    delivered_pkts: int
    lost_pkts: int
    min_rtt_us: int


class Transfer:
    """A transfer and what became of it. None stands for what has not happened.

    Attributes:
        started_at_us: When its first data was sent [us].
        triggered_at_us: When heavy loss set the estimation off [us].
        detected_at_us: When it was found to be limited [us].
        undetected_at_us: When the limit was found to be gone in it [us].
        before_bytes_per_s: Mean throughput before the losses, R_h [bytes/s].
        estimate: The candidates; None before the trigger.
    """

    __slots__ = (
        "_before",
        "_counted",
        "_counting_since_us",
        "_mss_bytes",
        "_options",
        "_origin",
        "_steady",
        "before_bytes_per_s",
        "detected_at_us",
        "estimate",
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
        self.before_bytes_per_s = 0.0
        self.estimate: Candidates | None = None
        self._options = options
        self._mss_bytes = mss_bytes
        self._origin = origin
        self._counted = origin
        self._before = origin
        self._counting_since_us: int | None = None
        self._steady: _Steady | None = None

    def ack(self, now: Progress) -> None:
        """Take an ACK in."""
        if self.estimate is None:
            self._count_losses(now)
        t_us = now.time_us - self.started_at_us
        if self.estimate is None or t_us < LEAST_US:
            return
        self.estimate.update(self._delivered_bytes(now), t_us)
        if self.detected_at_us is None:
            self._classify(self.estimate, now)

    def gap_bytes(self, now: Progress) -> float:
        """Return how much more could have been delivered by the estimate: what is left in the bucket.

        Source: equation 18.
        """
        assert self.estimate is not None
        t_s = (now.time_us - self.started_at_us) / US_PER_S
        through_bytes = self.estimate.bucket_bytes + self.estimate.rate_bytes_per_s * t_s
        return through_bytes - self._delivered_bytes(now)

    def _delivered_bytes(self, now: Progress) -> int:
        return (now.delivered_pkts - self._origin.delivered_pkts) * self._mss_bytes

    def _count_losses(self, now: Progress) -> None:
        counted = self._counted
        if self._counting_since_us is None:
            if now.lost_pkts <= counted.lost_pkts:
                self._counted = now
                return
            self._counting_since_us = now.time_us
            self._before = counted
        lost_pkts = now.lost_pkts - counted.lost_pkts
        delivered_pkts = now.delivered_pkts - counted.delivered_pkts
        heavy = lost_pkts > self._options.loss_ratio * (delivered_pkts + lost_pkts)
        if not heavy:
            self._before = now
        if now.time_us > self._counting_since_us + self._options.loss_window_min_rtts * now.min_rtt_us:
            if heavy:
                self._trigger(now)
            self._counting_since_us = None
            self._counted = now

    def _trigger(self, now: Progress) -> None:
        before = self._before
        delivered_bytes = self._delivered_bytes(before)
        t_us = before.time_us - self.started_at_us
        if delivered_bytes > 0 and t_us >= LEAST_US:
            self.triggered_at_us = now.time_us
            self.before_bytes_per_s = delivered_bytes * US_PER_S / t_us
            self.estimate = Candidates(delivered_bytes, t_us, self._options)

    def _classify(self, estimate: Candidates, now: Progress) -> None:
        options, steady = self._options, self._steady
        if not estimate.rate_bytes_per_s < options.reduction_ratio * self.before_bytes_per_s:
            self._steady = None
        elif steady is None or not steady.has(estimate, options.tolerance_ratio):
            self._steady = _Steady(now, estimate.bucket_bytes, estimate.rate_bytes_per_s)
        elif now.time_us - steady.since.time_us > options.convergence_min_rtts * now.min_rtt_us:
            advanced = now.delivered_pkts > steady.since.delivered_pkts
            if advanced and self.gap_bytes(now) <= estimate.step_bytes:
                self.detected_at_us = now.time_us
            else:
                self._steady = steady._replace(since=now)


class _Steady(NamedTuple):
    """An estimate since when it holds."""

    since: Progress
    bucket_bytes: float
    rate_bytes_per_s: float

    def has(self, estimate: Candidates, tolerance_ratio: float) -> bool:
        """Return whether the estimate is still this one. Its rate never falls while the bucket stays."""
        return (
            estimate.bucket_bytes == self.bucket_bytes
            and estimate.rate_bytes_per_s <= self.rate_bytes_per_s * (1 + tolerance_ratio)
        )
