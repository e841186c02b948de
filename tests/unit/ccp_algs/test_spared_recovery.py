"""Readings of Flex-Cubic: the window while what was spared is repaired, and inflation that has to last."""

import pytest

from ccp_algs.episodes import CUT
from ccp_algs.spared_recovery import GROWS, HELD, PRR
from tests.unit.ccp_algs.folded import MSS, OPEN, events, timeout
from tests.unit.ccp_algs.test_flex_cubic import flex, lose


@pytest.mark.parametrize(("reading", "grows"), [(GROWS, True), (HELD, False)])
def test_window_grows_or_is_held_while_a_spared_loss_is_repaired(reading: int, grows: bool) -> None:
    flow = flex(spared_window=reading)
    lose(flow, 60_000)
    for _ in range(20):
        flow.round_trip()
    assert (flow.cwnd > 101 * MSS) == grows
    assert flow.cwnd >= 100 * MSS
    flow.ca_state = OPEN
    before = flow.cwnd
    for _ in range(20):
        flow.round_trip()
    assert flow.cwnd > before


def test_window_follows_what_is_delivered_and_comes_back() -> None:
    flow = flex(spared_window=PRR)
    lose(flow, 60_000, bytes_in_flight=60 * MSS)
    assert flow.cwnd == 61 * MSS
    flow.ack(2, bytes_in_flight=62 * MSS)
    assert flow.cwnd == 65 * MSS
    flow.ack(2, bytes_in_flight=200 * MSS)
    assert flow.cwnd == 100 * MSS, "never above what it was"
    flow.ack(2, bytes_in_flight=10 * MSS)
    flow.ca_state = OPEN
    flow.ack(1, cwnd_limited=0)
    assert flow.cwnd == 100 * MSS
    assert not events(flow)


def test_timeout_after_a_spared_loss_begins_in_slow_start() -> None:
    # Linux calls cong_avoid in the state Loss, and a timeout ends the recovery whose window is restored.
    flow = flex(spared_window=PRR)
    lose(flow, 60_000, bytes_in_flight=60 * MSS)
    timeout(flow)
    assert flow.cwnd == 2 * MSS
    flow.ack(2, rtt_us=60_000)
    assert flow.cwnd == 4 * MSS
    flow.ca_state = OPEN
    flow.ack(2, rtt_us=60_000)
    assert flow.cwnd == 6 * MSS


def test_congestion_in_a_spared_recovery_reduces_the_window_from_before_it() -> None:
    flow = flex(spared_window=PRR)
    lose(flow, 60_000, bytes_in_flight=60 * MSS)
    lose(flow, 100_000, bytes_in_flight=60 * MSS)
    assert flow["ssthresh_bytes"] == 70 * MSS
    assert flow.reports[-1]["prior_bytes"] == 100 * MSS


def test_congestion_in_a_spared_recovery_is_answered_under_prr_too() -> None:
    flow = flex(spared_window=PRR)
    lose(flow, 60_000)
    lose(flow, 100_000)
    assert events(flow) == [CUT]
    assert flow["ssthresh_bytes"] == 70 * MSS


@pytest.mark.parametrize(("lasted_us", "is_cut"), [(0, False), (199_000, False), (200_000, True)])
def test_inflation_has_to_last_so_many_round_trips(lasted_us: int, is_cut: bool) -> None:
    flow = flex(persist_rounds=2)
    flow.ack(0, rtt_us=100_000, cwnd_limited=0)
    flow.ack(0, rtt_us=100_000, after_us=lasted_us, cwnd_limited=0)
    lose(flow, 100_000)
    assert events(flow) == ([CUT] if is_cut else [])


def test_one_rtt_without_inflation_begins_again() -> None:
    flow = flex(persist_rounds=2)
    for rtt_us in (100_000, 99_000, 100_000):
        flow.ack(0, rtt_us=rtt_us, after_us=150_000, cwnd_limited=0)
    lose(flow, 100_000)
    assert not events(flow)
