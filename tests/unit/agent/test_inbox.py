from __future__ import annotations

import msgspec
import pytest

from broker.errors import BusError
from broker.options import BusOptions
from ccplane.agent.inbox import Inbox
from telemetry.schema import ReceiverSignal, RegimeDecision, Sample


def sample(number: int, *, decision: bool = False) -> Sample:
    body = RegimeDecision(regime="SHARED") if decision else ReceiverSignal(peer="10.0.0.1")
    kind = "regime_decision" if decision else "receiver_signal"
    return Sample(kind=kind, body=body, sender="recv", topic="t", received_us=number)


def test_samples_come_out_in_order_and_once() -> None:
    inbox = Inbox(BusOptions(), sender="host-a")
    assert inbox.drain() == []
    for number in range(5):
        inbox._queue(sample(number, decision=number == 2))
    assert [one.received_us for one in inbox.drain()] == [0, 1, 2, 3, 4]
    assert inbox.drain() == []
    assert inbox.delivered == 5


def test_a_full_inbox_drops_the_oldest_samples_and_no_decision() -> None:
    inbox = Inbox(BusOptions(), sender="host-a", max_waiting=3)
    for number in range(10):
        inbox._queue(sample(number, decision=number in {0, 4}))
    assert [one.received_us for one in inbox.drain()] == [0, 4, 7, 8, 9]
    assert inbox.dropped == 5
    for number in range(3):
        inbox._queue(sample(number))
    assert len(inbox.drain()) == 3


def test_decisions_that_none_takes_are_bounded_and_the_last_a_topic_is_kept() -> None:
    inbox = Inbox(BusOptions(), sender="host-a", max_waiting=10)
    for number in range(1000):
        inbox._queue(msgspec.structs.replace(sample(number, decision=True), topic=f"t/{number % 5}"))
    taken = inbox.drain()
    assert len(taken) == 10
    assert [one.received_us for one in taken[-5:]] == [995, 996, 997, 998, 999]
    assert inbox.dropped == 990


def test_each_sample_wakes_the_agent() -> None:
    woken: list[int] = []
    inbox = Inbox(BusOptions(), sender="host-a", wake=lambda: woken.append(1))
    inbox._queue(sample(0))
    inbox._queue(sample(1))
    assert woken == [1, 1]


def test_only_known_kinds_can_be_subscribed_to() -> None:
    inbox = Inbox(BusOptions(), sender="host-a", kinds=["int_summary"])
    with pytest.raises(BusError) as caught:
        inbox.subscribe("signal")
    assert caught.value.slug == "bus.unknown_kind"
    inbox.subscribe("receiver_signal")
    inbox.unsubscribe("int_summary")
    assert inbox.kinds == ("receiver_signal",)


def test_a_name_that_is_no_topic_level_is_refused() -> None:
    with pytest.raises(BusError) as caught:
        Inbox(BusOptions(), sender="a/b")
    assert caught.value.slug == "bus.bad_name"
