"""Loss episodes, shown on Reno (halving) and on CUBIC."""

from typing import Any

import pytest

from ccp_algs.cubic import CubicFold
from ccp_algs.dctcp import DctcpFold
from ccp_algs.episodes import CUT, STARTED, TIMEOUT, UNDO
from ccp_algs.reno import RenoFold
from tests.unit.ccp_algs.folded import (
    CWR,
    DISORDER,
    LOSS,
    MSS,
    OPEN,
    RECOVERY,
    Folded,
    events,
    started,
    timeout,
)


def recover(flow: Folded, pkts: int) -> None:
    """Acknowledge `pkts` segments in recovery, two at a time, with the window used up."""
    for _ in range(pkts // 2):
        flow.ack(2, after_us=1000, bytes_in_flight=flow.cwnd)


def test_first_fold_takes_over_the_threshold_and_says_that_it_started() -> None:
    flow = Folded(RenoFold, 100)
    flow.ssthresh = 77 * MSS
    report = flow.ack(1)
    assert report is not None
    assert report["event"] == STARTED
    assert flow["ssthresh_bytes"] == 77 * MSS


def test_start_that_calls_for_no_answer_is_not_reported() -> None:
    flow = Folded(RenoFold, 100, configured=1)
    flow.ssthresh = 77 * MSS
    assert flow.ack(1) is None
    assert flow["ssthresh_bytes"] == 77 * MSS
    flow.ack(0, lost_pkts_sample=1, ca_state=RECOVERY)
    assert events(flow) == [CUT]


@pytest.mark.parametrize(
    ("program", "beta"),
    [(RenoFold, 0.5), (CubicFold, 0.7), (DctcpFold, 0.5)],  # RFC 5681 eq. 4, RFC 9438 4.6, RFC 8257 3.5
)
def test_window_is_reduced_on_the_ack_that_shows_the_loss(program: Any, beta: float) -> None:
    flow = started(program)
    flow.ca_state = RECOVERY
    report = flow.ack(0, lost_pkts_sample=1)
    assert report is not None
    assert (report["event"], report["lost"], report["prior_bytes"]) == (CUT, 1, 100 * MSS)
    assert flow.cwnd == flow["ssthresh_bytes"] == int(beta * 100 * MSS)


def test_next_episode_reduces_again() -> None:
    flow = started(RenoFold)
    flow.ca_state = RECOVERY
    flow.ack(0, lost_pkts_sample=1)
    recover(flow, 100)
    flow.ca_state = OPEN
    flow.ack(1)
    flow.ca_state = RECOVERY
    flow.ack(0, lost_pkts_sample=1)
    assert events(flow) == [CUT, CUT]
    assert flow.cwnd == pytest.approx(25 * MSS, abs=MSS)


def test_episode_that_follows_without_a_pause_reduces_again() -> None:
    # RFC 6582 section 3.2: behind `recover`, here 100 + 25 + 3 segments, losses are those of newer data.
    flow = started(RenoFold)
    flow.ca_state = RECOVERY
    flow.ack(0, lost_pkts_sample=1)
    recover(flow, 126)
    assert events(flow) == [CUT]
    recover(flow, 4)
    assert events(flow) == [CUT, CUT]


@pytest.mark.parametrize("prims", [{"lost_pkts_sample": 1}, {"local_congestion": 1}])
def test_loss_is_answered_when_the_kernel_has_already_recovered(prims: dict[str, int]) -> None:
    flow = started(RenoFold)
    flow.ack(1, **prims)
    assert events(flow) == [CUT]
    assert flow.cwnd == 50 * MSS


def test_ecn_echo_reduces_reno_and_is_left_to_dctcp() -> None:
    for program, expected in ((RenoFold, [CUT]), (DctcpFold, [])):
        flow = started(program)
        flow.ca_state = CWR
        flow.ack(1)
        assert events(flow) == expected


def test_full_local_queue_reduces_dctcp_too() -> None:
    flow = started(DctcpFold)
    flow.ca_state = CWR
    flow.ack(1, local_congestion=1)
    assert events(flow) == [CUT]


def test_reordering_alone_reduces_nothing() -> None:
    flow = started(RenoFold)
    flow.ca_state = DISORDER
    flow.round_trip()
    assert events(flow) == []
    assert flow.cwnd >= 100 * MSS


def test_window_follows_what_is_delivered_when_max_of_it_is_lost() -> None:
    # RFC 6937 section 3: what is delivered, and a segment more if that was in order and shows no loss.
    flow = started(RenoFold)
    flow.ca_state = RECOVERY
    flow.ack(0, lost_pkts_sample=60, bytes_in_flight=20 * MSS)
    assert flow.cwnd == 20 * MSS
    flow.ack(3, bytes_in_flight=17 * MSS)
    assert flow.cwnd == (17 + 3 + 1) * MSS
    flow.ack(3, bytes_in_flight=17 * MSS, lost_pkts_sample=1)
    assert flow.cwnd == (17 + 3) * MSS
    flow.ack(0, bytes_in_flight=17 * MSS, packets_misordered=2)
    assert flow.cwnd == (17 + 2) * MSS
    flow.ca_state = OPEN
    flow.ack(1, cwnd_limited=0)
    assert flow.cwnd == flow["ssthresh_bytes"] == 50 * MSS


def test_timeout_starts_slow_start_over_below_a_reduced_threshold() -> None:
    # RFC 5681 section 3.1: ssthresh from the window before the timeout, cwnd at the loss window.
    flow = started(RenoFold)
    report = timeout(flow)
    assert report is not None
    assert (report["event"], report["prior_bytes"]) == (TIMEOUT, 100 * MSS)
    assert (flow.cwnd, flow["ssthresh_bytes"]) == (2 * MSS, 50 * MSS)
    flow.ack(2)
    assert flow.cwnd == 4 * MSS
    flow.ack(4)
    assert flow.cwnd == 8 * MSS


def test_second_timeout_of_the_same_data_keeps_the_threshold() -> None:
    # RFC 5681 section 3.1: "held constant" when the segment was retransmitted by the timer before.
    flow = started(RenoFold)
    timeout(flow)
    report = timeout(flow)
    assert report is not None
    assert report["event"] == TIMEOUT
    assert (flow.cwnd, flow["ssthresh_bytes"]) == (2 * MSS, 50 * MSS)


def test_timeout_in_recovery_keeps_the_threshold_of_the_recovery() -> None:
    flow = started(RenoFold)
    flow.ca_state = RECOVERY
    flow.ack(0, lost_pkts_sample=1)
    timeout(flow)
    assert events(flow) == [CUT, TIMEOUT]
    assert (flow.cwnd, flow["ssthresh_bytes"]) == (2 * MSS, 50 * MSS)
    flow.ack(2)
    assert flow.cwnd == 4 * MSS


def test_smaller_segment_size_is_no_timeout() -> None:
    # The kernel enters Loss for a path MTU that shrank, and leaves the window.
    flow = started(RenoFold)
    flow.ca_state = LOSS
    flow.ack(0, was_timeout=1, lost_pkts_sample=10)
    assert events(flow) == []
    assert flow.cwnd == 100 * MSS


@pytest.mark.parametrize("spurious", ["cut", "timeout"])
def test_undo_of_the_kernel_ends_the_episode_and_restores_the_threshold(spurious: str) -> None:
    flow = started(RenoFold, ssthresh_pkts=80)
    if spurious == "cut":
        flow.ca_state = RECOVERY
        flow.ack(0, lost_pkts_sample=1)
    else:
        timeout(flow)
    flow.ca_state = OPEN
    flow.cwnd = 100 * MSS
    flow.ack(1, cwnd_limited=0)
    assert events(flow)[-1] == UNDO
    assert flow.cwnd == 100 * MSS
    assert flow["ssthresh_bytes"] == 80 * MSS
    flow.ca_state = RECOVERY
    flow.ack(0, lost_pkts_sample=1)
    assert flow.cwnd == 50 * MSS  # and the next loss is answered as ever


@pytest.mark.parametrize("ca_state", [CWR, RECOVERY, LOSS])
def test_flow_taken_over_in_trouble_is_not_reduced_for_what_the_fallback_answered(ca_state: int) -> None:
    flow = Folded(RenoFold, 40)
    flow.ssthresh = 40 * MSS
    flow.ca_state = ca_state
    flow.ack(1, lost_pkts_sample=3)
    flow.ack(1, lost_pkts_sample=1)
    assert events(flow) == [STARTED]
    assert flow.cwnd >= 40 * MSS


def test_ecn_episode_lasts_one_round_trip() -> None:
    # RFC 3168 section 6.1.2: once per window. The queue still marks when that window has been acknowledged.
    flow = started(CubicFold)
    flow.ca_state = CWR
    flow.ack(1, bytes_in_flight=99 * MSS)
    assert events(flow) == [CUT]
    for _ in range(33):
        flow.ack(3, after_us=1000, ecn_bytes=3 * MSS)
    assert events(flow) == [CUT], "all that was in flight is acknowledged, nothing that was sent later"
    flow.ack(1, ecn_bytes=MSS)
    assert events(flow) == [CUT, CUT]


def test_ecn_episode_with_data_out_of_order_ends_late_rather_than_early() -> None:
    # What is out of order is not in flight, so the end of the window is not known.
    flow = started(CubicFold)
    flow.ca_state = DISORDER
    flow.ack(0, packets_misordered=20, bytes_in_flight=80 * MSS)
    flow.ca_state = CWR
    flow.ack(1, bytes_in_flight=79 * MSS)
    for _ in range(50):
        flow.ack(2, after_us=1000, ecn_bytes=2 * MSS)
    assert events(flow) == [CUT]


def test_ecn_episode_after_a_calm_ack_reduces_at_the_next_echo() -> None:
    flow = started(CubicFold)
    flow.ca_state = CWR
    flow.ack(1, bytes_in_flight=99 * MSS)
    flow.ca_state = OPEN
    flow.ack(100)
    flow.ca_state = CWR
    flow.ack(1, bytes_in_flight=69 * MSS)
    assert events(flow) == [CUT, CUT]
