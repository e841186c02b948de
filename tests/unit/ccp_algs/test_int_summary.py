"""What a summary of in-band telemetry means: decision table, equation (1), and fields that are missing."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ccp_algs.int_summary import (
    CALM,
    FULL,
    MAX_GROWTH,
    OVERFLOW,
    SPARES,
    UNKNOWN,
    WIRELESS,
    Room,
    room_of,
    verdict_of,
)
from telemetry.schema import FlowId, IntHop, IntSummary

MSS = 1448
FLOW = FlowId(src="2001:db8::1", src_port=40000, dst="2001:db8::2", dst_port=443)


def hop(depth_pkts: int | None = 10, free_pkts: int | None = 90, **fields: Any) -> IntHop:
    """Return a hop with a tenth of its queue in use."""
    return IntHop(queue_depth_pkts=depth_pkts, queue_free_pkts=free_pkts, **fields)


def summary(*hops: IntHop, **fields: Any) -> IntSummary:
    return IntSummary(flow=FLOW, hops=hops, **fields)


CALM_HOP, FULL_HOP, SILENT_HOP = hop(), hop(95, 5), IntHop(node_id=1)
UNLIMITED_HOP = hop(0, None, queue_is_unlimited=True)
DECISIONS = [
    # hops, loss_cause, verdict
    ([CALM_HOP], "none", CALM),
    ([CALM_HOP, CALM_HOP], None, CALM),  # a sink that gives no cause
    ([CALM_HOP], "wireless", WIRELESS),
    ([CALM_HOP], "overflow", OVERFLOW),  # bursts fill a queue that is not full in the mean
    ([CALM_HOP], "mixed", OVERFLOW),
    ([FULL_HOP], "none", FULL),
    ([CALM_HOP, FULL_HOP], None, FULL),  # one is enough
    ([FULL_HOP], "wireless", WIRELESS),  # the sink looked at the packets beside each gap
    ([FULL_HOP], "overflow", OVERFLOW),
    ([hop(89, 11)], "none", CALM),
    ([hop(90, 10)], "none", FULL),  # borderline
    ([hop(1, 0)], "none", FULL),
    ([hop(0, 0)], "none", CALM),  # no queue at all
    ([UNLIMITED_HOP], "none", CALM),
    ([hop(5000, None, queue_is_unlimited=True)], "none", CALM),  # it is never full
    ([hop(5, None)], "none", UNKNOWN),  # nobody knows when it is full
    ([SILENT_HOP], "none", UNKNOWN),
    ([CALM_HOP, SILENT_HOP], "none", UNKNOWN),  # the bottleneck may be there
    ([FULL_HOP, SILENT_HOP], "none", FULL),
    ([SILENT_HOP], "wireless", UNKNOWN),  # whatever a sink makes of the others
    ([CALM_HOP, SILENT_HOP], "wireless", UNKNOWN),
    ([FULL_HOP, SILENT_HOP], "wireless", FULL),
    ([hop(None, 90)], "none", UNKNOWN),  # free room alone does not tell how full it is
    ([], "none", UNKNOWN),
    ([], None, UNKNOWN),
    ([], "wireless", WIRELESS),
    ([IntHop(queue_depth_bytes=95_000, queue_free_bytes=5_000)], "none", FULL),
    ([IntHop(queue_depth_bytes=5_000, queue_free_bytes=95_000)], "none", CALM),
]


@pytest.mark.parametrize(("hops", "cause", "verdict"), DECISIONS)
def test_verdict_is_that_of_the_table(hops: list[IntHop], cause: Any, verdict: int) -> None:
    assert verdict_of(summary(*hops, loss_cause=cause), full_ratio=0.9) == verdict


@pytest.mark.parametrize("reported", [{"has_silent_hop": True}, {"lost_unknown_pkts": 1}])
def test_a_hop_that_writes_nothing_and_losses_without_a_place_are_congestion(
    reported: dict[str, Any],
) -> None:
    """Hop limits show the one, and the sink's counts the other: all who write have room."""
    assert verdict_of(summary(CALM_HOP, **reported), full_ratio=0.9) == UNKNOWN
    assert verdict_of(summary(CALM_HOP, loss_cause="overflow", **reported), full_ratio=0.9) == OVERFLOW
    assert verdict_of(summary(FULL_HOP, **reported), full_ratio=0.9) == FULL


def test_full_is_what_the_parameter_says() -> None:
    half = summary(hop(50, 50))
    assert verdict_of(half, full_ratio=0.5) == FULL
    assert verdict_of(half, full_ratio=0.51) == CALM


def busy(free_pkts: int | None, arrival: int | None, flows: int | None, **fields: Any) -> IntHop:
    return IntHop(queue_free_pkts=free_pkts, arrival_pkts_per_s=arrival, flow_count=flows, **fields)


# Free room [packets], arrivals [packets/s], flows, period [s], and what an acknowledged segment adds.
EQUATION = [
    (100, 1000, 1, 0.1, 1.0),  # as many come in a period as there is room for: slow start
    (100, 1000, 1, 0.2, 0.5),
    (100, 1000, 2, 0.1, 0.5),
    (50, 1000, 1, 0.1, 0.5),
    (100, 2000, 1, 0.1, 0.5),
    (0, 1000, 1, 0.1, 0.0),  # no room: the window stays
    (100, 0, 1, 0.1, MAX_GROWTH),  # division by zero
    (0, 0, 1, 0.1, MAX_GROWTH),  # the room, 0, bounds it
    (100, 1, 1, 0.1, MAX_GROWTH),
    (100, 1000, 0, 0.1, 1.0),  # a node that has counted no flow carries ours
]


@pytest.mark.parametrize(("free_pkts", "arrival", "flows", "period_s", "growth"), EQUATION)
def test_growth_is_that_of_the_equation(
    free_pkts: int, arrival: int, flows: int, period_s: float, growth: float
) -> None:
    room = room_of(summary(busy(free_pkts, arrival, flows)), period_s, MSS)
    assert room == Room(growth, MSS * free_pkts / max(1, flows))


def test_tightest_hop_counts() -> None:
    wide, tight = busy(1000, 1000, 1), busy(10, 1000, 1)
    assert room_of(summary(wide, tight, wide), 0.1, MSS) == room_of(summary(tight), 0.1, MSS)


@pytest.mark.parametrize(
    "silent", [busy(None, 1000, 1), busy(100, None, 1), busy(100, 1000, None), UNLIMITED_HOP]
)
def test_hop_that_does_not_say_it_all_is_passed_over(silent: IntHop) -> None:
    known = busy(100, 1000, 1)
    assert room_of(summary(silent), 0.1, MSS) is None
    assert room_of(summary(silent, known), 0.1, MSS) == room_of(summary(known), 0.1, MSS)


def test_no_room_is_known_without_hops() -> None:
    assert room_of(summary(), 0.1, MSS) is None


def test_queue_in_bytes_is_counted_in_segments() -> None:
    in_bytes = busy(None, 1000, 1, queue_free_bytes=100 * MSS)
    assert room_of(summary(in_bytes), 0.1, MSS) == room_of(summary(busy(100, 1000, 1)), 0.1, MSS)


COUNTS = st.none() | st.sampled_from([0, 1, 99, (1 << 53) - 1])
HOPS = st.builds(
    IntHop,
    queue_depth_bytes=COUNTS,
    queue_depth_pkts=COUNTS,
    queue_free_bytes=COUNTS,
    queue_free_pkts=COUNTS,
    queue_is_unlimited=st.booleans(),
    arrival_pkts_per_s=COUNTS,
    flow_count=COUNTS,
)
CAUSES = st.sampled_from([None, "none", "wireless", "overflow", "mixed"])


@given(hops=st.lists(HOPS, max_size=5), cause=CAUSES, period_s=st.floats(1e-6, 1e6))
def test_any_summary_has_a_verdict_and_a_finite_growth(
    hops: list[IntHop], cause: Any, period_s: float
) -> None:
    reported = summary(*hops, loss_cause=cause)
    assert UNKNOWN <= verdict_of(reported, full_ratio=0.9) <= OVERFLOW
    room = room_of(reported, period_s, MSS)
    assert room is None or (0 <= room.growth <= MAX_GROWTH and room.share_bytes >= 0)


@given(hops=st.lists(HOPS, max_size=5), cause=CAUSES)
def test_losses_are_never_spared_on_a_path_with_a_silent_hop(hops: list[IntHop], cause: Any) -> None:
    verdict = verdict_of(summary(*hops, SILENT_HOP, loss_cause=cause), full_ratio=0.9)
    assert verdict not in SPARES
