"""Westwood+: the bandwidth estimate, by hand, and what a loss leaves."""

import pytest

from ccp_algs.westwood import WestwoodFold
from tests.unit.ccp_algs.folded import INFINITY, MSS, RECOVERY, Folded, timeout

RTT_US = 100_000


def flow(cwnd_pkts: float = 100, ssthresh_pkts: float = 100) -> Folded:
    found = Folded(WestwoodFold, cwnd_pkts)
    found.ssthresh = int(ssthresh_pkts * MSS)
    found.min_rtt_us = RTT_US
    found.delivered = 0  # type: ignore[attr-defined]
    found.ack(0, cwnd_limited=0)
    return found


def deliver(found: Folded, pkts: int, after_us: int = RTT_US) -> None:
    """Let a round trip pass in which segments are delivered."""
    found.delivered += pkts  # type: ignore[attr-defined]
    found.ack(0, after_us=after_us, cwnd_limited=0, delivered=found.delivered)  # type: ignore[attr-defined]


def lose(found: Folded) -> None:
    found.ca_state = RECOVERY
    found.ack(0, lost_pkts_sample=1, delivered=found.delivered)  # type: ignore[attr-defined]


def test_a_loss_leaves_what_the_path_carries() -> None:
    found = flow()
    deliver(found, 60)
    lose(found)
    assert found["ssthresh_bytes"] == 60 * MSS


def test_estimate_goes_through_two_filters_of_seven_eighths() -> None:
    found = flow()
    deliver(found, 80)
    deliver(found, 16)
    lose(found)
    once = (7 * 80 + 16) / 8
    assert found["ssthresh_bytes"] == pytest.approx((7 * 80 + once) / 8 * MSS, abs=2)


def test_a_sample_is_of_a_round_trip_at_least() -> None:
    found = flow()
    deliver(found, 80)
    deliver(found, 1, after_us=RTT_US // 2)
    lose(found)
    assert found["ssthresh_bytes"] == 80 * MSS


def test_a_loss_never_makes_the_window_larger() -> None:
    found = flow(cwnd_pkts=50, ssthresh_pkts=50)
    deliver(found, 80)
    lose(found)
    assert found["ssthresh_bytes"] == 50 * MSS


def test_a_loss_before_the_first_estimate_leaves_two_segments() -> None:
    found = flow()
    lose(found)
    assert found["ssthresh_bytes"] == 2 * MSS


def test_a_timeout_starts_again_below_the_same_threshold() -> None:
    found = flow()
    deliver(found, 60)
    timeout(found, delivered=60)
    assert found["ssthresh_bytes"] == 60 * MSS
    assert found.cwnd <= 2 * MSS


def test_grows_as_reno() -> None:
    found = flow()
    for _ in range(100):
        found.ack(1)
    assert found.cwnd == 101 * MSS
    slow = flow(cwnd_pkts=10, ssthresh_pkts=1e6)
    slow.ack(5)
    assert slow.cwnd == 15 * MSS
    assert slow["ssthresh_bytes"] < INFINITY
