"""BBR's fold program, ACK by ACK; sections are those of draft-ietf-ccwg-bbr-06."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ccp_algs.bbr_model import MAX_RATE_BYTES_PER_S
from ccp_algs.episodes import STARTED
from tests.unit.ccp_algs.bbr_flow import RATE, RTT_US, Model, filled
from tests.unit.ccp_algs.folded import DISORDER, INFINITY, LOSS, MSS, NO_SAMPLE, OPEN, RECOVERY


def test_first_ack_paces_by_window_and_smoothed_rtt() -> None:
    flow = Model(10)
    report = flow.on(rate=0)
    assert report["event"] == STARTED
    assert flow.rate == pytest.approx(2.742 * 10 * MSS / 0.1, rel=1e-3)
    assert flow.on()["event"] == 0


def test_rate_only_grows_until_the_pipe_is_full() -> None:
    flow = Model(10)
    flow.on(rate=RATE)
    first = flow.rate
    assert first == pytest.approx(2.742 * RATE, rel=1e-3)
    flow.set(pacing_permille=990)
    flow.on()
    assert flow.rate == first
    flow.set(is_full=1)
    flow.on()
    assert flow.rate == pytest.approx(0.99 * RATE, rel=1e-3)


def test_rate_stays_while_nothing_was_measured() -> None:
    flow = Model(10)
    flow.on(rate=0)
    first = flow.rate
    flow.set(is_full=1)
    flow.on(rate=0)
    assert flow.rate == first > 0


def test_bandwidth_is_the_largest_of_two_cycles() -> None:
    flow = Model(10)
    flow.on(rate=2 * RATE)
    assert flow.on(rate=RATE)["max_bw_bytes_per_s"] == 2 * RATE
    flow.set(cycle=1)
    assert flow.on(rate=RATE)["max_bw_bytes_per_s"] == 2 * RATE
    flow.set(cycle=2)
    assert flow.on(rate=RATE)["max_bw_bytes_per_s"] == RATE


def test_bandwidth_is_not_forgotten_before_there_is_another_sample() -> None:
    flow = Model(10)
    flow.on(rate=RATE)
    for cycle in range(1, 4):
        flow.set(cycle=cycle)
        assert flow.on(rate=RATE // 2, app_limited=1)["max_bw_bytes_per_s"] == RATE


def test_slower_of_both_rates_counts() -> None:
    assert Model(10).on(rate_outgoing=RATE // 3)["max_bw_bytes_per_s"] == RATE // 3


@pytest.mark.parametrize(("rate", "expected"), [(2 * RATE, 2 * RATE), (RATE // 2, RATE // 2)])
def test_sample_limited_by_the_application_counts_if_it_is_larger(rate: int, expected: int) -> None:
    flow = Model(10)
    flow.on(rate=RATE // 2)
    report = flow.on(rate=rate, app_limited=1)
    assert report["max_bw_bytes_per_s"] == expected
    assert report["is_limited"] == 1


def test_short_term_bound_limits_the_rate() -> None:
    flow = filled(pacing_permille=1000)
    flow.set(bw_short_bytes_per_s=RATE // 2)
    flow.on()
    assert flow.rate == RATE // 2


def test_smallest_rtt_holds_until_probe_rtt_is_due() -> None:
    flow = Model(10)
    assert flow.on(rtt_us=50_000)["min_rtt_us"] == 50_000
    assert flow.on(rtt_us=RTT_US)["min_rtt_us"] == 50_000
    report = flow.on(rtt_us=RTT_US, after_us=5_000_000)
    assert report["expired"] == 1
    assert report["min_rtt_us"] == 50_000, "until 10 s are over"
    assert flow.on(rtt_us=RTT_US)["expired"] == 0
    assert flow.on(rtt_us=RTT_US, after_us=4_999_000)["min_rtt_us"] == RTT_US


def test_no_probe_rtt_is_due_after_a_silence_or_during_one() -> None:
    flow = Model(10)
    flow.on(bytes_pending=0)
    assert flow.on(after_us=6_000_000)["expired"] == 0
    flow.set(is_probe_rtt=1)
    assert flow.on(after_us=6_000_000)["expired"] == 0


def test_ack_without_a_sample_leaves_the_smallest_rtt() -> None:
    flow = Model(10)
    flow.on(rtt_us=50_000)
    assert flow.on(rtt_us=NO_SAMPLE)["min_rtt_us"] == 50_000


def test_window_grows_by_what_is_delivered_until_it_is_the_gain_times_the_bdp() -> None:
    flow = Model(10)
    flow.on()
    before = flow.cwnd
    flow.on(3, packets_misordered=2)
    assert flow.cwnd == before + 5 * MSS
    flow.rounds(3)
    # What is acknowledged beyond the rate is added (section 5.5.9): here the first ACKs.
    assert 200 * MSS <= flow.cwnd <= 205 * MSS
    flow.set(is_full=1, cwnd_permille=1000)
    flow.on()
    assert 100 * MSS <= flow.cwnd <= 105 * MSS


def test_aggregation_gives_the_window_what_came_at_once() -> None:
    flow = filled(extra_rounds=5)
    flow.on(50)
    report = flow.on()
    assert report["extra_acked_bytes"] == pytest.approx(50 * MSS, rel=0.1)
    flow.rounds(1)
    assert flow.cwnd == pytest.approx(250 * MSS, rel=0.02)
    flow.rounds(12, after_us=1100)
    assert flow.cwnd < 205 * MSS, "for 10 rounds"


def test_small_paths_have_room_for_three_quanta_and_four_packets() -> None:
    flow = Model(10, is_full=1, pacing_permille=990)
    for _ in range(20):
        flow.on(in_flight=1, rtt_us=1000)
    assert flow.cwnd == 6 * MSS, "three quanta of two packets"
    flow.set(inflight_long_bytes=MSS)
    flow.on(in_flight=1)
    assert flow.cwnd == 4 * MSS


def test_probe_rtt_halves_the_bdp_and_gives_the_window_back() -> None:
    flow = filled()
    before = flow.cwnd
    flow.set(is_probe_rtt=1, cwnd_permille=500)
    flow.on()
    assert flow.cwnd == 50 * MSS
    flow.set(is_probe_rtt=0, cwnd_permille=2000)
    flow.on()
    assert flow.cwnd == before


def test_bounds_limit_the_window_and_headroom_lowers_the_long_one() -> None:
    flow = filled()
    flow.rounds(2, in_flight=50)
    flow.set(inflight_long_bytes=80 * MSS)
    flow.on(in_flight=50)
    assert flow.cwnd == 80 * MSS
    flow.set(headroom_permille=150)
    flow.on(in_flight=50)
    assert flow.cwnd == 68 * MSS
    flow.set(headroom_permille=1)
    flow.on(in_flight=50)
    flow.rounds(1, in_flight=50)
    assert flow.cwnd == 79 * MSS, "a segment at least"
    flow.set(inflight_short_bytes=40 * MSS)
    flow.on(in_flight=50)
    assert flow.cwnd == 40 * MSS


def test_window_is_given_back_after_a_timeout() -> None:
    flow = filled()
    before = flow.cwnd
    flow.ca_state, flow.cwnd = LOSS, 2 * MSS
    flow.on(0, lost=100, in_flight=0, was_timeout=1, rtt_us=NO_SAMPLE)
    assert flow.cwnd == 2 * MSS
    report = flow.on(2, in_flight=2)
    assert flow.cwnd == 4 * MSS
    assert report["recoveries"] == 1
    flow.on(2, in_flight=4)
    assert flow.cwnd == 6 * MSS
    flow.ca_state = OPEN
    flow.on(2, in_flight=6)
    assert flow.cwnd == pytest.approx(before, rel=0.02)


def test_bound_that_holds_a_probe_back_grows_by_one_two_four_segments_a_round() -> None:
    flow = filled()
    flow.rounds(1, in_flight=199)
    flow.to_round(in_flight=199)
    flow.set(inflight_long_bytes=200 * MSS, is_up=1, up_acked_per_inc_bytes=200 * MSS, up_growth=2)
    grown = []
    for _ in range(4):
        before = flow["inflight_long_bytes"]
        flow.cwnd = before
        for _ in range(200):
            flow.on(in_flight=199)
            flow.cwnd = flow["inflight_long_bytes"]
        grown.append((flow["inflight_long_bytes"] - before) / MSS)
    assert grown == pytest.approx([1, 2, 4, 8], abs=1)


def test_bound_does_not_grow_while_it_holds_nothing_back() -> None:
    flow = filled()
    flow.set(inflight_long_bytes=150 * MSS, is_up=1, up_acked_per_inc_bytes=MSS)
    report = flow.on(cwnd_limited=0)
    assert report["held_back"] == 0
    assert flow["inflight_long_bytes"] == 150 * MSS


def test_kernel_taking_a_recovery_back_is_reported_once() -> None:
    flow = filled()
    flow.ssthresh = 100 * MSS
    flow.on()
    flow.ca_state, flow.ssthresh = RECOVERY, 50 * MSS
    assert flow.on(lost=1)["undone"] == 0
    flow.ca_state, flow.ssthresh = DISORDER, 150 * MSS
    assert flow.on()["undone"] == 1
    assert flow.on()["undone"] == 0
    flow.ca_state, flow.ssthresh = RECOVERY, 170 * MSS  # a recovery of a larger window
    assert flow.on(lost=1)["undone"] == 0
    flow.ca_state = OPEN
    assert flow.on()["undone"] == 0


@pytest.mark.parametrize(
    "wish",
    [
        {"drain_bytes": 51 * MSS},
        {"alarm_us": 1},
        {"wanted_rounds": 0},
        {"is_cautious": 1, "inflight_long_bytes": 52 * MSS},
    ],
)
def test_what_python_waits_for_is_reported_at_once(wish: dict[str, int]) -> None:
    flow = filled()
    flow.set(wanted_rounds=INFINITY, inflight_long_bytes=100 * MSS)
    flow.on(in_flight=50)
    assert flow.on(in_flight=50) is None
    flow.set(**wish)
    assert flow.on(in_flight=50) is not None


def test_idle_flow_with_nothing_to_wait_for_reports_nothing() -> None:
    flow = filled()
    flow.set(wanted_rounds=INFINITY)
    assert flow.on(in_flight=0) is None


ACKS = st.lists(
    st.fixed_dictionaries(
        {
            "pkts": st.sampled_from([0, 1, 2, 44, 700]),
            "lost": st.sampled_from([0, 0, 0, 1, 100]),
            "in_flight": st.sampled_from([0, 1, 100, 700_000]),
            "rate": st.sampled_from([0, 1, RATE, 1 << 45, INFINITY >> 8]),
            "after_us": st.sampled_from([0, 10, 1000, 200_000, 3_600_000_000]),
            "rtt_us": st.sampled_from([1, 50, 20_000, 900_000, 4_000_000_000, NO_SAMPLE]),
            "srtt_us": st.sampled_from([0, 30, 20_000, 2_000_000]),
            "ca_state": st.integers(0, 4),
            "was_timeout": st.sampled_from([0, 0, 0, 1]),
            "app_limited": st.integers(0, 1),
            "cwnd_limited": st.integers(0, 1),
            "ecn_packets": st.sampled_from([0, 0, 2]),
            "packets_misordered": st.sampled_from([0, 3]),
            "bytes_pending": st.sampled_from([0, 1 << 20]),
            "snd_ssthresh": st.sampled_from([2 * MSS, 50 * MSS, INFINITY]),
        }
    ),
    max_size=60,
)
ORDERS = st.fixed_dictionaries(
    {
        "is_full": st.integers(0, 1),
        "is_up": st.integers(0, 1),
        "is_probe_rtt": st.integers(0, 1),
        "is_probe_sample": st.integers(0, 1),
        "cwnd_permille": st.sampled_from([500, 2000, 2250]),
        "pacing_permille": st.sampled_from([495, 990, 2742]),
        "headroom_permille": st.sampled_from([0, 150]),
        "bw_short_bytes_per_s": st.sampled_from([1, RATE, INFINITY]),
        "inflight_short_bytes": st.sampled_from([0, 50 * MSS, INFINITY]),
        "inflight_long_bytes": st.sampled_from([0, 50 * MSS, 1 << 40, INFINITY]),
        "cycle": st.integers(0, 3),
    }
)


@given(
    acks=ACKS, orders=st.lists(ORDERS, min_size=1, max_size=5), cwnd_pkts=st.sampled_from([2, 10, 700_000])
)
def test_window_and_rate_stay_in_bounds_whatever_happens(
    acks: list[dict[str, Any]], orders: list[dict[str, int]], cwnd_pkts: int
) -> None:
    flow = Model(cwnd_pkts)
    restored = flow.cwnd
    for i, ack in enumerate(acks):
        flow.set(**orders[i % len(orders)])
        before = flow.cwnd
        restored = max(restored, before)
        flow.on(**ack)  # raises ArithmeticError if the fold stops half way
        delivered = (ack["pkts"] + ack["packets_misordered"]) * MSS
        if delivered:
            bound = max(min(flow["inflight_long_bytes"], flow["inflight_short_bytes"]), 4 * MSS)
            assert 4 * MSS <= flow.interpreter.cwnd_bytes <= bound
        assert flow.cwnd <= restored + max(delivered, 4 * MSS)
        assert flow.rate <= 3 * MAX_RATE_BYTES_PER_S
        flow.cwnd = min(flow.cwnd, 1 << 30)  # as the datapath does


@given(acks=ACKS)
def test_program_without_an_answer_from_python_recovers_from_anything(acks: list[dict[str, Any]]) -> None:
    flow = Model(10)
    for ack in acks:
        flow.on(**(ack | {"rate": min(ack["rate"], RATE)}))
        flow.cwnd = min(flow.cwnd, 1000 * MSS)
    flow.ca_state = OPEN
    flow.on(after_us=11_000_000)  # what was the smallest RTT is forgotten
    flow.rounds(2)
    assert flow.cwnd >= 200 * MSS
    assert flow.rate >= RATE
