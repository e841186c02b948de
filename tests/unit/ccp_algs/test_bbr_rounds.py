"""Rounds and losses of BBR's fold program, ACK by ACK; sections are those of draft-ietf-ccwg-bbr-06."""

from __future__ import annotations

import pytest

from tests.unit.ccp_algs.bbr_flow import RATE, Model, filled
from tests.unit.ccp_algs.folded import INFINITY, MSS


@pytest.mark.parametrize("lost", [0, 30])
def test_round_ends_with_a_packet_that_was_sent_after_it_began(lost: int) -> None:
    flow = Model(100)
    flow.on(in_flight=100)
    flow.to_round()  # 100 packets are on their way
    reports = [flow.on(in_flight=100, lost=lost)] + [flow.on(in_flight=100) for _ in range(99 - lost)]
    assert [report["rounds"] for report in reports] == [0] * (99 - lost) + [1]


def test_packets_that_were_wrongly_marked_lost_do_not_end_a_round() -> None:
    flow = Model(100)
    flow.on(in_flight=100)
    flow.to_round()
    began = flow.delivered
    flow.lost += 60  # all of them arrive
    reports = [flow.on(in_flight=100, prior_delivered=began - 1) for _ in range(99)]
    assert sum(report["rounds"] for report in reports) == 0
    assert flow.on(in_flight=100, prior_delivered=began)["rounds"] == 1


def test_ack_that_delivers_nothing_ends_no_round() -> None:
    flow = Model(100)
    flow.on(in_flight=100)
    assert [flow.on(0, prior_delivered=0)["rounds"] for _ in range(5)] == [0] * 5


def test_round_that_python_begins_ends_a_round_trip_later() -> None:
    flow = Model(100)
    flow.on(in_flight=100)
    flow.to_round()
    for _ in range(50):
        report = flow.on()
    flow.set(start_delivered_pkts=report["delivered_pkts"])
    # Packets sent after that ACK; the update came some ACKs later.
    assert [flow.on()["rounds"] for _ in range(100)] == [0] * 99 + [1]


def test_rounds_go_on_after_the_counter_of_delivered_packets_wrapped() -> None:
    flow = Model(100)
    flow.delivered = (1 << 32) - 550
    flow.set(start_delivered_pkts=(1 << 32) - 60)
    seen = sum(flow.on(lost=i % 90 == 0)["rounds"] for i in range(1600))
    assert 14 <= seen <= 17
    assert flow["next_round_delivered_pkts"] < 1600


def test_rounds_are_reported_once_a_millisecond_at_most() -> None:
    flow = Model(10, wanted_rounds=1)
    flow.on(in_flight=1)
    reports = [flow.on(in_flight=1, after_us=100) for _ in range(40)]
    counts = [report["rounds"] for report in reports if report]
    assert len(counts) == 4
    assert sum(counts) == 40, "none is forgotten"


@pytest.mark.parametrize("sign", ["lost", "ecn_packets"])
def test_signs_of_congestion_above_the_threshold_are_too_high_only_while_a_probe_is_judged(sign: str) -> None:
    assert filled().on(**{sign: 3})["too_high"] == 0
    flow = filled(is_probe_sample=1)
    assert flow.on(**{sign: 2})["too_high"] == 0, "2 % is borne"
    assert flow.on(**{sign: 1})["too_high"] == 1
    flow.rounds(2)
    assert flow.on(**{sign: 2})["too_high"] == 0, "those before the packet was sent do not count"


def test_what_was_in_flight_when_a_packet_was_sent_is_what_was_delivered_or_lost_since() -> None:
    flow = filled()
    report = flow.on()
    assert (report["tx_in_flight_pkts"], report["lost_since_pkts"]) == (100, 0)
    report = flow.on(lost=3)
    assert (report["tx_in_flight_pkts"], report["lost_since_pkts"], report["lost_now_pkts"]) == (100, 3, 3)
    for _ in range(90):
        report = flow.on()
    assert report["tx_in_flight_pkts"] == pytest.approx(100, abs=3)
    assert report["lost_since_pkts"] == pytest.approx(3, abs=1)
    flow.rounds(2)
    report = flow.on()
    assert (report["tx_in_flight_pkts"], report["lost_since_pkts"]) == (100, 0)


def test_marked_packets_are_delivered_and_in_flight_once() -> None:
    flow = filled()
    report = flow.on(ecn_packets=5)
    assert (report["tx_in_flight_pkts"], report["lost_since_pkts"]) == (100, 5)


def test_round_with_a_loss_reports_what_was_delivered() -> None:
    flow = filled()
    flow.set(wanted_rounds=INFINITY)
    assert flow.on(lost=1, in_flight=100) is None
    reports = [flow.on(in_flight=100, rate=RATE // 2) for _ in range(102)]
    (report,) = [one for one in reports if one]
    assert report["loss_rounds"] == 1
    assert report["round_loss_events"] == 1
    assert report["bw_latest_bytes_per_s"] == RATE, "samples from before the loss are in the round"
    assert report["inflight_latest_bytes"] == 100 * MSS
    flow.on(lost=1, in_flight=100, rate=RATE // 2)
    reports = [flow.on(in_flight=100, rate=RATE // 2) for _ in range(102)]
    (report,) = [one for one in reports if one]
    assert report["bw_latest_bytes_per_s"] == RATE // 2


def test_latest_inflight_is_the_maximum_of_the_rounds_acks() -> None:
    flow = filled()
    flow.set(wanted_rounds=INFINITY)
    flow.on(lost=1)
    for _ in range(80):
        flow.on(in_flight=99)
    reports = [flow.on(in_flight=30) for _ in range(60)]
    (report,) = [one for one in reports if one]
    assert report["inflight_latest_bytes"] == pytest.approx(100 * MSS, abs=MSS), "not the 30 at the end"


def test_samples_of_packets_sent_in_probe_rtt_are_limited_by_the_application() -> None:
    """Section 5.3.4.3: MarkConnectionAppLimited() while in ProbeRTT."""
    flow = filled()
    flow.set(is_probe_rtt=1)
    assert flow.on()["is_limited"] == 0, "it was sent before"
    limited = [flow.on(in_flight=50)["is_limited"] for _ in range(150)]
    assert limited == [0] * 99 + [1] * 51
    flow.set(is_probe_rtt=0)
    limited = [flow.on(in_flight=50)["is_limited"] for _ in range(110)]
    assert limited[:90] == [1] * 90, "what was sent while that is in flight"
    assert limited[-1] == 0


def test_safe_flight_raises_the_long_term_bound() -> None:
    flow = filled()
    flow.set(inflight_long_bytes=80 * MSS)
    flow.on()
    assert flow["inflight_long_bytes"] == 100 * MSS
    flow.set(inflight_long_bytes=80 * MSS)
    flow.on(lost=3)
    flow.on()
    assert flow["inflight_long_bytes"] == 80 * MSS
