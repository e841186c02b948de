"""The detectors that R-TCP's is compared with: their rules on made-up ACKs, and where they fail."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from experiments.papers.r_tcp.baselines import BASELINES, Ack, Finding
from experiments.papers.r_tcp.baselines.long_term import bbr_lt, mbbr_like
from experiments.papers.r_tcp.baselines.p_modrl import p_modrl_like
from experiments.papers.r_tcp.baselines.pd import pd, pd_by_transfer
from tests.unit.ccp_algs.rtcp.network import CONTROLS, MBIT, MSS, path, recorded

RTT_US = 20_000
START = Ack(True, 0, 0, 0, RTT_US, RTT_US, False, 0)


def ack(time_us: int, delivered_pkts: int, lost_pkts: int, **fields: Any) -> Ack:
    """An ACK of a packet that was sent a round trip before, when all but the last packet was delivered."""
    prior_pkts = max(0, delivered_pkts - 1)
    plain = Ack(False, time_us, delivered_pkts, lost_pkts, RTT_US, RTT_US, False, prior_pkts)
    return plain._replace(**fields)


def policed(rounds: int = 200, burst_pkts: int = 100) -> list[Ack]:
    """A burst in one round trip; then a packet delivered and one lost in each, half a round trip apart."""
    acks = [START, *(ack(RTT_US + i * 10, i + 1, 0) for i in range(burst_pkts))]
    for i in range(1, rounds + 1):
        at_us = RTT_US * (1 + i)
        acks.append(ack(at_us, burst_pkts + i - 1, i))
        acks.append(ack(at_us + RTT_US // 2, burst_pkts + i, i))
    return acks


RATE = MSS / (RTT_US / 1e6)
"""What gets through in `policed` [bytes/s]."""


def test_pd_finds_rate_and_burst_when_packets_are_lost_from_an_empty_bucket() -> None:
    finding = pd(policed())
    assert finding.limited
    assert finding.rate_bytes_per_s == pytest.approx(RATE, rel=0.01)
    assert finding.bucket_bytes == 100 * MSS


def test_pd_takes_the_rate_without_the_first_and_last_losses_if_they_are_others() -> None:
    # A loss in the middle of the burst: from there on a bucket would have been used up long before.
    lossy = [one._replace(lost_pkts=one.lost_pkts + (one.delivered_pkts > 2)) for one in policed()]
    assert pd(lossy).limited
    assert pd(lossy).rate_bytes_per_s == pytest.approx(RATE, rel=0.02)


def of(acks: Iterable[Ack], change: Callable[[Ack], Ack]) -> list[Ack]:
    return [one if one.start else change(one) for one in acks]


def slow_at_first() -> list[Ack]:
    """A packet each round trip; after the first loss ten, and a loss in each."""
    acks = [START, *(ack(RTT_US * i, i, 0) for i in range(1, 50))]
    return [*acks, *(ack(RTT_US * (49 + i), 49 + 10 * i, i) for i in range(1, 50))]


@pytest.mark.parametrize(
    ("acks", "why"),
    [
        (policed(14), "few losses"),
        (policed(burst_pkts=1400), "the first loss is late"),
        (slow_at_first(), "the bucket would have been less than empty at the start"),
        (of(policed(), lambda a: a._replace(srtt_us=RTT_US + 300 * a.lost_pkts)), "RTTs rose before losses"),
        ([START, *(ack(RTT_US * i, i, i) for i in range(1, 5))], "few losses"),
        ([], "no transfer"),
    ],
)
def test_pd_says_what_rules_policing_out(acks: list[Ack], why: str) -> None:
    finding = pd(acks)
    assert not finding.limited
    assert finding.why == why


def test_pd_wants_the_bucket_empty_when_packets_are_lost() -> None:
    # Every second loss comes after a pause, in which tokens gathered.
    acks = [START]
    at_us, delivered = RTT_US, 50
    for lost in range(1, 60):
        at_us += 40 * RTT_US if lost % 2 else RTT_US
        acks.append(ack(at_us, delivered, lost))
        delivered += 40 if lost % 2 else 1
        acks.append(ack(at_us + 10, delivered, lost))
    assert not pd(acks).limited
    assert pd(acks).why in {
        "the bucket was not empty when packets were lost",
        "more tokens when packets were lost than when they passed",
    }


def test_idle_times_hide_a_policer_in_a_connection_but_not_in_its_transfers() -> None:
    # The bucket is full long before the idle time ends; to PD tokens gather all the time.
    first = policed()
    idle_us, again = 1000 * RTT_US, first[-1]
    later = [
        one._replace(
            time_us=again.time_us + idle_us + one.time_us,
            delivered_pkts=again.delivered_pkts + one.delivered_pkts,
            lost_pkts=again.lost_pkts + one.lost_pkts,
        )
        for one in policed()
    ]
    assert not pd([*first, *later]).limited
    assert pd_by_transfer([*first, *later]).rate_bytes_per_s == pytest.approx(RATE, rel=0.01)


def intervals(*rates_pkts: int, lost_pkts: int = 2, **fields: Any) -> list[Ack]:
    """A first loss; then four round trips at each rate [packets/round trip], with losses at their end."""
    acks = [START, ack(RTT_US, 10, 1)]
    for rate in rates_pkts:
        for _ in range(4):
            last = acks[-1]
            acks.append(ack(last.time_us + RTT_US, last.delivered_pkts + rate, last.lost_pkts, **fields))
        acks[-1] = acks[-1]._replace(lost_pkts=acks[-1].lost_pkts + lost_pkts)
    return acks


@pytest.mark.parametrize(("second", "limited"), [(16, True), (18, True), (19, False)])
def test_two_intervals_of_one_rate_are_a_policer(second: int, limited: bool) -> None:
    finding = bbr_lt(intervals(16, second, lost_pkts=20))
    assert finding.limited is limited
    if limited:
        assert finding.rate_bytes_per_s == pytest.approx((16 + second) / 2 * RATE)
        assert finding.detected_at_us == 9 * RTT_US
        assert finding.bucket_bytes is None


@pytest.mark.parametrize(("lost_pkts", "limited"), [(13, True), (12, False)])
def test_an_interval_needs_heavy_loss(lost_pkts: int, limited: bool) -> None:
    # 64 packets delivered: 50/256 of them are 12.5.
    assert bbr_lt(intervals(16, 16, lost_pkts=lost_pkts)).limited is limited


def test_running_out_of_data_begins_the_sampling_again() -> None:
    assert not bbr_lt(intervals(16, 16, lost_pkts=20, app_limited=True)).limited
    assert bbr_lt([*intervals(16, 16, lost_pkts=20)]).limited


def test_an_interval_that_lasts_too_long_does_not_count() -> None:
    acks = [START, ack(RTT_US, 10, 1)]
    acks += [*(ack(RTT_US * i, 10 + i, 1) for i in range(2, 19)), ack(RTT_US * 19, 29, 19)]
    assert not bbr_lt(acks).limited


def test_without_recorded_round_trips_they_last_an_rtt() -> None:
    bare = of(intervals(16, 16, lost_pkts=20), lambda one: one._replace(prior_delivered_pkts=0))
    assert bbr_lt(bare).limited


def test_the_rate_is_the_last_one_found() -> None:
    # 48 round trips later the sampling begins anew, at the next loss.
    finding = bbr_lt(intervals(16, 16, *[16] * 13, 32, 32, 32, lost_pkts=40))
    assert finding.rate_bytes_per_s == pytest.approx(32 * RATE)


def test_the_stand_in_for_mbbr_wants_five_intervals_and_stays() -> None:
    assert not mbbr_like(intervals(16, 16, 16, 16, lost_pkts=20)).limited
    finding = mbbr_like(intervals(*[16] * 5, *[16] * 13, *[32] * 6, lost_pkts=40))
    assert finding.rate_bytes_per_s == pytest.approx(16 * RATE)


def test_the_line_of_min_area_goes_through_the_hull_in_the_middle() -> None:
    # 100 packets in 1 s, 110 at 2 s, 130 at 4 s: a bucket of 90 packets, and 10 a second.
    corners = [(1_000_000, 100), (2_000_000, 110), (3_000_000, 118), (4_000_000, 130)]
    finding = p_modrl_like([START, *(ack(at_us, pkts, 0) for at_us, pkts in corners)])
    assert finding == Finding(limited=True, bucket_bytes=90.0 * MSS, rate_bytes_per_s=10.0 * MSS)


def test_what_falls_far_below_the_line_is_no_limit() -> None:
    corners = [(1_000_000, 100), (2_000_000, 110), (6_900_000, 110), (7_000_000, 160)]
    finding = p_modrl_like([START, *(ack(at_us, pkts, 0) for at_us, pkts in corners)])
    assert finding.why == "what was delivered is not near the line"


def test_no_abrupt_reduction_is_no_limit() -> None:
    corners = [(1_000_000, 100), (2_000_000, 160), (4_000_000, 280)]
    assert p_modrl_like([START, *(ack(at_us, pkts, 0) for at_us, pkts in corners)]).limited is False
    assert not p_modrl_like([]).limited | p_modrl_like([START]).limited


LIMITED = path(2.07 * MBIT, 733_000, rtt_s=0.036)


@pytest.mark.parametrize("name", ["bbr-lt", "mbbr-like", "p-modrl-like"])
def test_a_policer_is_found_in_a_long_transfer(name: str) -> None:
    finding = BASELINES[name](recorded(LIMITED, "cubic", 20))
    assert finding.limited
    assert finding.rate_bytes_per_s == pytest.approx(2.07 * MBIT, rel=0.15)


@pytest.mark.parametrize("name", ["pd", "mbbr-like", "p-modrl-like"])
@pytest.mark.parametrize("control", CONTROLS)
def test_short_objects_with_idle_times_hide_it(name: str, control: str) -> None:
    finding = BASELINES[name](recorded(LIMITED, control, 60, (700e3, *[900e3] * 4), 8.0))
    assert not finding.limited
