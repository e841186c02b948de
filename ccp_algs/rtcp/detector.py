"""R-TCP's detector: is a flow limited by a token bucket, and by which?

It needs no I/O and no clock, any congestion control will do, and it remembers a handful of candidates, but no
ACKs.

    detector = Detector()
    detector.start(Progress(...))   # a transfer begins: its first data is sent, after nothing was in flight
    detector.ack(Progress(...))     # an ACK
    if detector.limited:
        ... detector.bucket_bytes, detector.rate_bytes_per_s, detector.tokens_bytes(now_us)

Each transfer is judged for itself, because tokens gather while a flow idles; one whose losses have set the
estimation off, together with those that follow before the bucket can be full again. What is found holds for
the flow: the largest bucket of all limited transfers, the rate of the latest. It ends for good when data gets
through too fast for it.

Source: S. Zhu et al., "R-TCP: A Framework to Optimize TCP Performance Over Rate-Limiting Networks", NSDI
2026, sections 4 and 5.3. Where the paper leaves a choice:

* Only an estimate that its own transfer has confirmed counts for the flow. Those of a later transfer's first
  moments are far too high, and would end every limit at the next burst.
* A transmission with nothing in flight begins a transfer, unless packets were marked lost since the last
  ACK: then it is a retransmission at the tail of the same one.

Deviations, with reasons:

* A transfer that begins while an estimate waits for its verdict does not reset it (section 4.4 does),
  unless the bucket would be full again by that estimate, at twice its rate. Until then what went through,
  idle times included, is at most B + R t. So several short transfers are judged together, of which none
  lasts long enough.
* B is also what went through since a series of transfers began, each less than a second after the other, but
  for what came in meanwhile. The transfer that is judged found the bucket nearly empty: its own estimate is
  what those before had left in it, and would have each later one capped from its start.
* The rate falls only when packets are lost while nearly that rate is sent, 0.9 of it over 10 min-RTTs. A flow
  that sends less than it may, or that is kept a little below the limit, shows nothing of a lower one. Its
  estimate would fall, the bound with it, and the estimate again. A loss lowers it by the tolerance at most.
* The end of a limit is found in two ways. The paper's: the estimated rate is no abrupt reduction any more. It
  is a mean since the transfer began, so it needs the longer, the longer the limit has been. Ours adds: more
  was delivered since than another bucket could have let through, one of the estimated size, refilled
  at theta R_h, the highest rate that would still be an abrupt reduction, or at twice the estimated rate. In
  a transfer not found limited itself it is five times the size: the estimate is what was in the bucket when
  another one began, which may have been little.
"""

from __future__ import annotations

from ccp_algs.rtcp.candidates import Limit
from ccp_algs.rtcp.exact import MOST, MOST_BYTES_PER_S, PPM, UBYTES, brings, bytes_of, share, since
from ccp_algs.rtcp.options import Options
from ccp_algs.rtcp.tokens import Tokens
from ccp_algs.rtcp.transfer import Progress, Transfer, same

SERIES_US = 1_000_000
"""Transfers that follow so soon have had the tokens of one bucket together [us]."""


class Detector:
    """The detector of one flow, or of all flows to a client taken together.

    Attributes:
        options: Its parameters.
        mss_bytes: Segment size [bytes].
        transfer: The latest transfer; None before the first.
        detected_at_us: When a limit was found [us]; None: never yet.
        undetected_at_us: When it was found to be gone, or never to have been [us]; None: not yet.
        bucket_bytes: Estimated bucket size [bytes]; 0 before a limit is found, the last one after it is gone.
        rate_bytes_per_s: Estimated rate limit [bytes/s]; the same.
        changes: How often the rate has become another, by more than the tolerance, or a limit has ended.
    """

    __slots__ = (
        "_earlier_bucket_bytes",
        "_highest_bytes_per_s",
        "_last",
        "_offered",
        "_series",
        "_tokens",
        "_told_bytes_per_s",
        "_witness",
        "bucket_bytes",
        "changes",
        "detected_at_us",
        "mss_bytes",
        "options",
        "rate_bytes_per_s",
        "transfer",
        "undetected_at_us",
    )

    def __init__(self, options: Options | None = None, *, mss_bytes: int = 1448) -> None:
        """Start without knowledge."""
        self.options = options or Options()
        self.mss_bytes = mss_bytes
        self.transfer: Transfer | None = None
        self.detected_at_us: int | None = None
        self.undetected_at_us: int | None = None
        self.bucket_bytes = 0
        self.rate_bytes_per_s = 0
        self.changes = 0
        self._told_bytes_per_s = 0
        self._highest_bytes_per_s = 0
        self._earlier_bucket_bytes = 0
        self._tokens = Tokens(0)
        self._offered = Tokens(0)
        self._witness = Tokens(0)
        self._last: Progress | None = None
        self._series: Progress | None = None

    @property
    def limited(self) -> bool:
        """Whether the flow is limited, as far as is known."""
        return self.detected_at_us is not None and self.undetected_at_us is None

    @property
    def is_undecided(self) -> bool:
        """Whether the estimation has begun, and has found nothing yet."""
        estimates = self.transfer is not None and self.transfer.estimate is not None
        return estimates and self.detected_at_us is None

    def tokens_bytes(self, now_us: int) -> int:
        """Return the estimated level of the token bucket [bytes]; 0 without a limit."""
        if not self.limited:
            return 0
        assert self._last is not None
        past_us = since(now_us, self._last.time_us)
        return self._tokens.level_after(past_us, self.bucket_bytes, self.rate_bytes_per_s) // UBYTES

    def start(self, now: Progress) -> None:
        """Begin a transfer: data is sent after the application had none, with nothing in flight."""
        last = self._last
        if last is not None and now.lost_pkts > last.lost_pkts:
            return
        if last is not None and self.limited:
            self._refill(since(now.time_us, last.time_us))
        if last is None or self._begins_a_series(last, now):
            self._series = now
        if last is not None and self._goes_on(last, now):
            assert self.transfer is not None
            self.transfer.is_carried = True
        else:
            self._begin(now)
        self._last = now

    def _begin(self, now: Progress) -> None:
        self.transfer = Transfer(now, self.options, self.mss_bytes)
        self._earlier_bucket_bytes = self.bucket_bytes
        self._witness = Tokens(self._excess_bytes(anew=True) * UBYTES)

    def _refill(self, past_us: int) -> None:
        self._tokens.refill(past_us, self.rate_bytes_per_s)
        self._offered.refill(past_us, self._offered_bytes_per_s)
        self._witness.refill(past_us, self._excess_bytes_per_s)

    def _begins_a_series(self, last: Progress, now: Progress) -> bool:
        """Return whether a transfer has tokens that those before did not have.

        It comes late, or they have been counted for too long.
        """
        begin = self._series
        assert begin is not None
        delivered_bytes = since(now.delivered_pkts, begin.delivered_pkts) * self.mss_bytes
        is_too_long = since(now.time_us, begin.time_us) > MOST or delivered_bytes > MOST
        return is_too_long or since(now.time_us, last.time_us) > SERIES_US

    def _goes_on(self, last: Progress, now: Progress) -> bool:
        """Return whether the transfer before goes on: the bucket cannot have become full meanwhile.

        That is asked of twice the rate, as the estimate may still be too low.
        """
        transfer = self.transfer
        assert transfer is not None
        if transfer.estimate is None or transfer.detected_at_us is not None or transfer.is_too_long(now):
            return False
        idle_us = since(now.time_us, last.time_us)
        gained_bytes = brings(transfer.estimate.line.rate_bytes_per_s, idle_us) // UBYTES
        known_bytes = self._known_bucket_bytes(transfer.estimate.line, last)
        return transfer.gap_ubytes(now) // UBYTES + gained_bytes < known_bytes

    def _known_bucket_bytes(self, line: Limit, last: Progress) -> int:
        """Return the bucket of a line, or what was in it when a series of transfers began, if that was more.

        That went through since then, but for what came in meanwhile.
        """
        begin = self._series
        assert begin is not None
        come_bytes = brings(line.rate_bytes_per_s, since(last.time_us, begin.time_us)) // UBYTES
        through_bytes = bytes_of(since(last.delivered_pkts, begin.delivered_pkts), self.mss_bytes)
        return max(line.bucket_bytes, through_bytes - come_bytes)

    def ack(self, now: Progress) -> None:
        """Take an ACK in. One that comes before any transfer begins one."""
        if self._last is None:
            self.start(now)
        assert self.transfer is not None
        if self.transfer.is_too_long(now):
            self._series = now
            self._begin(now)
        transfer, last = self.transfer, self._last
        assert last is not None
        self._last = now
        if self.undetected_at_us is not None:
            return
        transfer.ack(now)
        pressed = False
        if self.limited:
            pressed = self._pressed(last, now)
            self._follow(transfer, last, now)
        if transfer.detected_at_us is not None and self.undetected_at_us is None:
            self._adopt(transfer, now, pressed=pressed)

    def _pressed(self, last: Progress, now: Progress) -> bool:
        """Return whether losses come while nearly R is sent: the limit may be lower."""
        offered_bytes = sum(
            bytes_of(since(count, before), self.mss_bytes)
            for count, before in (
                (now.delivered_pkts, last.delivered_pkts),
                (now.lost_pkts, last.lost_pkts),
            )
        )
        most_bytes = brings(self.rate_bytes_per_s, 10 * now.min_rtt_us) // UBYTES
        past_us = since(now.time_us, last.time_us)
        enough = self._offered.take(past_us, offered_bytes, most_bytes, self._offered_bytes_per_s)
        return not enough and now.lost_pkts > last.lost_pkts

    def _follow(self, transfer: Transfer, last: Progress, now: Progress) -> None:
        """Follow the tokens, and look whether the limit can still be there."""
        delivered_pkts = since(now.delivered_pkts, last.delivered_pkts)
        delivered_bytes = bytes_of(delivered_pkts, self.mss_bytes)
        past_us = since(now.time_us, last.time_us)
        self._tokens.take(past_us, delivered_bytes, self.bucket_bytes, self.rate_bytes_per_s)
        most_bytes = self._excess_bytes(anew=transfer.detected_at_us is None)
        if not self._witness.take(past_us, delivered_bytes, most_bytes, self._excess_bytes_per_s):
            self._end(now)

    def _adopt(self, transfer: Transfer, now: Progress, *, pressed: bool) -> None:
        """Let the estimate of a transfer that is limited hold for the flow; a lower rate, only if pressed."""
        estimate = transfer.estimate
        assert estimate is not None
        bucket_bytes = self._known_bucket_bytes(estimate.line, now)
        rate_bytes_per_s = estimate.line.rate_bytes_per_s
        if self.detected_at_us is None or pressed or rate_bytes_per_s >= self.rate_bytes_per_s:
            # One loss is little evidence: it lowers the rate by the tolerance at most.
            least_bytes_per_s = share(self.rate_bytes_per_s, PPM - self.options.exact.tolerance_ratio_ppm)
            self.bucket_bytes = max(self._earlier_bucket_bytes, bucket_bytes)
            self.rate_bytes_per_s = max(rate_bytes_per_s, least_bytes_per_s)
        highest_bytes_per_s = share(transfer.before_bytes_per_s, self.options.exact.reduction_ratio_ppm)
        self._highest_bytes_per_s = max(self._highest_bytes_per_s, highest_bytes_per_s)
        if self.detected_at_us is None:
            self.detected_at_us = now.time_us
            self._tokens = Tokens(transfer.gap_ubytes(now))
            self._offered = Tokens(0)
            self._witness = Tokens(self._excess_bytes(anew=False) * UBYTES)
        elif self.rate_bytes_per_s > self._highest_bytes_per_s:
            self._end(now)
            return
        if not same(self.rate_bytes_per_s, self._told_bytes_per_s, self.options):
            self.changes += 1
            self._told_bytes_per_s = self.rate_bytes_per_s

    def _excess_bytes(self, *, anew: bool) -> int:
        """Return the size of the bucket whose overdraft shows that the limit is gone."""
        options = self.options.exact
        ppm = options.excess_buckets_anew_ppm if anew else options.excess_buckets_ppm
        return share(self.bucket_bytes, ppm)

    @property
    def _excess_bytes_per_s(self) -> int:
        """The rate of that bucket [bytes/s]."""
        excess_bytes_per_s = share(self.rate_bytes_per_s, self.options.exact.excess_rates_ppm)
        return min(max(self._highest_bytes_per_s, excess_bytes_per_s), MOST_BYTES_PER_S)

    @property
    def _offered_bytes_per_s(self) -> int:
        """The rate of the bucket that what is sent is taken from [bytes/s]."""
        return self.rate_bytes_per_s // 10 * 9

    def _end(self, now: Progress) -> None:
        assert self.transfer is not None
        self.changes += 1
        self.undetected_at_us = self.transfer.undetected_at_us = now.time_us
