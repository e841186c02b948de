"""Hyvar's fold program in the reference interpreter: intervals, the policy's factor, who has the window."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ccp_algs.cubic import CubicFold
from ccp_algs.episodes import CUT, OPEN, REDUCING
from ccp_algs.hyvar.fold import FIRST_MTP_US, PPM, HyvarFold
from tests.unit.ccp_algs.folded import (
    INFINITY,
    MSS,
    NO_SAMPLE,
    RECOVERY,
    Folded,
    acks,
    events,
    started,
    timeout,
)


def ends(flow: Folded) -> list[dict[str, int]]:
    return [report for report in flow.reports if report["due"]]


def test_first_report_reports_that_the_program_started() -> None:
    flow = Folded(HyvarFold)
    first = flow.ack()
    assert first is not None
    assert (first["event"], first["due"], first["mss_bytes"]) == (1, 1, MSS)


@pytest.mark.parametrize("mtp_us", [FIRST_MTP_US, 5_000, 70_000])
def test_interval_ends_with_the_first_ack_after_it(mtp_us: int) -> None:
    flow = started(HyvarFold)
    flow.set(mtp_us=mtp_us)
    begin_us = flow.now_us
    while not flow.reports:
        flow.ack(after_us=999)
    assert mtp_us <= flow.now_us - begin_us < mtp_us + 999
    assert ends(flow) == flow.reports


def test_length_that_is_set_holds_for_the_interval_that_runs() -> None:
    flow = started(HyvarFold)
    flow.set(mtp_us=500_000)
    for _ in range(20):
        flow.ack(after_us=1_000)
    assert not flow.reports
    flow.set(mtp_us=10_000)
    flow.ack(after_us=1_000)
    assert len(ends(flow)) == 1


def test_interval_reports_totals_of_the_flow() -> None:
    flow = started(HyvarFold, min_rtt_us=30_000)
    flow.srtt_us = 45_000
    flow.ack(after_us=5_000, rtt_us=40_000)
    flow.ack(after_us=5_000, rtt_us=NO_SAMPLE)
    flow.ack(after_us=20_000, rtt_us=50_000, delivered=77, lost=5)
    (end,) = ends(flow)
    # The first ACK, with which the program started, has a sample of 100 ms.
    assert (end["rtt_sum_us"], end["rtt_samples"]) == (190_000, 3)
    assert (end["delivered_pkts"], end["lost_pkts"]) == (77, 5)
    assert (end["rtt_min_us"], end["srtt_us"], end["in_slow_start"]) == (30_000, 45_000, 0)


def test_slow_start_is_reported() -> None:
    flow = started(HyvarFold, cwnd_pkts=10, ssthresh_pkts=100)
    flow.ack(after_us=FIRST_MTP_US)
    assert ends(flow)[0]["in_slow_start"] == 1


def test_loss_in_between_reports_but_ends_no_interval() -> None:
    flow = started(HyvarFold)
    flow.ack(after_us=5_000)
    flow.ca_state = RECOVERY
    flow.ack(0, after_us=5_000, lost_pkts_sample=1)
    assert events(flow) == [CUT]
    assert not ends(flow)
    flow.ack(after_us=FIRST_MTP_US - 10_000)
    assert len(ends(flow)) == 1


@pytest.mark.parametrize(("gain", "expected_pkts"), [(1.5, 150), (0.5, 50), (2.0, 200)])
def test_factor_is_applied_once(gain: float, expected_pkts: int) -> None:
    flow = started(HyvarFold)
    flow.set(gain_ppm=round(gain * PPM))
    flow.ack(0)
    assert flow.cwnd == expected_pkts * MSS
    assert flow["gain_ppm"] == 0
    flow.ack(0)
    assert flow.cwnd == expected_pkts * MSS


def test_factor_of_one_changes_nothing() -> None:
    flow = started(HyvarFold)
    flow.set(w_max_bytes=120 * MSS, k_us=1_000_000, epoch=1)
    flow.set(gain_ppm=PPM)
    flow.ack(0)
    assert flow.cwnd == 100 * MSS
    assert (flow["w_max_bytes"], flow["epoch"]) == (120 * MSS, 1)


def test_window_stays_above_the_floor() -> None:
    flow = started(HyvarFold, cwnd_pkts=3)
    flow.set(gain_ppm=PPM // 2)
    flow.ack(0)
    assert flow.cwnd == 2 * MSS


def test_cubic_goes_on_from_the_window_of_the_policy() -> None:
    # Flat: C t^3 is 0.4 segments in a second; Reno's share of 0.53 segments a round trip is what it grows by.
    flow = started(HyvarFold)
    flow.set(w_max_bytes=300 * MSS, k_us=0, epoch=1, t_us=9_000_000, gain_ppm=PPM // 2)
    for _ in range(10):
        flow.round_trip()
    assert flow["w_max_bytes"] < 52 * MSS
    assert 50 * MSS < flow.cwnd < 57 * MSS


def test_factor_below_one_ends_slow_start_and_one_above_does_not() -> None:
    flow = started(HyvarFold, cwnd_pkts=20, ssthresh_pkts=1_000)
    flow.set(gain_ppm=round(1.5 * PPM))
    flow.ack(0)
    assert (flow.cwnd, flow["ssthresh_bytes"]) == (30 * MSS, 1_000 * MSS)
    flow.set(gain_ppm=round(0.5 * PPM))
    flow.ack(0)
    assert (flow.cwnd, flow["ssthresh_bytes"]) == (15 * MSS, 15 * MSS)


def test_path_is_known_after_a_factor_below_one() -> None:
    # Before the first loss CUBIC grows by 5 % a round trip, as Linux: here 5 segments.
    grown = []
    for gain in (None, 0.999_999):
        flow = started(HyvarFold)
        if gain is not None:
            flow.set(gain_ppm=round(gain * PPM))
        before = flow.cwnd
        for _ in range(3):
            flow.round_trip()
        grown.append((flow.cwnd - before) / MSS)
    assert grown[0] > 10
    assert grown[1] < 3


def test_factor_is_forgotten_while_a_loss_is_repaired() -> None:
    flow = started(HyvarFold)
    flow.ca_state = RECOVERY
    flow.ack(0, lost_pkts_sample=1)
    assert flow["episode"] == REDUCING
    reduced = flow["ssthresh_bytes"]
    flow.set(gain_ppm=2 * PPM)
    flow.ack(1)
    assert (flow["gain_ppm"], flow["episode"], flow["ssthresh_bytes"]) == (0, REDUCING, reduced)
    assert flow.cwnd <= reduced


def test_factor_above_one_needs_a_window_that_is_used_up() -> None:
    flow = started(HyvarFold)
    flow.set(gain_ppm=2 * PPM)
    flow.ack(0, cwnd_limited=0)
    assert flow.cwnd == 100 * MSS
    flow.set(gain_ppm=PPM // 2)
    flow.ack(0, cwnd_limited=0)
    assert flow.cwnd == 50 * MSS


def test_cubic_neither_grows_nor_reduces_while_the_policy_is_alone() -> None:
    flow = started(HyvarFold)
    flow.set(learned=1)
    for _ in range(5):
        flow.round_trip()
    flow.ca_state = RECOVERY
    for _ in range(3):
        flow.round_trip(lost_pkts_sample=1)
    assert flow.cwnd == 100 * MSS
    assert events(flow) == []
    assert flow["episode"] == OPEN
    flow.set(gain_ppm=round(1.25 * PPM))
    flow.ack(1, lost_pkts_sample=1)
    assert flow.cwnd == 125 * MSS


def test_policy_alone_has_no_slow_start_before_the_first_threshold_but_after_a_timeout() -> None:
    flow = Folded(HyvarFold, learned=1)
    for _ in range(5):
        flow.round_trip()
    assert (flow.cwnd, flow["ssthresh_bytes"]) == (10 * MSS, INFINITY)
    flow = started(HyvarFold, cwnd_pkts=50, ssthresh_pkts=50)
    flow.set(learned=1)
    timeout(flow)
    assert flow.cwnd == 2 * MSS
    flow.ca_state = 0
    for _ in range(8):
        flow.round_trip(pkts_per_ack=1)
    assert flow.cwnd == 50 * MSS


@given(
    given_acks=acks(lost_pkts_sample=st.sampled_from([0, 0, 0, 1]), ca_state=st.sampled_from([0, 0, 1, 3]))
)
def test_without_a_policy_it_is_cubic(given_acks: list[dict[str, int]]) -> None:
    both = [started(program) for program in (HyvarFold, CubicFold)]
    for ack in given_acks:
        # What the kernel finds lost in a recovery it tells with the recovery's state, as it does here.
        ack = ack | {"ca_state": 3 if ack["lost_pkts_sample"] else min(ack["ca_state"], 1)}
        for flow in both:
            flow.ca_state = ack["ca_state"]
            flow.ack(**ack)
        assert both[0].cwnd == both[1].cwnd


# --- trains ------------------------------------------------------------------------------------------------


def trains(flow: Folded) -> list[int]:
    """Rates of the trains that were told [bytes/s], each once."""
    return [report["train_bytes_per_s"] for report in flow.reports if report["train_bytes_per_s"]]


def arrives(flow: Folded, first: int, last: int, apart_us: int) -> None:
    """Let packets be acknowledged, one an ACK, so far apart."""
    for delivered in range(first, last + 1):
        flow.ack(after_us=apart_us, delivered=delivered, packets_in_flight=100)


def test_first_window_is_a_train() -> None:
    flow = Folded(HyvarFold, cwnd_pkts=10, mtp_us=20_000)
    flow.ack(delivered=1, packets_in_flight=9)
    arrives(flow, 2, 10, apart_us=250)
    arrives(flow, 11, 30, apart_us=1_000)
    assert trains(flow) == [MSS * 1_000_000 // 250]


def test_what_the_policy_adds_is_a_train() -> None:
    flow = started(HyvarFold, cwnd_pkts=100)
    flow.set(gain_ppm=1_200_000)
    flow.ack(delivered=500, packets_in_flight=99)  # 21 packets leave: the 600th to the 620th
    arrives(flow, 501, 599, apart_us=1_000)
    arrives(flow, 600, 620, apart_us=200)
    arrives(flow, 621, 640, apart_us=1_000)
    assert trains(flow) == [MSS * 1_000_000 // 200]


@pytest.mark.parametrize(
    ("last", "apart_us"),
    [(3, 1_000), (10, 50)],
    ids=["too few packets", "at once"],
)
def test_trains_that_say_nothing(last: int, apart_us: int) -> None:
    flow = Folded(HyvarFold, cwnd_pkts=last, mtp_us=20_000)
    flow.ack(delivered=1, packets_in_flight=last - 1)
    arrives(flow, 2, last, apart_us)
    arrives(flow, last + 1, last + 30, apart_us=1_000)
    assert trains(flow) == []


def test_window_after_a_pause_is_a_train() -> None:
    flow = started(HyvarFold, cwnd_pkts=20)
    flow.ack(delivered=500, packets_in_flight=0)
    flow.ack(after_us=900_000, delivered=501, packets_in_flight=14)  # of 15 that the application had
    arrives(flow, 502, 515, apart_us=300)
    arrives(flow, 516, 540, apart_us=1_000)
    assert trains(flow) == [MSS * 1_000_000 // 300]


@pytest.mark.parametrize(("window", "reported"), [(4, True), (20, False)], ids=["small", "large"])
def test_five_packets_that_leave_together_are_a_train_of_a_small_window(window: int, reported: bool) -> None:
    flow = Folded(HyvarFold, cwnd_pkts=window, mtp_us=20_000)
    flow.ack(delivered=1, packets_in_flight=4)
    arrives(flow, 2, 5, apart_us=1_000)
    arrives(flow, 6, 40, apart_us=2_000)
    assert trains(flow) == [MSS * 1_000] * reported


def test_smaller_window_is_no_train() -> None:
    flow = started(HyvarFold, cwnd_pkts=100)
    arrives(flow, 1, 499, apart_us=1_000)
    flow.reports.clear()
    flow.set(gain_ppm=800_000)
    arrives(flow, 500, 700, apart_us=100)
    assert trains(flow) == []
