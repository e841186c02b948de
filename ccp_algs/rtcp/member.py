"""Whether a connection shares the bucket of its client's others, or is another subscriber's.

Subscribers behind one address, with ports at random, cannot be told apart by their ends. But an empty
bucket drops from whoever sends: where one connection loses much and the others, which should have lost as
great a share, nearly nothing, they do not share one.

A round lasts 2 min-RTTs, one that says nothing up to 8. The connection is one side, all others of its client
the other. If one lost at least 3 packets and a twentieth, the other should have lost that share, as far as
it sent; fewer than 4 packets do not count, nor do more than 16. What it should have lost adds to the doubt,
and what it lost takes 4 times off; 48 packets are enough. That is a cumulative sum test (Page, "Continuous
Inspection Schemes", Biometrika 1954) of losses as often as the others' against an eighth of that, for
Poisson counts, with a bound as losses come in clumps.

A round that took longer than 14 min-RTTs speaks only against doubt: a loss that shows in a timeout is of long
ago.
"""

from __future__ import annotations

from typing import Final

from ccp_algs.rtcp.exact import MOST, since
from ccp_algs.rtcp.transfer import Progress

ROUND_MIN_RTTS: Final = 2
LONG_ROUNDS: Final = 4
STALE_ROUNDS: Final = 7
LOSSY_PKTS: Final = 3
LOSSY_PART: Final = 20
DUE_PKTS: Final = 4
MOST_DUE_PKTS: Final = 16
LOST_WEIGHT: Final = 4
APART_PKTS: Final = 48
_MOST: Final = 2**31


class Member:
    """A connection, beside the others of its client: `struct rtcp_member` of native/ccp-rtcp.

    Attributes:
        start_us: When its transfer began [us].
        delivered_bytes: Since then.
        lost_bytes: The same.
        calm_us: When the last ACK came before it lost anything [us].
        calm_bytes: What was delivered then.
        doubt_pkts: What speaks against a common bucket [packets].
    """

    __slots__ = (
        "_client",
        "_own",
        "calm_bytes",
        "calm_us",
        "delivered_bytes",
        "doubt_pkts",
        "lost_bytes",
        "start_us",
    )

    def __init__(self) -> None:
        """Begin without doubt."""
        self.doubt_pkts = 0
        self._own: tuple[int, int, int] | None = None
        self._client = (0, 0)
        self.start_us = self.calm_us = 0
        self.delivered_bytes = self.lost_bytes = self.calm_bytes = 0

    def start(self, now_us: int) -> None:
        """Begin a transfer."""
        self.start_us = self.calm_us = now_us
        self.delivered_bytes = self.lost_bytes = self.calm_bytes = 0
        self._own = None

    def add(self, now_us: int, delivered_bytes: int, lost_bytes: int) -> None:
        """Take in that more was delivered and lost."""
        self.delivered_bytes += delivered_bytes
        self.lost_bytes += lost_bytes
        if not self.lost_bytes:
            self.calm_us, self.calm_bytes = now_us, self.delivered_bytes

    def is_short(self, now_us: int) -> bool:
        """Return whether a detector can be told of the transfer: a longer one it would have cut in two."""
        return since(now_us, self.start_us) <= MOST and self.delivered_bytes <= MOST

    def ack(self, mss_bytes: int, client: Progress) -> bool:
        """Take an ACK in, when it is added to its client's sums.

        Args:
            mss_bytes: What counts as a packet [bytes].
            client: The sums; the least RTT is this connection's.

        Returns:
            Whether they cannot share a bucket.
        """
        round_us = ROUND_MIN_RTTS * client.min_rtt_us
        if not mss_bytes or not round_us:
            return False
        own = (client.time_us, self.delivered_bytes // mss_bytes, self.lost_bytes // mss_bytes)
        if self._own is not None:
            past_us = since(client.time_us, self._own[0])
            if past_us < round_us:
                return False
            doubt = self._doubt(self._own, own, client, stale=past_us > STALE_ROUNDS * round_us)
            if not doubt and past_us < LONG_ROUNDS * round_us:
                return False
            self.doubt_pkts = max(0, self.doubt_pkts + doubt)
        self._own = own if client.time_us else None
        self._client = (client.delivered_pkts, client.lost_pkts)
        return self.doubt_pkts >= APART_PKTS

    def _doubt(
        self, last: tuple[int, int, int], own: tuple[int, int, int], client: Progress, *, stale: bool
    ) -> int:
        """Return what the round says against one bucket; if both sides lost much, it speaks for one."""
        own_lost_pkts = since(own[2], last[2])
        own_pkts = since(own[1], last[1]) + own_lost_pkts
        lost_pkts = since(client.lost_pkts, self._client[1])
        others_lost_pkts = since(lost_pkts, own_lost_pkts)
        others_pkts = since(since(client.delivered_pkts, self._client[0]) + lost_pkts, own_pkts)
        mine, others = (own_pkts, own_lost_pkts), (max(others_pkts, others_lost_pkts), others_lost_pkts)
        doubt, of_others = _doubt(mine, others, stale=stale), _doubt(others, mine, stale=stale)
        return of_others if doubt >= 0 and (of_others < 0 or of_others > doubt) else doubt


def _doubt(lossy: tuple[int, int], other: tuple[int, int], *, stale: bool) -> int:
    """Return what a round says against one bucket [packets], where one side (sent, lost) lost much."""
    (sent_pkts, lost_pkts), (other_pkts, other_lost_pkts) = lossy, other
    if lost_pkts < LOSSY_PKTS or min(lost_pkts, _MOST) * LOSSY_PART < sent_pkts:
        return 0
    due_pkts = min(min(other_pkts, _MOST) * min(lost_pkts, _MOST) // sent_pkts, MOST_DUE_PKTS)
    weight = min(other_lost_pkts, _MOST) * LOST_WEIGHT
    if weight <= due_pkts and (due_pkts < DUE_PKTS or stale):
        return 0
    return due_pkts - weight
