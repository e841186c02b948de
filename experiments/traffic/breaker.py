"""Circuit breakers of RTP: whether a sender of media would have to stop, by the reports of its receiver.

Source: RFC 8083, section 4. Its fourth breaker, media usability, is a matter of the application. The rate of
sending is compared with the simplified throughput equation of TCP that section 4.3 recommends (Mathis et al.
1997), X = s / (Tr sqrt(2 b p / 3)) with b = 1, not with the full one (Padhye et al. 1998).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal

from experiments.traffic.running import Media, MediaReport

Cause = Literal["rtcp_timeout", "media_timeout", "congestion"]

TMIN_S: Final = 5.0
"""Minimum of the deterministic interval of reports, `Tmin` (section 4.1) [s]."""
RTCP_INTERVALS: Final = 3
"""Number of such intervals without a report that trips the breaker (section 4.1)."""
NON_REPORTING: Final = 5
"""`k` of section 4.2."""
TCP_MULTIPLE: Final = 10.0
"""Multiple of the throughput of TCP that trips the breaker (section 4.3)."""
LONGEST_S: Final = 15.0
"""Time over which congestion is judged at most, unless three intervals are longer (section 4.3) [s]."""
NEWEST: Final = 0.2
"""Weight of the newest RTT in its average (section 3)."""


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
    session = _Session(media, start_us)
    for report in media.reports:
        if session.timeout_us < report.arrived_us or report.arrived_us > end_us:
            break
        if cause := session.receive(report):
            return Trip((report.arrived_us - start_us) / 1e6, cause)
    if session.timeout_us > end_us:
        return None
    return Trip((session.timeout_us - start_us) / 1e6, "rtcp_timeout")


class _Session:
    """What the sender of media knows from its receiver's reports."""

    def __init__(self, media: Media, start_us: int) -> None:
        self._media = media
        elapsed_s = max(1e-6, (media.packets[-1].sent_us - start_us) / 1e6)
        self._pkts_per_s = len(media.packets) / elapsed_s
        self._before_us = start_us
        self._rtt_s = 0.0
        self._highest: int | None = None
        self._unchanged = 0
        self._losses: list[tuple[float, float]] = []
        """Share of lost packets, and time [s], of each interval between reports."""
        self._media_timeout = self._new_media_timeout()
        self._intervals = congestion_intervals(media.frame_s, 0.0, media.report_s)

    @property
    def timeout_us(self) -> int:
        """When the sender stops, unless a report arrives before [us]."""
        return self._before_us + round(RTCP_INTERVALS * _td_s(self._media.report_s) * 1e6)

    def receive(self, report: MediaReport) -> Cause | None:
        """Take a report into account; return the breaker that it trips."""
        if self._highest is not None:
            self._losses.append((report.fraction_lost, (report.arrived_us - self._before_us) / 1e6))
        self._before_us = report.arrived_us
        if report.rtt_us is not None:
            newest_s = report.rtt_us / 1e6
            self._rtt_s += (newest_s - self._rtt_s) * (NEWEST if self._rtt_s else 1.0)
        if self._highest is not None and report.highest <= self._highest:
            self._unchanged += 1
            self._media_timeout = max(self._media_timeout, self._new_media_timeout())
        else:
            self._highest = report.highest
            self._unchanged = 0
            self._media_timeout = self._new_media_timeout()
        if self._unchanged >= self._media_timeout:
            return "media_timeout"
        if self._is_congested():
            return "congestion"
        # The RFC computes it anew after the checks.
        self._intervals = congestion_intervals(self._media.frame_s, self._rtt_s, self._media.report_s)
        return None

    def _new_media_timeout(self) -> int:
        return media_timeout_reports(self._media.frame_s, self._rtt_s, self._media.report_s)

    def _is_congested(self) -> bool:
        """Return whether the media is more than ten times as fast as TCP would be.

        Packets of media have equal sizes, so rates in packets per second have the ratio of those in bytes.
        The minimum rate of section 4.3, a packet per RTT, needs no check: slower media is never so fast.
        """
        recent = self._losses[-self._intervals :]
        if len(recent) < self._intervals:
            return False
        total_s = sum(seconds for _, seconds in recent)
        lost = sum(share * seconds for share, seconds in recent) / total_s if total_s else 0.0
        return lost > 0 and self._pkts_per_s > TCP_MULTIPLE * tcp_pkts_per_s(self._rtt_s, lost)


def media_timeout_reports(frame_s: float, rtt_s: float, report_s: float) -> int:
    """Return the number of successive reports without progress that trips the breaker (section 4.2).

    Args:
        frame_s: Time between frames (`Tf`) [s].
        rtt_s: RTT (`Tr`) [s].
        report_s: Interval of the receiver's reports (`Tdr`) [s].
    """
    return math.ceil(NON_REPORTING * max(frame_s, rtt_s, report_s) / report_s)


def congestion_intervals(frame_s: float, rtt_s: float, report_s: float) -> int:
    """Return the number of intervals between reports over which congestion is judged.

    Source: `CB_INTERVAL` of section 4.3. Arguments as in `media_timeout_reports`; each frame can be adapted
    (`G` is 1).
    """
    adapting_s = max(10 * frame_s, 10 * rtt_s, 3 * report_s)
    longest_s = max(LONGEST_S, 3 * _td_s(report_s))
    return math.ceil(3 * min(adapting_s, longest_s) / (3 * report_s))


def tcp_pkts_per_s(rtt_s: float, lost_ratio: float) -> float:
    """Return the throughput of TCP in packets; infinite without an RTT.

    Source: the simplified equation of section 4.3, X / s = 1 / (Tr sqrt(2 b p / 3)) with b = 1.

    Args:
        rtt_s: RTT (`Tr`) [s]; 0 if unknown.
        lost_ratio: Share of lost packets, which stands for the loss event rate (`p`).
    """
    return math.inf if rtt_s <= 0 else 1 / (rtt_s * math.sqrt(2 * lost_ratio / 3))


def _td_s(report_s: float) -> float:
    """Return the deterministic interval of reports with its minimum (`Td`, section 4.1) [s]."""
    return max(TMIN_S, report_s)
