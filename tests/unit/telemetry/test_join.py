from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telemetry.join import FlowIndex
from telemetry.schema import AgentStatus, FlowId, IntSummary, ReceiverSignal, RegimeDecision

A, B, C = "10.0.0.1", "10.0.0.2", "10.0.0.3"


@pytest.fixture
def index() -> FlowIndex:
    index = FlowIndex("host-a")
    index.add(1, A, 1000, B, 80)
    index.add(2, A, 1001, B, 80)
    index.add(3, A, 1002, C, 80)
    index.add(4, f"::ffff:{A}", 1003, f"::ffff:{B}", 80)
    index.add(5, "fd00:0:0::1", 1004, "fd00::2", 80)
    return index


def flow(src: str, src_port: int, dst: str, dst_port: int, **more) -> IntSummary:
    return IntSummary(flow=FlowId(src=src, src_port=src_port, dst=dst, dst_port=dst_port, **more))


def test_a_flow_is_found_in_either_direction(index: FlowIndex) -> None:
    assert index.find(flow(A, 1001, B, 80)) == [2]
    assert index.find(flow(B, 80, A, 1001)) == [2]
    assert index.find(flow(B, 81, A, 1001)) == []
    assert index.find(flow("FD00::1", 1004, "fd00:0::2", 80)) == [5]


def test_a_flow_that_is_not_tcp_is_none_of_own(index: FlowIndex) -> None:
    assert index.find(flow(A, 1001, B, 80, protocol="udp")) == []


def test_the_flow_goes_before_the_peer(index: FlowIndex) -> None:
    exact = FlowId(src=A, src_port=1002, dst=C, dst_port=80)
    assert index.find(ReceiverSignal(peer=A, address=B, flow=exact)) == [3]


def test_a_peer_alone_is_either_end(index: FlowIndex) -> None:
    assert index.find(ReceiverSignal(peer=A)) == [1, 2, 3, 4]
    assert index.find(ReceiverSignal(peer=B)) == [1, 2, 4]
    assert index.find(ReceiverSignal(peer=f"::ffff:{C}")) == [3]
    assert index.find(ReceiverSignal(peer="192.0.2.1")) == []


def test_a_host_means_all_its_flows(index: FlowIndex) -> None:
    assert index.find(RegimeDecision(regime="SHARED", host="host-a")) == [1, 2, 3, 4, 5]
    assert index.find(RegimeDecision(regime="SHARED", host="host-b")) == []
    assert index.find(RegimeDecision(regime="SHARED")) == []


def test_what_is_about_no_flow_belongs_to_none(index: FlowIndex) -> None:
    assert index.find(AgentStatus(status="online", role="agent", host="host-a")) == []


def test_a_flow_within_the_host_has_two_ends_here() -> None:
    index = FlowIndex("host-a")
    index.add(1, A, 1000, A, 80)
    index.add(2, A, 80, A, 1000)
    assert index.find(flow(A, 1000, A, 80)) == [1, 2]
    assert index.find(ReceiverSignal(peer=A, address=A)) == [1, 2]
    assert index.find(ReceiverSignal(peer=A)) == [1, 2]


def test_ports_used_again_before_the_old_flow_closed(index: FlowIndex) -> None:
    index.add(9, A, 1000, B, 80)
    index.remove(1)
    assert index.find(flow(A, 1000, B, 80)) == [9]


@given(
    st.lists(st.tuples(st.booleans(), st.integers(1, 6), st.sampled_from([A, B]), st.sampled_from([A, B, C])))
)
def test_an_index_finds_what_a_search_finds(steps: list[tuple[bool, int, str, str]]) -> None:
    index = FlowIndex("host-a")
    flows: dict[int, tuple[str, str]] = {}
    for add, flow_id, src, dst in steps:
        if add:
            index.add(flow_id, src, flow_id, dst, 80)
            flows[flow_id] = (src, dst)
        else:
            index.remove(flow_id)
            flows.pop(flow_id, None)
    assert len(index) == len(flows)
    for peer in (A, B, C):
        assert set(index.find(ReceiverSignal(peer=peer))) == {n for n, ends in flows.items() if peer in ends}
        for other in (A, B, C):
            wanted = {n for n, ends in flows.items() if set(ends) == {peer, other}}
            assert set(index.find(ReceiverSignal(peer=peer, address=other))) == wanted
