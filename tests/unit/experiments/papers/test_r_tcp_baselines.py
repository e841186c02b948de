"""The detectors that R-TCP's is compared with: their rules on made-up ACKs, and where they fail."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from experiments.papers.r_tcp.baselines import BASELINES, Ack
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


ROUNDS_48 = (16,) * 12
FOUND = (16, 16, *ROUNDS_48)
"""Two intervals of one rate, and the 48 round trips in which it is used; 20 lost per 64 delivered."""


@pytest.mark.parametrize(
    "again_pkts",
    [
        16,
        17,  # within a tenth: the larger one
        20,  # agrees with itself, corrected a round trip later
    ],
)
def test_smbbr_needs_two_corrected_rates_that_agree(again_pkts: int) -> None:
    assert not mbbr_like(intervals(*FOUND, lost_pkts=20)).limited
    again = (again_pkts,) * 16
    finding = mbbr_like(intervals(*FOUND, 16, *again, lost_pkts=20))
    delivered_ratio = 4 * again_pkts / (4 * again_pkts + 20)
    assert finding.rate_bytes_per_s == pytest.approx(again_pkts * RATE * delivered_ratio, rel=0.03)
    assert finding.detected_at_us == pytest.approx(114 * RTT_US, abs=5 * RTT_US)


def test_smbbr_keeps_a_limit() -> None:
    same = intervals(*FOUND, 16, *FOUND, lost_pkts=20)
    later = intervals(*FOUND, 16, *FOUND, *[32] * 30, lost_pkts=20)
    assert mbbr_like(same).limited
    assert mbbr_like(later) == mbbr_like(same)


def data(*spans: tuple[float, float]) -> list[Ack]:
    """ACKs every 10 ms, at rates [packets/s] for times [s]."""
    acks, at_us, delivered_pkts = [START], 0, 0.0
    for rate_pkts_per_s, seconds in spans:
        for _ in range(round(100 * seconds)):
            at_us += 10_000
            delivered_pkts += rate_pkts_per_s / 100
            if rate_pkts_per_s:
                acks.append(ack(at_us, round(delivered_pkts), 0))
    return acks


def test_p_modrl_finds_the_line_along_the_data() -> None:
    # 1,000 packets in 1 s, then 100 a second: a bucket of 900.
    finding = p_modrl_like(data((1_000, 1), (100, 3)))
    assert finding.bucket_bytes == pytest.approx(900 * MSS, abs=1024)
    assert finding.bucket_bytes is not None
    assert finding.bucket_bytes % 1024 == 0
    assert finding.rate_bytes_per_s == pytest.approx(100 * MSS, rel=0.01)
    # The line is the one at half of the time, so it is that of the reduced rate after 2 s; then 20 hits.
    assert finding.detected_at_us == pytest.approx(2_200_000, abs=30_000)


@pytest.mark.parametrize(("rate", "limited"), [(550, True), (650, False)])
def test_p_modrl_needs_a_reduction_below_three_fifths(rate: float, limited: bool) -> None:
    assert p_modrl_like(data((1_000, 2), (rate, 6))).limited is limited


def test_p_modrl_needs_twenty_hits_in_a_row() -> None:
    found = p_modrl_like(data((1_000, 1), (100, 3)))
    assert found.detected_at_us is not None
    before = [one for one in data((1_000, 1), (100, 3)) if one.time_us < found.detected_at_us]
    assert not p_modrl_like(before).limited


@pytest.mark.parametrize(("idle_s", "limited"), [(0.3, True), (3.0, False)])
def test_p_modrl_needs_data_near_the_line(idle_s: float, limited: bool) -> None:
    # The area between line and data, of that under the line.
    steps = [one for _ in range(round(12 / idle_s)) for one in ((0, idle_s), (5_000, 0.2 * idle_s))]
    assert p_modrl_like(data((2_000, 1), *steps)).limited is limited


def test_no_abrupt_reduction_is_no_limit() -> None:
    corners = [(1_000_000, 100), (2_000_000, 160), (4_000_000, 280)]
    assert p_modrl_like([START, *(ack(at_us, pkts, 0) for at_us, pkts in corners)]).limited is False
    assert not p_modrl_like([]).limited | p_modrl_like([START]).limited


LIMITED = path(2.07 * MBIT, 733_000, rtt_s=0.036)


@pytest.mark.parametrize(
    ("name", "control"), [("bbr-lt", "cubic"), ("mbbr-like", "bbr"), ("p-modrl-like", "cubic")]
)
def test_a_policer_is_found_in_a_long_transfer(name: str, control: str) -> None:
    finding = BASELINES[name](recorded(LIMITED, control, 20))
    assert finding.limited
    assert finding.rate_bytes_per_s == pytest.approx(2.07 * MBIT, rel=0.15)


@pytest.mark.parametrize("name", ["pd", "mbbr-like", "p-modrl-like"])
@pytest.mark.parametrize("control", CONTROLS)
def test_short_objects_with_idle_times_hide_its_rate(name: str, control: str) -> None:
    finding = BASELINES[name](recorded(LIMITED, control, 60, (700e3, *[900e3] * 4), 8.0))
    assert not finding.limited or finding.rate_bytes_per_s != pytest.approx(2.07 * MBIT, rel=0.1)
