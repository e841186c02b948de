"""What the bus promises, through an embedded broker."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace

import paho.mqtt.client as mqtt
import pytest
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from broker.errors import BusError
from broker.options import BusOptions
from ccplane.agent.inbox import Inbox
from telemetry.bus import Bus
from telemetry.codec import encode
from telemetry.schema import (
    AgentStatus,
    Envelope,
    ParamChange,
    ReceiverSignal,
    RegimeDecision,
    Sample,
)
from tests.interop.brokers import PATIENCE_S, Secrets, TestBroker, running, wait_until

ONLINE = AgentStatus(status="online", role="receiver")


@pytest.fixture
def broker(secrets: Secrets) -> Iterator[TestBroker]:
    with running(secrets) as broker:
        yield broker


@contextlib.contextmanager
def listening(options: BusOptions, *kinds: str, sender: str = "host-a") -> Iterator[Inbox]:
    inbox = Inbox(options, sender=sender, kinds=kinds)
    inbox.start()
    try:
        wait_until(lambda: inbox.ready, "the subscription")
        yield inbox
    finally:
        inbox.stop()


def gather(inbox: Inbox, count: int) -> list[Sample]:
    samples: list[Sample] = []

    def enough() -> bool:
        samples.extend(inbox.drain())
        return len(samples) >= count

    wait_until(enough, f"the arrival of {count} samples")
    return samples


@contextlib.contextmanager
def speaking(options: BusOptions, sender: str = "recv", **more) -> Iterator[Bus]:
    bus = Bus(options, sender=sender, **more)
    bus.start()
    try:
        bus.wait_connected(PATIENCE_S)
        yield bus
    finally:
        bus.stop()


def raw_client(options: BusOptions, client_id: str = "") -> mqtt.Client:
    """Return a connected client of paho's own, for what ours never does."""
    client = mqtt.Client(CallbackAPIVersion.VERSION2, client_id, protocol=MQTTProtocolVersion.MQTTv5)
    client.username_pw_set(options.user, options.password)
    connected = threading.Event()
    client.on_connect = lambda *_: connected.set()
    client.connect(options.host, options.port)
    client.loop_start()
    assert connected.wait(PATIENCE_S)
    return client


@pytest.mark.parametrize("form", ["json", "msgpack"])
def test_signals_arrive_in_order(broker: TestBroker, form: str) -> None:
    with (
        listening(broker.options("host-a"), "receiver_signal") as inbox,
        speaking(broker.options("recv"), form=form) as bus,
    ):
        for number in range(500):
            bus.publish(ReceiverSignal(peer="10.0.0.1", address="10.0.0.2", ce_marks=number))
        samples = gather(inbox, 500)
    assert [sample.body.ce_marks for sample in samples] == list(range(500))
    assert {(sample.sender, sample.topic, sample.kind) for sample in samples} == {
        ("recv", "ccp/v1/signal/recv/10.0.0.1", "receiver_signal")
    }
    assert all(sample.expires_us is not None and not sample.retained for sample in samples)


def test_what_is_not_subscribed_to_does_not_come(broker: TestBroker) -> None:
    with (
        listening(broker.options("host-a"), "receiver_signal") as inbox,
        speaking(broker.options("recv")) as bus,
    ):
        bus.publish(RegimeDecision(regime="SHARED", peer="10.0.0.1"))
        bus.publish(ReceiverSignal(peer="10.0.0.1"))
        assert [sample.kind for sample in gather(inbox, 1)] == ["receiver_signal"]
        inbox.subscribe("regime_decision")
        assert [sample.kind for sample in gather(inbox, 1)] == ["regime_decision"]
        inbox.unsubscribe("receiver_signal")
        inbox.publish(AgentStatus(status="online", role="client"))  # behind the unsubscription
        wait_until(lambda: inbox.counters.connection.published >= 2, "the status")
        bus.publish(ReceiverSignal(peer="10.0.0.1"))
        bus.publish(RegimeDecision(regime="SINGLE_OWNER", peer="10.0.0.1"))
        assert [sample.kind for sample in gather(inbox, 1)] == ["regime_decision"]


def test_the_last_decision_is_kept_for_those_who_come_later(broker: TestBroker) -> None:
    with speaking(broker.options("recv")) as bus:
        for regime in ("SINGLE_OWNER", "SHARED", "SINGLE_OWNER"):
            bus.publish(RegimeDecision(regime=regime, peer="10.0.0.1"))
        bus.publish(RegimeDecision(regime="SHARED", peer="10.0.0.2"))
        assert bus.flush(PATIENCE_S)
    with listening(broker.options("host-a"), "regime_decision") as inbox:
        samples = gather(inbox, 2)
    assert {sample.body.peer: sample.body.regime for sample in samples} == {
        "10.0.0.1": "SINGLE_OWNER",
        "10.0.0.2": "SHARED",
    }
    assert all(sample.retained for sample in samples)


SENDER = """
import sys, time
from broker.options import BusOptions
from telemetry.bus import Bus
from telemetry.schema import AgentStatus
options = BusOptions(port=int(sys.argv[1]), user="recv", password="r")
Bus(options, sender="recv", status=AgentStatus(status="online", role="receiver")).start()
time.sleep(600)
"""


def test_a_broken_sender_leaves_its_last_will(broker: TestBroker) -> None:
    with listening(broker.options("host-a"), "agent_status") as inbox:
        sender = subprocess.Popen([sys.executable, "-P", "-c", SENDER, str(broker.options("recv").port)])
        try:
            assert [sample.body.status for sample in gather(inbox, 1)] == ["online"]
        finally:
            sender.kill()
            sender.wait()
        (will,) = gather(inbox, 1)
        assert (will.body.status, will.body.reason) == ("offline", "connection lost")
    with listening(broker.options("ben"), "agent_status", sender="ben") as later:
        samples = {sample.sender: sample for sample in gather(later, 2)}
    assert samples["recv"].body.reason == "connection lost"
    assert samples["recv"].retained


def test_who_says_good_bye_leaves_no_will(broker: TestBroker) -> None:
    with listening(broker.options("host-a"), "agent_status") as inbox:
        with speaking(broker.options("recv"), status=ONLINE):
            assert [sample.body.status for sample in gather(inbox, 1)] == ["online"]
        (end,) = gather(inbox, 1)
        assert (end.body.status, end.body.reason) == ("offline", "stopped")
        with speaking(broker.options("ben"), sender="ben", status=ONLINE):
            # What comes next is Ben's: there was no will in between.
            assert [sample.sender for sample in gather(inbox, 1)] == ["ben"]


@pytest.mark.parametrize(("user", "password"), [("recv", "wrong"), ("nobody", "r"), (None, None)])
def test_who_is_no_user_is_not_let_in(broker: TestBroker, user: str | None, password: str | None) -> None:
    options = replace(broker.options("recv"), user=user, password=password)
    bus = Bus(options, sender="recv")
    bus.start()
    try:
        wait_until(lambda: bus.counters.connection.failures, "the refusal")
        with pytest.raises(BusError) as caught:
            bus.wait_connected(0)
    finally:
        bus.stop()
    assert caught.value.slug == "bus.not_connected"
    assert "not authorized" in caught.value.why.lower() or "password" in caught.value.why


def test_after_a_restart_of_the_broker_all_goes_on(broker: TestBroker) -> None:
    with (
        listening(broker.options("host-a"), "regime_decision", "agent_status", "receiver_signal") as inbox,
        speaking(broker.options("recv"), status=ONLINE) as bus,
    ):
        assert [sample.body.status for sample in gather(inbox, 1)] == ["online"]
        assert inbox.away_s == 0
        broker.stop()
        wait_until(lambda: not inbox.connected and not bus.connected, "the end of the connections")
        assert inbox.away_s > 0
        for number in range(2000):
            bus.publish(ReceiverSignal(peer="10.0.0.1", ce_marks=number))
            if number % 10 == 0:
                bus.publish(RegimeDecision(regime="SHARED", peer="10.0.0.1", reason=str(number)))
        assert bus.counters.connection.samples_dropped == 1000
        assert bus.counters.connection.decisions_replaced == 199, "the last says all"
        wait_until(lambda: bus.counters.connection.failures, "a failure to connect")
        broker.start()
        wait_until(lambda: bus.connected and inbox.ready, "the way back")
        assert bus.flush(PATIENCE_S)
        bus.publish(RegimeDecision(regime="SHARED", peer="10.0.0.1", reason="end"))
        samples: list[Sample] = []

        def end_came() -> bool:
            samples.extend(inbox.drain())
            return any(s.kind == "regime_decision" and s.body.reason == "end" for s in samples)

        wait_until(end_came, "the last decision")
        assert inbox.counters.connection.connects == 2
        assert inbox.counters.connection.away_total_s > 0
    # Births come again, so that a broker without memory knows who is there.
    assert [s.body.status for s in samples if s.kind == "agent_status"][:1] == ["online"]
    decisions = [s.body.reason for s in samples if s.kind == "regime_decision"]
    assert bus.counters.connection.published >= 1 + 1000
    # The sender may be back before the listener; then the broker keeps the last decision only.
    assert decisions == ["end"] or decisions[-2:] == ["1990", "end"]


def test_no_decision_is_lost_by_a_restart(broker: TestBroker) -> None:
    with speaking(broker.options("recv")) as bus:
        broker.stop()
        wait_until(lambda: not bus.connected, "the end of the connection")
        for number in range(3000):
            bus.publish(ParamChange(algorithm="cubic", name="beta", value=number))
        broker.start()
        with listening(broker.options("host-a"), "param_change") as inbox:
            assert bus.flush(PATIENCE_S)
            assert bus.counters.connection.published == 3000
            assert bus.counters.connection.samples_dropped == 0
            samples = gather(inbox, 1)
            while samples[-1].body.value != 2999:
                samples += gather(inbox, 1)
            values = [sample.body.value for sample in samples]
    # What left before the listener was there went to nobody; all that came is in order, to the very last.
    assert values == list(range(3000 - len(values), 3000))


INVALID = {
    "message.not_readable": (b"{", ""),
    "message.not_valid": (b'{"version":1}', ""),
    "message.version": (b'{"version":2,"body":{"kind":"news"}}', "application/json"),
    "message.too_long": (b" " * 70_000, ""),
}


def test_what_is_not_valid_reaches_none(broker: TestBroker, caplog: pytest.LogCaptureFixture) -> None:
    with (
        listening(broker.options("host-a"), "receiver_signal") as inbox,
        speaking(broker.options("recv")) as bus,
    ):
        raw = raw_client(broker.options("recv"))
        try:
            for payload, content_type in [*INVALID.values(), *INVALID.values()]:
                properties = Properties(PacketTypes.PUBLISH)
                if content_type:
                    properties.ContentType = content_type
                sent = raw.publish("ccp/v1/signal/recv/10.0.0.9", payload, 1, properties=properties)
                sent.wait_for_publish(PATIENCE_S)
            false = encode(
                Envelope(
                    version=1, sender="ben", t_mono_us=0, t_wall_us=0, body=ReceiverSignal(peer="10.0.0.9")
                )
            )
            raw.publish("ccp/v1/signal/recv/10.0.0.8", false, 1).wait_for_publish(PATIENCE_S)
        finally:
            raw.disconnect()
            raw.loop_stop()
        bus.publish(ReceiverSignal(peer="10.0.0.1"))
        assert [sample.body.peer for sample in gather(inbox, 1)] == ["10.0.0.1"]
        counted = inbox.counters
    assert counted.invalid == {**dict.fromkeys(INVALID, 2), "message.wrong_topic": 1}
    assert counted.valid == 1
    assert len([r for r in caplog.records if "invalid message" in r.message]) == 2  # one a source
