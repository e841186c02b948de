"""What the baselines are given, and what they answer."""

from __future__ import annotations

from typing import Final, NamedTuple

MSS_BYTES: Final = 1448
US_PER_S: Final = 1e6


class Ack(NamedTuple):
    """A row of a recorded connection; counters never fall.

    Attributes:
        start: Whether this is no ACK, but the first transmission of a transfer, nothing being in flight.
        time_us: When [us].
        delivered_pkts: Acknowledged, cumulatively or selectively [packets].
        lost_pkts: Marked lost, each time a packet is [packets].
        min_rtt_us: Least RTT [us].
        srtt_us: Smoothed RTT [us].
        app_limited: Whether the ACK is of a packet that was sent when the application had no more.
        prior_delivered_pkts: `delivered_pkts` when the latest packet of this ACK was sent [packets].
    """

    start: bool
    time_us: int
    delivered_pkts: int
    lost_pkts: int
    min_rtt_us: int
    srtt_us: int
    app_limited: bool
    prior_delivered_pkts: int


class Finding(NamedTuple):
    """What a baseline found.

    Attributes:
        limited: Whether it takes the connection for limited, at the end or at some time.
        detected_at_us: Since when [us]; None: not, or it judges afterwards.
        bucket_bytes: Size of the bucket [bytes]; None: not limited, or it knows none.
        rate_bytes_per_s: Rate limit [bytes/s]; None: not limited.
        why: What ruled a limit out; empty if nothing did.
    """

    limited: bool
    detected_at_us: int | None = None
    bucket_bytes: float | None = None
    rate_bytes_per_s: float | None = None
    why: str = ""
