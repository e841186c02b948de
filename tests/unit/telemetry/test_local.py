from __future__ import annotations

import pytest

from broker.errors import BusError
from telemetry.errors import InvalidMessageError
from telemetry.local import LocalBus
from telemetry.schema import AgentStatus, FlowId, IntSummary, ReceiverSignal, RegimeDecision
from telemetry.status import online

FLOW = FlowId(src="10.0.0.1", src_port=1000, dst="10.0.0.2", dst_port=5201)


class Clock:
    now_us = 1_000_000

    def __call__(self) -> int:
        return self.now_us


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.mark.parametrize("form", ["json", "msgpack"])
def test_who_listens_receives_what_others_say_in_order(clock: Clock, form: str) -> None:
    bus = LocalBus(clock, form)  # type: ignore[arg-type]
    sink, agent = bus.join("sink"), bus.join("agent", kinds=("int_summary",))
    first, second = IntSummary(flow=FLOW, lost_pkts=1), IntSummary(flow=FLOW, lost_pkts=2)
    sink.publish(first)
    clock.now_us += 10_000
    sink.publish(ReceiverSignal(peer="10.0.0.1"))  # no subscriber
    sink.publish(second, ttl_ms=5)
    agent.publish(first)  # its own message
    one, two = agent.drain()
    assert (one.body, two.body) == (first, second)
    assert (one.kind, one.sender, one.topic) == ("int_summary", "sink", "ccp/v1/int/sink")
    assert (one.received_us, one.sent_mono_us, one.age_at_receipt_us) == (1_000_000, 1_000_000, 0)
    assert (one.expires_us, two.expires_us) == (2_000_000, 1_015_000)  # the table of topics has 1 s
    assert agent.drain() == []


def test_what_a_broker_keeps_is_kept_for_those_who_come_later(clock: Clock) -> None:
    bus = LocalBus(clock)
    receiver = bus.join("receiver", status=online("receiver"))
    old, new, other = (
        RegimeDecision(peer=peer, regime=regime)
        for peer, regime in (("10.0.0.1", "SHARED"), ("10.0.0.1", "SINGLE_OWNER"), ("10.0.0.3", "SHARED"))
    )
    receiver.publish(old)
    receiver.publish(new)
    receiver.publish(other, ttl_ms=100)
    receiver.publish(ReceiverSignal(peer="10.0.0.1"))
    clock.now_us += 100_000
    late = bus.join("late", kinds=("regime_decision", "receiver_signal", "agent_status")).drain()
    assert [one.body for one in late] == [receiver._status, new]
    assert all(one.retained and one.received_us == clock.now_us for one in late)
    assert late[1].expires_us == 61_000_000


def test_who_goes_says_so_and_receives_nothing_more(clock: Clock) -> None:
    bus = LocalBus(clock)
    receiver = bus.join("receiver", kinds=("int_summary",), status=online("receiver"))
    agent = bus.join("agent", kinds=("agent_status",))
    receiver.close()
    birth, end = agent.drain()
    assert isinstance(birth.body, AgentStatus)
    assert isinstance(end.body, AgentStatus)
    assert (birth.body.status, end.body.status, end.body.reason) == ("online", "offline", "stopped")
    agent.publish(IntSummary(flow=FLOW))
    assert receiver.drain() == []


def test_what_cannot_be_is_refused_as_on_any_bus(clock: Clock) -> None:
    bus = LocalBus(clock)
    with pytest.raises(BusError) as caught:
        bus.join("no name")
    assert caught.value.slug == "bus.bad_name"
    with pytest.raises(BusError) as caught:
        bus.join("agent", kinds=("gossip",))
    assert caught.value.slug == "bus.unknown_kind"
    with pytest.raises(InvalidMessageError) as invalid:
        bus.join("sink").publish(IntSummary(flow=FLOW, lost_pkts=-1))
    assert invalid.value.slug == "message.not_valid"
