"""Circuit breakers of RTP: whether a sender of media would have to stop, by the reports of its receiver.

Source: RFC 8083, section 4. Its fourth breaker, media usability, is a matter of the application.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from experiments.traffic.running import Media, MediaReport

Cause = Literal["rtcp_timeout", "media_timeout", "congestion"]

TD_S: Final = 5.0
"""Deterministic interval of reports, with its usual minimum (RFC 3550, section 6.2) [s]."""
RTCP_INTERVALS: Final = 3
"""Number of such intervals without a report that trips the breaker (section 4.1)."""
NON_REPORTING: Final = 5
"""`k` of section 4.2."""
TCP_MULTIPLE: Final = 10.0
"""Multiple of the throughput of TCP that trips the breaker (section 4.3)."""
LONGEST_S: Final = 15.0
"""Maximum time over which congestion is judged (section 4.3) [s]."""


@dataclass(frozen=True)
class Trip:
    """The sender would have stopped.

    Attributes:
        after_s: Time since the start of the media [s].
        cause: The breaker.
    """

    after_s: float
    cause: Cause


def tripped(media: Media, start_us: int) -> Trip | None:
    """Return the first trip of a breaker; None if none trips. The media continues after it in our runs.

    Args:
        media: The packets and reports of a flow.
        start_us: Start of the media [us].
    """
    if not media.packets:
        return None
    end_us = media.packets[-1].sent_us
    pkts_per_s = len(media.packets) / max(1e-6, (end_us - start_us) / 1e6)
    reports = [report for report in media.reports if report.arrived_us <= end_us]
    before_us = start_us
    unchanged = 0
    for n, report in enumerate(reports):
        if (late_us := _rtcp_timeout_us(before_us)) < report.arrived_us:
            return Trip((late_us - start_us) / 1e6, "rtcp_timeout")
        before_us = report.arrived_us
        unchanged = unchanged + 1 if n and report.highest == reports[n - 1].highest else 0
        rtt_s = _rtt_s(reports[: n + 1])
        now_s = (report.arrived_us - start_us) / 1e6
        if unchanged >= media_timeout_reports(media.frame_s, rtt_s, media.report_s):
            return Trip(now_s, "media_timeout")
        count = congestion_reports(media.frame_s, rtt_s, media.report_s)
        recent = reports[n + 1 - count : n + 1] if n + 1 >= count else []
        lost = sum(one.fraction_lost for one in recent) / len(recent) if recent else 0.0
        if lost > 0 and pkts_per_s > TCP_MULTIPLE * tcp_pkts_per_s(_rtt_s(recent), lost):
            return Trip(now_s, "congestion")
    late_us = _rtcp_timeout_us(before_us)
    return Trip((late_us - start_us) / 1e6, "rtcp_timeout") if late_us <= end_us else None


def media_timeout_reports(frame_s: float, rtt_s: float, report_s: float) -> int:
    """Return the number of successive reports without progress that trips the breaker (section 4.2).

    Args:
        frame_s: Time between frames (`Tf`) [s].
        rtt_s: RTT (`Tr`) [s].
        report_s: Interval of the receiver's reports (`Tdr`) [s].
    """
    return math.ceil(NON_REPORTING * max(frame_s, rtt_s, report_s) / report_s)


def congestion_reports(frame_s: float, rtt_s: float, report_s: float) -> int:
    """Return the number of reports over which congestion is judged (`CB_INTERVAL`, section 4.3).

    Arguments as in `media_timeout_reports`; each frame can be adapted (`G` is 1).
    """
    adapting_s = max(10 * frame_s, 10 * rtt_s, 3 * report_s)
    return math.ceil(3 * min(adapting_s, max(LONGEST_S, 3 * TD_S)) / (3 * report_s))


def tcp_pkts_per_s(rtt_s: float, lost_ratio: float) -> float:
    """Return the throughput of TCP, by the simplified equation of section 4.3; infinite without an RTT.

    Args:
        rtt_s: RTT [s]; 0 if unknown.
        lost_ratio: Share of lost packets.
    """
    return math.inf if rtt_s <= 0 else 1 / (rtt_s * math.sqrt(2 * lost_ratio / 3))


def _rtcp_timeout_us(before_us: int) -> int:
    return before_us + round(RTCP_INTERVALS * TD_S * 1e6)


def _rtt_s(reports: Sequence[MediaReport]) -> float:
    """Return the last known RTT [s]; 0 without one."""
    known = [report.rtt_us for report in reports if report.rtt_us is not None]
    return known[-1] / 1e6 if known else 0.0
