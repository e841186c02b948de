"""R-TCP's detector: is a flow limited by a token bucket, and by which one?

    detector = new_detector()
    detector.start(Progress(...))   # a transfer begins: its first data is sent, after nothing was in flight
    detector.ack(Progress(...))     # an ACK
    if detector.limited:
        ... detector.bucket_bytes, detector.rate_bytes_per_s, detector.tokens_bytes(now_us)

The detector needs no I/O and no clock, and works with any congestion control. The detector is the kernel's,
compiled for this process; native/ccp-rtcp/src/core/detector.h has rules, sources and reasons.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ccp_algs.rtcp.options import Options
from ccplane.base import native

if TYPE_CHECKING:
    from ccplane.base._native import RtcpDetector


class Progress(NamedTuple):
    """The counters of a flow; they never decrease.

    Attributes:
        time_us: Time on a monotonic clock [us].
        delivered_pkts: Packets acknowledged, cumulatively or selectively.
        lost_pkts: Packets marked lost; a packet counts each time.
        min_rtt_us: Minimum RTT, less than 2^32 [us].
    """

    time_us: int
    delivered_pkts: int
    lost_pkts: int
    min_rtt_us: int


def new_detector(options: Options | None = None, *, mss_bytes: int = 1448) -> RtcpDetector:
    """Return a new detector for one flow.

    Args:
        options: Its parameters.
        mss_bytes: Segment size, less than 2^16 [bytes].

    Raises:
        LoadError: `load.no_native_module`.
    """
    return native.RtcpDetector((options or Options()).to_bytes(), mss_bytes)
