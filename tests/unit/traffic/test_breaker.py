"""The circuit breakers of RTP, at the numbers of RFC 8083."""

from __future__ import annotations

import math

import pytest

from experiments.traffic import Media, MediaPacket, MediaReport
from experiments.traffic.breaker import (
    Trip,
    congestion_reports,
    media_timeout_reports,
    tcp_pkts_per_s,
    tripped,
)

START_US = 7_000_000


def media(
    reports: list[tuple[float, float, int]], *, pkts_per_s: int = 250, rtt_s: float = 0.1, last_s: int = 30
) -> Media:
    """Media for some time, with reports every second: time [s], loss, highest number."""
    packets = tuple(
        MediaPacket(n, 1000, START_US + n * 1_000_000 // pkts_per_s, None)
        for n in range(last_s * pkts_per_s + 1)
    )
    made = tuple(
        MediaReport(START_US + round(at_s * 1e6), lost, highest, round(rtt_s * 1e6))
        for at_s, lost, highest in reports
    )
    return Media(packets, made, 0.04, 1.0, 150_000)


def steady(lost: float, until_s: int = 30) -> list[tuple[float, float, int]]:
    return [(at_s, lost, 250 * at_s) for at_s in range(1, until_s + 1)]


def test_media_without_loss_trips_nothing() -> None:
    assert tripped(media(steady(0.0)), START_US) is None
    assert tripped(Media((), (), 0.04, 1.0, 150_000), START_US) is None


def test_no_report_for_three_intervals_of_five_seconds() -> None:
    assert tripped(media([]), START_US) == Trip(15.0, "rtcp_timeout")
    assert tripped(media([], last_s=14), START_US) is None
    assert tripped(media(steady(0.0, 10)), START_US) == Trip(25.0, "rtcp_timeout")
    # A report after the timeout is too late.
    assert tripped(media([(15.5, 0.0, 1)]), START_US) == Trip(15.0, "rtcp_timeout")
    assert tripped(media([(14.9, 0.0, 1)], last_s=29), START_US) is None


def test_five_reports_of_the_same_number() -> None:
    stuck = [*steady(0.0, 10), *((at_s, 0.0, 2500) for at_s in range(11, 31))]
    assert tripped(media(stuck), START_US) == Trip(15.0, "media_timeout")
    # Progress in between starts the count again.
    later = [(at_s, lost, highest + (at_s > 13)) for at_s, lost, highest in stuck]
    assert tripped(media(later), START_US) == Trip(19.0, "media_timeout")
    assert media_timeout_reports(frame_s=0.02, rtt_s=0.1, report_s=1.0) == 5
    assert media_timeout_reports(frame_s=0.02, rtt_s=0.4, report_s=0.2) == 10


@pytest.mark.parametrize(
    ("frame_s", "rtt_s", "report_s", "reports"),
    [
        (0.02, 0.1, 5.0, 3),  # three reports where nothing is slower
        (0.04, 0.1, 0.2, 5),  # ten RTTs
        (0.5, 0.1, 0.5, 10),  # ten frames
        (0.04, 4.0, 1.0, 15),  # at most 15 s
        (0.04, 0.1, 0.3, 4),  # rounded up
    ],
)
def test_congestion_is_judged_over_some_reports(
    frame_s: float, rtt_s: float, report_s: float, reports: int
) -> None:
    assert congestion_reports(frame_s, rtt_s, report_s) == reports


def test_the_throughput_of_tcp_is_the_simplified_equation() -> None:
    assert tcp_pkts_per_s(0.1, 0.06) == pytest.approx(50)
    assert tcp_pkts_per_s(0.1, 0.015) == pytest.approx(100)
    assert tcp_pkts_per_s(0.0, 0.015) == math.inf


def test_ten_times_the_throughput_of_tcp_trips_when_all_reports_are_in() -> None:
    # 250 packets/s and an RTT of 0.1 s: ten times TCP's throughput is 250 at a loss of 0.24.
    assert tripped(media(steady(0.239)), START_US) is None
    assert tripped(media(steady(0.241)), START_US) == Trip(3.0, "congestion")
    # The mean counts: one bad report among three good ones does not trip.
    once = steady(0.0)
    once[10] = (11, 0.5, 2750)
    assert tripped(media(once), START_US) is None
    twice = [*once[:11], (12, 0.5, 3000), *once[12:]]
    assert tripped(media(twice), START_US) == Trip(12.0, "congestion")


def test_without_an_rtt_congestion_is_unknown() -> None:
    unknown = media(steady(0.9))
    reports = tuple(
        MediaReport(one.arrived_us, one.fraction_lost, one.highest, None) for one in unknown.reports
    )
    assert tripped(Media(unknown.packets, reports, 0.04, 1.0, 150_000), START_US) is None
