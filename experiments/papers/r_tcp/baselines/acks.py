"""Input and output of the baselines."""

from __future__ import annotations

from typing import Final, NamedTuple

MSS_BYTES: Final = 1448
US_PER_S: Final = 1e6


class Ack(NamedTuple):
    """A row of a recorded connection; counters never decrease.

    Attributes:
        start: Whether this is the first transmission of a transfer, with nothing in flight, and not an ACK.
        time_us: Time [us].
        delivered_pkts: Acknowledged, cumulatively or selectively [packets].
        lost_pkts: Marked lost, counting each mark [packets].
        min_rtt_us: Minimum RTT [us].
        srtt_us: Smoothed RTT [us].
        app_limited: Whether the acknowledged packet was sent when the application had no more data.
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
    """Finding of a baseline.

    Attributes:
        limited: Whether the connection is limited, at the end or at any time.
        detected_at_us: Time of detection [us]; None: not limited, or an offline detector.
        bucket_bytes: Size of the bucket [bytes]; None: not limited, or unknown.
        rate_bytes_per_s: Rate limit [bytes/s]; None: not limited.
        why: Reason that ruled a limit out; else empty.
    """

    limited: bool
    detected_at_us: int | None = None
    bucket_bytes: float | None = None
    rate_bytes_per_s: float | None = None
    why: str = ""
