"""Growth below the threshold by equation (1): what an ACK adds, its bounds, and when it is slow start."""

import pytest

from telemetry.schema import IntHop
from tests.unit.ccp_algs.steered import NO_ROOM, RTT_US, SILENT, Steered


@pytest.mark.parametrize(("increment", "added_pkts"), [(0, 2), (1, 2), (2, 4), (3, 6)])
def test_window_grows_by_the_equation_below_the_threshold(increment: int, added_pkts: int) -> None:
    flow = Steered(10, 100, increment=increment, period_rtts=4.0)
    flow.receive()  # 100 / (250 a second * 4 * 0.1 s * 1) = 1
    flow.ack(2)
    assert flow.cwnd_pkts == 10 + added_pkts


def test_growth_of_a_round_is_bounded_by_the_free_room_of_each_flow() -> None:
    flow = Steered(10, None, increment=3, hystart=False)
    scarce = (IntHop(queue_depth_pkts=0, queue_free_pkts=12, arrival_pkts_per_s=1, flow_count=2),)
    for expected_pkts in (16, 22, 28):
        for _ in range(5):
            flow.receive(hops=scarce, after_us=RTT_US // 5)
            flow.ack(4)
        assert flow.cwnd_pkts == expected_pkts


def test_window_stays_where_there_is_no_room() -> None:
    flow = Steered(50, 100, increment=3)
    flow.receive(hops=NO_ROOM)
    for _ in range(5):
        flow.round_trip()
        flow.receive(hops=NO_ROOM)
    assert flow.cwnd_pkts == 50


def test_growth_ends_at_the_threshold() -> None:
    flow = Steered(95, 100, increment=3)
    flow.receive()
    flow.ack(44)
    assert flow.cwnd_pkts == 100


@pytest.mark.parametrize("hops", [(), SILENT, (IntHop(queue_depth_pkts=0, flow_count=1),)])
def test_growth_without_the_fields_is_slow_start(hops: tuple[IntHop, ...]) -> None:
    flow = Steered(10, 100, increment=3)
    flow.receive()
    flow.receive(hops=hops)
    flow.ack(2)
    assert flow.cwnd_pkts == 12


@pytest.mark.parametrize("end", ["stale", "lost", "switched off"])
def test_growth_without_telemetry_is_slow_start(end: str) -> None:
    flow = Steered(10, 100, increment=3)
    flow.receive()
    if end == "stale":
        flow.now_us += 1_000_000
    elif end == "lost":
        flow.algorithm.on_telemetry_lost("int_summary", "sink")
    else:
        flow.param(increment=0)
        flow.ack(0, cwnd_limited=0, after_us=200_000)
    flow.ack(2)
    assert flow.cwnd_pkts == 12


@pytest.mark.parametrize(
    ("interval_us", "srtt_us", "round_us"),
    [
        (10_000, RTT_US, RTT_US),
        (10_000, 200, 10_000),  # a LAN: what was added does not show sooner than in the next summary
        (10_000, 0, 10_000),
        (None, 200, 10_000),
        (0, 200, 10_000),
        (3_000_000, RTT_US, RTT_US),  # the first summary behind a pause of the flow
    ],
)
def test_round_is_a_round_trip_or_the_interval(interval_us: int | None, srtt_us: int, round_us: int) -> None:
    flow = Steered(10, None, increment=1, hystart=False)
    flow.srtt_us = srtt_us
    flow.ack(0, cwnd_limited=0, after_us=200_000)  # the regular report
    scarce = (IntHop(queue_depth_pkts=0, queue_free_pkts=3, arrival_pkts_per_s=1, flow_count=1),)
    for expected_pkts in (13, 16):
        flow.receive(hops=scarce, interval_us=interval_us)
        flow.ack(5)
        assert flow.cwnd_pkts == expected_pkts
        flow.ack(5, after_us=round_us - 1)
        assert flow.cwnd_pkts == expected_pkts
        flow.now_us += 1


def round_trips_to(threshold_pkts: int, increment: int) -> int:
    """Return how long a flow takes over a path with room for 100 packets and 90 on the way."""
    flow = Steered(10, threshold_pkts, increment=increment)
    for n in range(100):
        if flow.cwnd_pkts >= threshold_pkts:
            return n
        queued = min(100, max(0, int(flow.cwnd_pkts) - 90))
        arrival = int(min(900, flow.cwnd_pkts * 10))
        flow.receive(
            hops=(
                IntHop(
                    queue_depth_pkts=queued,
                    queue_free_pkts=100 - queued,
                    arrival_pkts_per_s=arrival,
                    flow_count=1,
                ),
            )
        )
        flow.round_trip(pkts_per_ack=1)
    pytest.fail("it never gets there")


def test_increments_2_and_3_reach_the_threshold_before_cubic() -> None:
    # Figure 7 of the paper.
    cubic, *new = [round_trips_to(150, increment) for increment in (0, 1, 2, 3)]
    assert new[2] < new[1] < cubic
