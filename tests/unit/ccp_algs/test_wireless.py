"""Losses judged by telemetry: corrections that come later, both ways, and the mild reductions of New L2."""

import pytest

from ccp_algs.cubic_core import k_us
from ccp_algs.episodes import CUT, STARTED, STARTING, TIMEOUT, UNDO
from tests.unit.ccp_algs.folded import MSS, OPEN, RECOVERY, events, timeout
from tests.unit.ccp_algs.steered import CURVE, NO_ROOM, RTT_US, Steered

# Corrections


@pytest.mark.parametrize(
    ("mode", "cwnd_pkts", "then_pkts"), [("keep", 70, 70), ("mild", 66.5, 66.5), ("cubic", 100, 70)]
)
def test_spared_loss_that_was_overflow_is_answered_late(
    mode: str, cwnd_pkts: float, then_pkts: float
) -> None:
    flow = Steered(wireless_loss="keep" if mode == "cubic" else mode)
    flow.receive("none")
    flow.lose()
    flow.param(wireless_loss=mode)
    flow.receive("overflow", after_us=10_000)
    flow.ack(0, cwnd_limited=0)
    assert flow.cwnd_pkts == pytest.approx(cwnd_pkts, abs=0.01)
    flow.receive("overflow", after_us=10_000)
    flow.lose()
    flow.receive("none")
    flow.lose()
    assert flow.cwnd_pkts == pytest.approx(then_pkts, abs=0.01), "once a window"


def test_overflow_that_is_reported_before_the_kernel_sees_it_is_answered_once() -> None:
    flow = Steered()
    flow.receive("overflow")
    flow.ack(0, cwnd_limited=0)
    assert (flow.cwnd_pkts, events(flow)) == (70, [STARTED, CUT])
    flow.ack(0, cwnd_limited=0)
    flow.receive("none", NO_ROOM, after_us=30_000)
    flow.lose()
    assert (flow.cwnd_pkts, events(flow)) == (70, [STARTED, CUT])
    flow.repair()
    flow.receive("none", NO_ROOM, after_us=100_000)
    flow.lose()
    assert flow.cwnd_pkts == 49, "new data"


def test_overflow_that_goes_on_is_answered_again() -> None:
    flow = Steered()
    for expected in (70, 49, 34.3):
        flow.receive("overflow")
        flow.ack(0, cwnd_limited=0)
        assert flow.cwnd_pkts == pytest.approx(expected, abs=0.01)
        flow.repair()
        flow.now_us += RTT_US + 20_000


@pytest.mark.parametrize(("mode", "cwnd_pkts"), [("keep", 100), ("mild", 95)])
def test_reduction_for_a_wireless_loss_is_taken_back(mode: str, cwnd_pkts: int) -> None:
    flow = Steered(wireless_loss=mode)
    flow.set(w_max_bytes=120 * MSS, k_us=3_000_000, epoch=1, t_us=2_000_000, w_est_bytes=80 * MSS)
    curve = {name: flow[name] for name in CURVE}
    flow.lose()
    assert flow.cwnd_pkts == 70
    flow.receive("wireless", after_us=5_000)
    flow.ack(0, cwnd_limited=0)
    assert events(flow) == [STARTED, CUT, UNDO]
    assert flow.cwnd_pkts == cwnd_pkts
    assert flow.ssthresh_pkts == cwnd_pkts
    assert {name: flow[name] for name in CURVE} == curve
    flow.receive("wireless", after_us=5_000)
    flow.ack(0, cwnd_limited=0)
    assert events(flow) == [STARTED, CUT, UNDO], "once"


def test_reduction_that_was_taken_back_is_over_while_the_kernel_still_repairs() -> None:
    flow = Steered()
    flow.lose()
    flow.receive("wireless", after_us=5_000)
    flow.ack(0, cwnd_limited=0)
    flow.ack(1, cwnd_limited=0, bytes_in_flight=20 * MSS)
    assert flow.cwnd_pkts == 100, "not tied to what is delivered"
    flow.receive("none")
    flow.round_trip()
    assert flow.ca_state == RECOVERY
    assert flow.cwnd_pkts > 100


def test_window_that_has_grown_past_what_is_taken_back_stays() -> None:
    flow = Steered()
    flow.lose()
    flow.repair()
    flow.cwnd = 120 * MSS
    flow.receive("wireless", after_us=5_000)
    flow.ack(0, cwnd_limited=0)
    assert flow.cwnd_pkts == 120


def test_overflow_after_a_reduction_that_was_taken_back_is_answered() -> None:
    flow = Steered()
    flow.lose()
    flow.receive("wireless", after_us=5_000)
    flow.ack(0, cwnd_limited=0)
    flow.receive("overflow", after_us=10_000)
    flow.ack(0, cwnd_limited=0)
    assert (flow.cwnd_pkts, events(flow)) == (70, [STARTED, CUT, UNDO, CUT])


@pytest.mark.parametrize(("interval_us", "cwnd_pkts"), [(None, 70), (10_000, 70), (20_001, 100)])
def test_summary_is_of_its_interval(interval_us: int | None, cwnd_pkts: int) -> None:
    flow = Steered()
    flow.lose()
    flow.receive("wireless", after_us=20_000, interval_us=interval_us)
    flow.ack(0, cwnd_limited=0)
    assert flow.cwnd_pkts == cwnd_pkts


def test_program_that_starts_again_has_nothing_to_take_back() -> None:
    flow = Steered()
    flow.lose()
    flow.set(episode=STARTING)
    flow.ack(0, cwnd_limited=0)
    flow.receive("wireless", after_us=5_000)
    assert flow["take_back"] == 0


def test_taken_back_reduction_restores_the_window_before_the_previous_one() -> None:
    # RFC 9438 section 4.9: cwnd_prior; here there was no reduction before.
    flow = Steered()
    flow.lose()
    flow.receive("wireless", after_us=5_000)
    flow.ack(0, cwnd_limited=0)
    assert [report["prior_bytes"] // MSS for report in flow.reports] == [0, 100, 0]


@pytest.mark.parametrize("cause", ["none", "overflow", "mixed"])
def test_reduction_that_telemetry_does_not_call_wrong_stays(cause: str) -> None:
    flow = Steered()
    flow.lose()
    for _ in range(3):
        flow.receive(cause, after_us=5_000)
        flow.ack(0, cwnd_limited=0)
    assert flow.cwnd_pkts == 70


def test_order_for_a_reduction_that_is_not_the_last_one_any_more_is_void() -> None:
    flow = Steered()
    flow.lose()
    flow.set(take_back=1)
    flow.ack(130, cwnd_limited=0, lost_pkts_sample=1)  # the next window is reduced on the ACK that brings it
    assert flow.cwnd_pkts == 49
    flow.set(late_cut=1)
    flow.repair()
    assert flow.cwnd_pkts == 49


def test_order_for_data_that_a_reduction_has_answered_is_used_up() -> None:
    flow = Steered()
    flow.lose()
    flow.set(late_cut=2)
    flow.ack(1, cwnd_limited=0)
    flow.repair()
    assert flow.cwnd_pkts == 70


def test_timeout_that_answers_a_loss_is_a_reduction_of_its_own() -> None:
    flow = Steered()
    flow.lose()
    timeout(flow)
    assert [report["cuts"] for report in flow.reports] == [0, 1, 2]
    flow.set(take_back=1)
    flow.ack(0, cwnd_limited=0)
    assert events(flow) == [STARTED, CUT, TIMEOUT]


def test_order_waits_for_the_next_ack_whatever_is_received_until_then() -> None:
    flow = Steered()
    flow.lose()
    flow.receive("wireless", after_us=5_000)
    flow.receive("none", after_us=10_000)
    flow.ack(0, cwnd_limited=0)
    assert flow.cwnd_pkts == 100


def test_reduction_is_taken_back_after_a_timeout_without_its_window() -> None:
    flow = Steered()
    flow.lose()
    flow.receive("wireless", after_us=5_000)
    timeout(flow)  # before the order came; the kernel has collapsed the window
    assert flow.cwnd == 2 * MSS
    assert flow.ssthresh_pkts == 100


# New L2


def test_mild_reduction_takes_its_part_once_a_window() -> None:
    flow = Steered(wireless_loss="mild", wireless_beta=0.8)
    flow.receive("wireless")
    for _ in range(3):
        flow.lose()
    assert flow.cwnd_pkts == pytest.approx(80, abs=0.01)
    flow.repair()
    flow.lose()
    assert flow.cwnd_pkts == pytest.approx(64, abs=0.01)


def test_loss_that_an_ordered_reduction_has_answered_reduces_nothing_mildly() -> None:
    flow = Steered(wireless_loss="mild")
    flow.receive("overflow")
    flow.ack(0, cwnd_limited=0)
    flow.receive("wireless", after_us=10_000)
    flow.lose()
    assert flow.cwnd_pkts == 70


def test_window_grows_while_the_loss_of_a_mild_reduction_is_repaired() -> None:
    flow = Steered(wireless_loss="mild")
    flow.receive("wireless")
    flow.lose()
    for _ in range(10):
        flow.receive("none")
        flow.round_trip()
    assert flow.ca_state == RECOVERY
    assert flow.cwnd_pkts > 95


@pytest.mark.parametrize(("w_max_pkts", "expected_pkts"), [(0, 100), (80, 100), (150, 150)])
def test_mild_reduction_restarts_the_curve_but_never_lowers_its_top(
    w_max_pkts: int, expected_pkts: int
) -> None:
    flow = Steered(wireless_loss="mild")
    flow.set(w_max_bytes=w_max_pkts * MSS, k_us=3_000_000, epoch=1, t_us=2_000_000)
    flow.receive("wireless")
    flow.lose()
    assert flow["w_max_bytes"] == expected_pkts * MSS
    assert flow["epoch"] == 0
    assert flow["k_us"] == k_us(expected_pkts * MSS, 95 * MSS, MSS)
    assert flow["alpha_permille"] == 529, "that of beta: it is about fairness under congestion"


def test_mild_reduction_ends_the_first_slow_start() -> None:
    flow = Steered(40, None, wireless_loss="mild")
    flow.receive("wireless")
    flow.lose()
    assert (flow.cwnd_pkts, flow.ssthresh_pkts) == (38, 38)


def test_mild_reduction_after_a_timeout_takes_from_the_threshold_what_it_takes_from_the_window() -> None:
    flow = Steered(wireless_loss="mild")
    flow.receive("wireless")
    timeout(flow)
    assert (flow.cwnd, flow.ssthresh_pkts) == (2 * MSS, 95)
    timeout(flow)
    assert flow.ssthresh_pkts == 95, "once a window"
    flow.ca_state = OPEN
    flow.ack(130, cwnd_limited=0)
    flow.cwnd = 20 * MSS
    flow.lose()
    assert (flow.cwnd_pkts, flow.ssthresh_pkts) == pytest.approx((19, 90.25), abs=0.01)


def test_timeout_of_the_first_slow_start_is_mild_too() -> None:
    flow = Steered(40, None, wireless_loss="mild")
    flow.receive("wireless")
    timeout(flow)
    assert (flow.cwnd, flow.ssthresh_pkts) == (2 * MSS, 38)
