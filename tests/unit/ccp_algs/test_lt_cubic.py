"""Loss-tolerant CUBIC: which losses are low, what two of them change, and that without them it is `cubic`."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ccp_algs.cubic import CubicFold
from ccp_algs.episodes import CUT
from ccp_algs.lt_cubic import LtCubicFold
from ccp_algs.tolerance import FLOOD, HIGH, SPARED_LOSS, UNKNOWN
from tests.unit.ccp_algs.folded import LOSS, MSS, NO_SAMPLE, OPEN, RECOVERY, Folded, acks, events, started

MIN_RTT_US = 60_000
QUEUE_US = 30_000
RATE = 100 * MSS * 1_000_000 // MIN_RTT_US
"""Delivery rate of a window of 100 segments without a queue [bytes/s]."""


class Path:
    """A flow in congestion avoidance that has seen a full queue, and what is delivered and lost of it."""

    def __init__(self, cwnd_pkts: float = 100) -> None:
        self.flow = started(LtCubicFold, cwnd_pkts, cwnd_pkts, min_rtt_us=MIN_RTT_US)
        self.flow.srtt_us = MIN_RTT_US
        self.delivered = self.lost = 0
        self.ack(MIN_RTT_US + QUEUE_US, cwnd_limited=0)
        self.round_trips(2)

    def ack(self, rtt_us: int, lost: int = 0, **prims: int) -> None:
        """Fold an ACK of one segment, or one that shows lost segments."""
        self.delivered += lost == 0
        self.lost += lost
        usual = {"delivered": self.delivered, "lost": self.lost, "packets_in_flight": self.flow.cwnd // MSS}
        rates = {"rate_incoming": RATE, "rate_outgoing": RATE}
        self.flow.ca_state = RECOVERY if lost else OPEN
        self.flow.ack(int(lost == 0), rtt_us=rtt_us, **{"lost_pkts_sample": lost, **usual, **rates, **prims})

    def round_trips(self, n: float, rtt_us: int = MIN_RTT_US) -> None:
        """Let round trips pass in which the window is not used up."""
        for _ in range(round(n * 110)):
            self.ack(rtt_us, after_us=MIN_RTT_US // 100, cwnd_limited=0)

    def lose(self, rise_us: int, lost: int = 1) -> int:
        """Lose segments at an RTT; return the verdict."""
        before = len(events(self.flow))
        self.ack(MIN_RTT_US + rise_us, lost)
        self.was_cut = events(self.flow)[before:] == [CUT]
        report = self.flow.ack(0, after_us=200_000, cwnd_limited=0, rtt_us=NO_SAMPLE)
        return report["loss_reason"] if report and not self.was_cut else self.flow.reports[-2]["loss_reason"]


def tolerant(cwnd_pkts: float = 100) -> Path:
    """Return a flow that has seen two low losses."""
    path = Path(cwnd_pkts)
    for _ in range(2):
        path.ack(MIN_RTT_US, lost=1)
        path.round_trips(3)
    return path


@pytest.mark.parametrize(
    ("rise_us", "is_spared"),
    [(0, True), (5_000, True), (5_001, False), (QUEUE_US, False)],  # a twelfth of the smallest RTT
)
def test_loss_is_judged_by_its_rise_over_the_smallest_rtt(rise_us: int, is_spared: bool) -> None:
    path = Path()
    path.ack(MIN_RTT_US + rise_us, lost=1)
    assert path.flow.cwnd == (100 if is_spared else 70) * MSS


def test_on_a_short_path_bursts_are_no_queue() -> None:
    path = Path()
    path.flow.min_rtt_us = 8_000
    path.flow.set(max_rtt_us=20_000, old_max_rtt_us=0, round_peak_us=0, old_peak_us=0)
    path.ack(10_000, lost=1)
    assert path.flow.cwnd == 100 * MSS
    path.ack(10_001, lost=1)
    assert path.flow.cwnd == 70 * MSS


def test_in_a_shallow_buffer_a_quarter_of_the_range_is_the_limit() -> None:
    path = Path()
    path.flow.set(max_rtt_us=MIN_RTT_US + 4_000, old_max_rtt_us=0)
    path.ack(MIN_RTT_US + 1_001, lost=1)
    assert path.flow.cwnd == 70 * MSS


@pytest.mark.parametrize(("samples", "is_spared"), [(1, True), (2, False)])
def test_large_rtts_of_the_round_trip_count_but_not_that_of_one_delayed_ack(
    samples: int, is_spared: bool
) -> None:
    path = Path()
    for _ in range(samples):
        path.ack(MIN_RTT_US + QUEUE_US, cwnd_limited=0)
    path.ack(MIN_RTT_US, lost=1)
    assert path.flow.cwnd == (100 if is_spared else 70) * MSS


def test_a_flood_is_congestion_at_any_rtt() -> None:
    path = tolerant()
    path.round_trips(2)
    path.ack(MIN_RTT_US, lost=4)
    assert path.flow.cwnd == 100 * MSS
    path.ack(MIN_RTT_US, lost=4)
    assert path.flow.cwnd < 100 * MSS
    assert path.flow.reports[-1]["loss_reason"] == FLOOD


def test_without_a_sample_a_loss_is_congestion() -> None:
    flow = Folded(LtCubicFold, 100)
    flow.ssthresh, flow.min_rtt_us = 100 * MSS, MIN_RTT_US
    flow.ack(0, cwnd_limited=0, rtt_us=NO_SAMPLE)
    flow.ca_state = RECOVERY
    flow.ack(0, lost_pkts_sample=1, rtt_us=NO_SAMPLE)
    assert flow.cwnd == 70 * MSS
    assert flow.reports[-1]["loss_reason"] == UNKNOWN


def test_one_low_loss_is_no_tolerance_two_in_different_round_trips_are() -> None:
    path = Path()
    path.ack(MIN_RTT_US, lost=1)
    path.ack(MIN_RTT_US, lost=1)
    assert path.flow["tolerant_until_us"] == 0
    path.round_trips(3)
    path.ack(MIN_RTT_US, lost=1)
    assert path.flow["tolerant_until_us"] == path.flow.now_us + 4_000_000


def test_memory_of_zero_is_no_tolerance() -> None:
    path = Path()
    path.flow.set(memory_us=0)
    for _ in range(4):
        path.ack(MIN_RTT_US, lost=1)
        path.round_trips(3)
    assert path.flow["paced"] == 0


def test_tolerant_flow_reduces_to_what_the_path_carries_and_by_a_tenth_at_least() -> None:
    path = tolerant(120)
    path.ack(MIN_RTT_US + QUEUE_US, lost=1)
    assert path.flow["ssthresh_bytes"] == pytest.approx(100 * MSS, rel=1e-3)
    path = tolerant(100)
    path.ack(MIN_RTT_US + QUEUE_US, lost=1)
    assert path.flow["ssthresh_bytes"] == 90 * MSS


def test_reduction_of_a_tolerant_flow_is_never_below_cubics() -> None:
    path = tolerant(200)
    path.ack(MIN_RTT_US + QUEUE_US, lost=1)
    assert path.flow["ssthresh_bytes"] == 140 * MSS


def test_tolerant_flow_grows_by_an_eighth_a_round_trip_while_there_is_no_queue() -> None:
    path = tolerant()
    before = path.flow.cwnd
    for _ in range(before // MSS):
        path.ack(MIN_RTT_US, after_us=MIN_RTT_US // 100)
    assert path.flow.cwnd == pytest.approx(before * 1.125, rel=0.02)
    still = path.flow.cwnd
    for _ in range(200):
        path.ack(MIN_RTT_US + QUEUE_US, after_us=MIN_RTT_US // 100)
    assert path.flow.cwnd == pytest.approx(still, rel=0.02)


def test_tolerant_flow_is_paced_until_it_is_tolerant_no_more() -> None:
    path = tolerant()
    rate = path.flow.interpreter.rate_bytes_per_s
    assert rate == pytest.approx(1.2 * path.flow.cwnd * 1e6 / MIN_RTT_US, rel=1e-3)
    path.ack(MIN_RTT_US, after_us=4_000_000, cwnd_limited=0)
    assert path.flow.interpreter.rate_bytes_per_s == 0


def test_ecn_echo_ends_tolerance() -> None:
    path = tolerant()
    path.flow.ca_state = RECOVERY
    path.flow.ack(0, lost_pkts_sample=0, ecn_bytes=MSS, rtt_us=MIN_RTT_US)
    assert path.flow["tolerant_until_us"] == 0
    assert path.flow["ssthresh_bytes"] == 70 * MSS


@given(rounds=acks(), losses=st.sets(st.integers(0, 99), max_size=20), in_avoidance=st.booleans())
def test_without_a_low_loss_every_window_is_that_of_cubic(
    rounds: list[dict[str, Any]], losses: set[int], in_avoidance: bool
) -> None:
    pair = [started(one, 100, 100 if in_avoidance else 1e6, 50_000) for one in (LtCubicFold, CubicFold)]
    for i, ack in enumerate(rounds):
        high = {"rtt_us": 400_000, "lost_pkts_sample": 1} if i in losses else {}
        for flow in pair:
            flow.ca_state = RECOVERY if i in losses else OPEN
            flow.ack(**ack | high)
        assert pair[0].cwnd == pair[1].cwnd
    assert pair[0]["tolerant_until_us"] == 0


def test_reasons_are_reported() -> None:
    path = Path()
    assert path.lose(0) == SPARED_LOSS
    path.round_trips(3)
    assert path.lose(QUEUE_US) == HIGH


def test_timeout_without_a_queue_keeps_the_threshold() -> None:
    path = Path()
    path.flow.ca_state = LOSS
    path.flow.cwnd = MSS
    path.flow.ack(0, was_timeout=1, lost_pkts_sample=1, bytes_in_flight=0, rtt_us=NO_SAMPLE)
    assert path.flow["ssthresh_bytes"] == 100 * MSS
