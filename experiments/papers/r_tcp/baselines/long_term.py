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

`mbbr_like` has the detection rules of SmBBR, mBBR with a memory of clients: SmBBR.c of
github.com/mclab-cuhk/mBBR (S. Zhu et al., "mBBR: Improving BBR Performance over Rate-Limited Mobile
Networks", ICNP 2023). At the end of the 48 round trips the found rate is multiplied by the share of packets
that were delivered since the first rate was found. Two such rates that differ by at most a tenth (25/256) of
the later one are a limit at the larger of them; until then sampling restarts after the first, and the later
rate is corrected again each round trip. The limit lasts. What SmBBR does then needs its own pacing, which
recorded ACKs do not have: it raises the rate by a fifth after 48 round trips without loss, takes a sixth back
at a loss, and forgets the limit after losses above a fifth in two spans of 48 round trips.
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

MBBR_SAME_RATIO: Final = 25 / 256


def bbr_lt(acks: Sequence[Ack]) -> Finding:
    """Return the finding of BBRv1's sampler: the rate that it used last; it does not estimate the bucket."""
    sampler = _Sampler()
    detected_at_us = rate_bytes_per_s = None
    for ack in acks:
        if ack.start:
            continue
        if sampler.take(ack):
            detected_at_us = detected_at_us or ack.time_us
            rate_bytes_per_s = sampler.rate_bytes_per_s
        if sampler.used_up:
            sampler.restart()
    if rate_bytes_per_s is None:
        return Finding(limited=False, why="no intervals with heavy loss and the same rate")
    return Finding(limited=True, detected_at_us=detected_at_us, rate_bytes_per_s=rate_bytes_per_s)


def mbbr_like(acks: Sequence[Ack]) -> Finding:
    """Return SmBBR's finding: a rate, but no bucket."""
    sampler = _Sampler()
    since: Ack | None = None
    earlier_bytes_per_s = None
    for ack in acks:
        if ack.start:
            continue
        if since is None and sampler.using:
            since = ack
        sampler.take(ack)
        if since is None or not sampler.used_up:
            continue
        delivered_pkts = ack.delivered_pkts - since.delivered_pkts
        sent_pkts = delivered_pkts + ack.lost_pkts - since.lost_pkts
        rate_bytes_per_s = sampler.rate_bytes_per_s * delivered_pkts / max(1, sent_pkts)
        if earlier_bytes_per_s is None:
            sampler.restart()
        elif abs(rate_bytes_per_s - earlier_bytes_per_s) <= MBBR_SAME_RATIO * rate_bytes_per_s:
            rate_bytes_per_s = max(rate_bytes_per_s, earlier_bytes_per_s)
            return Finding(limited=True, detected_at_us=ack.time_us, rate_bytes_per_s=rate_bytes_per_s)
        earlier_bytes_per_s = rate_bytes_per_s
    return Finding(limited=False, why="no two corrected rates that agree")


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
    """The sampler.

    Attributes:
        rate_bytes_per_s: Its last finding [bytes/s].
        using: Whether the finding is in use.
        used_up: Whether it has been for 48 round trips, at the first ACK of a round trip.
    """

    def __init__(self) -> None:
        self.rate_bytes_per_s = 0.0
        self._rounds = _Rounds()
        self._lost_pkts = 0
        self.restart()

    def restart(self) -> None:
        """Stop using the finding, and sample again."""
        self.using = self.used_up = False
        self._reset()

    def _reset(self) -> None:
        self._since: Ack | None = None
        self._round_trips = 0
        self._before_bytes_per_s: float | None = None

    def take(self, ack: Ack) -> bool:
        """Process an ACK, and return whether it completes a finding."""
        lost = ack.lost_pkts > self._lost_pkts
        self._lost_pkts = ack.lost_pkts
        begins = self._rounds.begins(ack)
        if self.using:
            self._round_trips += begins
            self.used_up = begins and self._round_trips >= USED_ROUNDS
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
        before, self._before_bytes_per_s = self._before_bytes_per_s, rate
        self._since, self._round_trips = ack, 0
        if before is None or abs(rate - before) > max(SAME_RATIO * before, SAME_BYTES_PER_S):
            return False
        self.rate_bytes_per_s = (rate + before) / 2
        self.using = True
        return True
