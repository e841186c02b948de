"""BBRv1's long-term bandwidth sampler: intervals with heavy loss and the same rate indicate a policer.

Sampling begins at the first loss. An interval ends with a loss, after 4 to 16 round trips, when the packets
lost are at least 50/256 of those delivered; its rate is the delivered data over its time. Two successive
intervals whose rates differ by at most an eighth or 4 kbit/s indicate a policer at their mean, for 48 round
trips. Then sampling restarts, as it does whenever the application has no more data.

Source: the constants and rules of `tcp_bbr` in Linux (4.9 on; N. Cardwell, Y. Cheng, S. H. Yeganeh, V.
Jacobson), and the talk "BBR Congestion Control", IETF 97, 2016. Differences:

* The sampler gets recorded ACKs, so the connection did not pace at the found rate, unless it used BBRv1.
* The 48 round trips count from the detection. BBRv1 counts only round trips in its state PROBE_BW.
* Times are those of the recorded ACKs; the clock of BBRv1 counts milliseconds.
* Without `prior_delivered_pkts`, a round trip lasts a smoothed RTT.

`mbbr_like` is not mBBR (S. Zhu et al., "mBBR: Improving BBR Performance over Rate-Limited Mobile Networks",
ICNP 2023), whose program was not used. According to the R-TCP paper, mBBR works online in a modified BBR,
per connection, does not account for tokens that accumulate in idle times, needs more data than R-TCP,
estimates rates better than BBRv1, and keeps its rate, raised by 20 % every 48 round trips without loss. The
stand-in is the sampler above, with five intervals that have to agree, and with a limit that never ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from experiments.papers.r_tcp.baselines.acks import MSS_BYTES, US_PER_S, Ack, Finding

MIN_ROUNDS: Final = 4
MAX_ROUNDS: Final = 16
HEAVY: Final = 50 / 256
"""Minimum ratio of lost to delivered packets in an interval."""
SAME_RATIO: Final = 1 / 8
SAME_BYTES_PER_S: Final = 500.0
USED_ROUNDS: Final = 48
MIN_US: Final = 1_000
"""Minimum length of an interval [us]."""

MBBR_INTERVALS: Final = 5
"""Our choice."""


def bbr_lt(acks: Sequence[Ack]) -> Finding:
    """Return the finding of BBRv1's sampler: the rate that it used last; it does not estimate the bucket."""
    return _sampled(acks, intervals=2, used_rounds=USED_ROUNDS)


def mbbr_like(acks: Sequence[Ack]) -> Finding:
    """Return the finding of the stand-in for mBBR: a rate, but no bucket."""
    return _sampled(acks, intervals=MBBR_INTERVALS, used_rounds=None)


def _sampled(acks: Sequence[Ack], intervals: int, used_rounds: int | None) -> Finding:
    sampler = _Sampler(intervals, used_rounds)
    detected_at_us = rate_bytes_per_s = None
    for ack in acks:
        if not ack.start and sampler.take(ack):
            detected_at_us = detected_at_us or ack.time_us
            rate_bytes_per_s = sampler.rate_bytes_per_s
    if rate_bytes_per_s is None:
        return Finding(limited=False, why="no intervals with heavy loss and the same rate")
    return Finding(limited=True, detected_at_us=detected_at_us, rate_bytes_per_s=rate_bytes_per_s)


class _Rounds:
    """Detects the beginnings of round trips."""

    def __init__(self) -> None:
        self._next_delivered_pkts = 0
        self._next_us = 0

    def begins(self, ack: Ack) -> bool:
        if ack.prior_delivered_pkts:
            begins = ack.prior_delivered_pkts >= self._next_delivered_pkts
        else:
            begins = ack.time_us >= self._next_us
        if begins:
            self._next_delivered_pkts = ack.delivered_pkts
            self._next_us = ack.time_us + ack.srtt_us
        return begins


class _Sampler:
    """The sampler; `rate_bytes_per_s` is its last finding."""

    def __init__(self, intervals: int, used_rounds: int | None) -> None:
        self.rate_bytes_per_s = 0.0
        self._needed = intervals
        self._used_rounds = used_rounds
        self._rounds = _Rounds()
        self._lost_pkts = 0
        self._using = False
        self._reset()

    def _reset(self) -> None:
        self._since: Ack | None = None
        self._round_trips = 0
        self._rates: list[float] = []

    def take(self, ack: Ack) -> bool:
        """Process an ACK, and return whether it completes a finding."""
        lost = ack.lost_pkts > self._lost_pkts
        self._lost_pkts = ack.lost_pkts
        begins = self._rounds.begins(ack)
        if self._using:
            self._round_trips += begins
            if self._used_rounds is not None and self._round_trips >= self._used_rounds:
                self._using = False
                self._reset()
            return False
        if self._since is None:
            if not lost:
                return False
            self._since, self._round_trips = ack, 0
        if ack.app_limited:
            self._reset()
            return False
        self._round_trips += begins
        if self._round_trips > MAX_ROUNDS:
            self._reset()
            return False
        return lost and self._round_trips >= MIN_ROUNDS and self._interval(self._since, ack)

    def _interval(self, since: Ack, ack: Ack) -> bool:
        delivered_pkts = ack.delivered_pkts - since.delivered_pkts
        lost_pkts = ack.lost_pkts - since.lost_pkts
        time_us = ack.time_us - since.time_us
        if not delivered_pkts or lost_pkts < HEAVY * delivered_pkts or time_us < MIN_US:
            return False
        rate = delivered_pkts * MSS_BYTES * US_PER_S / time_us
        before = self._rates[-1] if self._rates else 0.0
        apart = abs(rate - before)
        same = bool(self._rates) and (apart <= SAME_RATIO * before or apart <= SAME_BYTES_PER_S)
        self._rates = [*self._rates, rate] if same else [rate]
        self._since, self._round_trips = ack, 0
        if len(self._rates) < self._needed:
            return False
        self.rate_bytes_per_s = sum(self._rates) / len(self._rates)
        self._using = True
        return True
