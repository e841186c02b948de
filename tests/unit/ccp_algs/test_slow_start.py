"""Slow start of Reno; HyStart++ and HyStart of CUBIC."""

import pytest

from ccp_algs.cubic import CubicFold
from ccp_algs.reno import RenoFold
from tests.unit.ccp_algs.folded import INFINITY, MSS, Folded


def rounds(flow: Folded, *rtts_us: int, acks: int = 10) -> None:
    """Fold `acks` ACKs with one RTT for each round; the data in flight at the start of a round ends it."""
    for rtt_us in rtts_us:
        pkts = flow.cwnd // MSS // acks
        for i in range(acks):
            in_flight = int(flow.cwnd) if i == 0 else 0
            flow.ack(pkts + (i == 0), after_us=rtt_us // acks, rtt_us=rtt_us, bytes_in_flight=in_flight)


def is_conservative(flow: Folded) -> bool:
    return flow["css_baseline_us"] < INFINITY


def test_window_doubles_each_round_trip() -> None:
    # RFC 5681 section 3.1, RFC 3465 section 2.2: by what is acknowledged.
    flow = Folded(RenoFold, 10)
    flow.ack(10)
    assert flow.cwnd == 20 * MSS
    flow.ack(20)
    assert flow.cwnd == 40 * MSS


def test_slow_start_stops_at_the_threshold() -> None:
    flow = Folded(RenoFold, 10)
    flow.ssthresh = 25 * MSS
    flow.ack(10)
    flow.ack(20)
    assert flow.cwnd == 25 * MSS


def test_constant_rtt_never_ends_slow_start() -> None:
    flow = Folded(CubicFold, 100, css_limit=5)
    rounds(flow, *[20_000] * 6)
    assert flow["ssthresh_bytes"] == INFINITY
    assert not is_conservative(flow)
    assert flow.cwnd > 100 * MSS * 2**5


@pytest.mark.parametrize(
    ("base_us", "rise_us"),
    [
        (20_000, 4_000),  # an eighth would be 2.5 ms: the minimum of 4 ms holds
        (64_000, 8_000),  # an eighth
        (400_000, 16_000),  # an eighth would be 50 ms: the maximum of 16 ms holds
    ],
)
def test_rise_of_the_rtt_slows_growth_to_a_quarter(base_us: int, rise_us: int) -> None:
    # RFC 9406 sections 4.2 and 4.3.
    calm = Folded(CubicFold, 100, css_limit=5)
    rounds(calm, base_us, base_us, base_us + rise_us - 1)
    assert not is_conservative(calm)
    flow = Folded(CubicFold, 100, css_limit=5)
    rounds(flow, base_us, base_us, base_us + rise_us)
    assert is_conservative(flow)
    before = flow.cwnd
    flow.ack(8, rtt_us=base_us + rise_us)
    assert flow.cwnd == before + 2 * MSS


def test_fewer_than_eight_samples_decide_nothing() -> None:
    flow = Folded(CubicFold, 100, css_limit=5)
    rounds(flow, 20_000, 20_000)
    rounds(flow, 40_000, acks=7)
    assert not is_conservative(flow)


def test_acks_without_a_sample_are_no_samples() -> None:
    flow = Folded(CubicFold, 100, css_limit=5)
    rounds(flow, 20_000, 20_000, 0xFFFFFFFF)
    assert not is_conservative(flow)
    assert flow["ss_samples"] == 0


def test_window_becomes_the_threshold_after_five_slow_rounds() -> None:
    flow = Folded(CubicFold, 100, css_limit=5)
    rounds(flow, 20_000, 20_000, *[24_000] * 5)
    assert flow["ssthresh_bytes"] == INFINITY  # the round of the rise and four more
    rounds(flow, 24_000)
    assert flow["ssthresh_bytes"] < INFINITY
    assert flow.cwnd >= flow["ssthresh_bytes"]


def test_slow_start_resumes_when_the_rise_was_noise() -> None:
    flow = Folded(CubicFold, 100, css_limit=5)
    rounds(flow, 20_000, 20_000, 24_000)
    assert is_conservative(flow)
    rounds(flow, 23_000)
    assert not is_conservative(flow)
    assert flow["ssthresh_bytes"] == INFINITY


def test_delay_is_not_watched_when_switched_off() -> None:
    flow = Folded(CubicFold, 100, hystart=0)
    rounds(flow, 20_000, 20_000, 40_000, 80_000)
    assert not is_conservative(flow)


def test_delay_is_not_watched_in_later_slow_starts() -> None:
    # RFC 9406 section 4.3: only the first slow start, while the threshold is infinite.
    flow = Folded(CubicFold, 10)
    flow.ssthresh = 100_000 * MSS
    rounds(flow, 20_000, 20_000, *[40_000] * 3)
    assert not is_conservative(flow)


@pytest.mark.parametrize(("base_us", "rise_us"), [(20_000, 4_000), (64_000, 8_000), (400_000, 16_000)])
def test_hystart_leaves_at_once_when_the_rtt_rises_over_its_minimum(base_us: int, rise_us: int) -> None:
    # Ha and Rhee 2011, section 4.2, with the bounds of RFC 9406.
    for above_us, threshold in ((rise_us - 1, False), (rise_us, True)):
        flow = Folded(CubicFold, 100)
        # 8 samples close to each other, so that no train of ACKs is long
        for _ in range(8):
            flow.ack(
                1,
                after_us=1,
                rtt_us=base_us + above_us,
                min_rtt_us=base_us,
                bytes_in_flight=10**9,
            )
        assert (flow["ssthresh_bytes"] < INFINITY) == threshold


def test_hystart_leaves_when_a_train_of_acks_is_long() -> None:
    # Ha and Rhee 2011, section 4.1: half of the minimum RTT, and 0.5 ms for offloads.
    flow = Folded(CubicFold, 100)
    for _ in range(11):
        flow.ack(1, after_us=1_000, rtt_us=20_000, min_rtt_us=20_000, bytes_in_flight=10**9)
    assert flow["ssthresh_bytes"] == INFINITY  # 10 ms after the first ACK of the round
    flow.ack(1, after_us=1_000, rtt_us=20_000, min_rtt_us=20_000)
    assert flow["ssthresh_bytes"] == flow.cwnd - MSS or flow["ssthresh_bytes"] == flow.cwnd


def test_hystart_takes_a_gap_for_the_end_of_the_train() -> None:
    flow = Folded(CubicFold, 100)
    for i in range(40):
        flow.ack(
            1, after_us=2_001 if i == 5 else 1_000, rtt_us=20_000, min_rtt_us=20_000, bytes_in_flight=10**9
        )
    assert flow["ssthresh_bytes"] == INFINITY


def test_hystart_does_not_look_at_small_windows() -> None:
    flow = Folded(CubicFold, 2)
    for _ in range(12):
        flow.ack(1, after_us=1_900, rtt_us=90_000, min_rtt_us=1_000, bytes_in_flight=10**9)
    assert flow["ssthresh_bytes"] == INFINITY
    flow.ack(3, after_us=1_900, rtt_us=90_000, min_rtt_us=1_000, bytes_in_flight=10**9)
    flow.ack(1, after_us=1_900, rtt_us=90_000, min_rtt_us=1_000, bytes_in_flight=10**9)
    assert flow["ssthresh_bytes"] < INFINITY
