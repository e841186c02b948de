"""The circuit breakers of RTP, at the numbers of RFC 8083."""

from __future__ import annotations

import dataclasses
import math

import pytest

from experiments.traffic import Media, MediaPacket, MediaReport
from experiments.traffic.breaker import (
    Trip,
    congestion_intervals,
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
    ("frame_s", "rtt_s", "report_s", "intervals"),
    [
        (0.02, 0.1, 5.0, 3),  # three intervals where nothing is slower
        (0.04, 0.1, 0.2, 5),  # ten RTTs
        (0.5, 0.1, 0.5, 10),  # ten frames
        (0.04, 4.0, 1.0, 15),  # at most 15 s
        (0.04, 4.0, 10.0, 3),  # unless three intervals are longer
        (0.04, 0.1, 0.3, 4),  # rounded up
    ],
)
def test_congestion_is_judged_over_some_intervals(
    frame_s: float, rtt_s: float, report_s: float, intervals: int
) -> None:
    assert congestion_intervals(frame_s, rtt_s, report_s) == intervals


def test_the_throughput_of_tcp_is_the_simplified_equation() -> None:
    assert tcp_pkts_per_s(0.1, 0.06) == pytest.approx(50)
    assert tcp_pkts_per_s(0.1, 0.015) == pytest.approx(100)
    assert tcp_pkts_per_s(0.0, 0.015) == math.inf


def test_ten_times_the_throughput_of_tcp_trips_after_enough_intervals() -> None:
    # 250 packets/s and an RTT of 0.1 s: ten times TCP's throughput is 250 at a loss of 0.24. It takes more
    # reports than `CB_INTERVAL`, because the first one ends no interval.
    assert tripped(media(steady(0.239)), START_US) is None
    assert tripped(media(steady(0.241)), START_US) == Trip(4.0, "congestion")
    # The mean counts: one bad report among three good ones does not trip.
    once = steady(0.0)
    once[10] = (11, 0.5, 2750)
    assert tripped(media(once), START_US) is None
    twice = [*once[:11], (12, 0.5, 3000), *once[12:]]
    assert tripped(media(twice), START_US) == Trip(12.0, "congestion")


def test_a_long_interval_has_a_large_weight() -> None:
    # The reports of the fourth to sixth second are lost: half of four seconds are 0.33 of six.
    gap = [*steady(0.0, 3), (7, 0.5, 1750), *((at_s, 0.0, 250 * at_s) for at_s in range(8, 31))]
    assert tripped(media(gap), START_US) == Trip(7.0, "congestion")


def test_the_newest_rtt_has_a_weight_of_a_fifth() -> None:
    # At a loss of 0.2, ten times TCP's throughput is 250 at an RTT of 0.1095 s.
    for newest_s, trip in ((0.14, None), (0.15, Trip(10.0, "congestion"))):
        usual = media(steady(0.2))
        reports = list(usual.reports)
        reports[9] = dataclasses.replace(reports[9], rtt_us=round(newest_s * 1e6))
        changed = dataclasses.replace(usual, reports=tuple(reports))
        assert tripped(changed, START_US) == trip


def test_a_shorter_rtt_does_not_shorten_a_media_timeout_that_runs() -> None:
    usual = media([])
    reports = tuple(
        MediaReport(START_US + n * 200_000, 0.0, 50 * min(n, 50), 400_000 if n <= 50 else 10_000)
        for n in range(1, 100)
    )
    stuck = dataclasses.replace(usual, reports=reports, report_s=0.2)
    assert tripped(stuck, START_US) == Trip(12.0, "media_timeout")


def test_reports_that_are_sent_less_often_are_awaited_longer() -> None:
    rare = dataclasses.replace(media([]), report_s=9.0)
    assert tripped(rare, START_US) == Trip(27.0, "rtcp_timeout")


def test_without_an_rtt_congestion_is_unknown() -> None:
    unknown = media(steady(0.9))
    reports = tuple(
        MediaReport(one.arrived_us, one.fraction_lost, one.highest, None) for one in unknown.reports
    )
    assert tripped(Media(unknown.packets, reports, 0.04, 1.0, 150_000), START_US) is None
