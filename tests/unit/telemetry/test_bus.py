from __future__ import annotations

import logging

import pytest

from broker.messages import Incoming
from broker.options import BusOptions
from broker.topics import BY_KIND, topic_of
from telemetry import bus as bus_module
from telemetry.bus import Bus, mono_us, wall_us
from telemetry.codec import CONTENT_TYPES, about_of, decode, encode
from telemetry.schema import VERSION, AgentStatus, Envelope, ReceiverSignal, RegimeDecision, Sample, kind_of
from tests.unit.telemetry.test_codec import BODIES

SIGNAL = ReceiverSignal(peer="10.0.0.1")


class Ear:
    def __init__(self) -> None:
        self.samples: list[Sample] = []
        self.bus = Bus(BusOptions(), sender="host-a", on_sample=self.samples.append)
        self.counters = self.bus.counters

    def receive(
        self, body=SIGNAL, *, sender="recv", ttl_ms=1000, wall=None, mono=None, at=None, retained=False
    ):
        envelope = Envelope(
            version=VERSION,
            sender=sender,
            t_mono_us=mono_us() if mono is None else mono,
            t_wall_us=wall_us() if wall is None else wall,
            ttl_ms=ttl_ms,
            body=body,
        )
        topic = topic_of(kind_of(body), sender, about_of(body))
        self.receive_bytes(topic, encode(envelope), at=at, retained=retained)

    def receive_bytes(
        self, topic: str, payload: bytes, *, at: int | None = None, retained: bool = False
    ) -> None:
        self.bus._receive(Incoming(topic, payload, retained, "", mono_us() if at is None else at))


def test_a_message_becomes_a_sample() -> None:
    ear = Ear()
    ear.receive(mono=5_000_000, wall=7, at=9_000_000)
    (sample,) = ear.samples
    assert sample == Sample(
        kind="receiver_signal",
        body=SIGNAL,
        sender="recv",
        topic="ccp/v1/signal/recv/10.0.0.1",
        received_us=9_000_000,
        age_at_receipt_us=0,
        expires_us=10_000_000,
        sent_mono_us=5_000_000,
        sent_wall_us=7,
        retained=False,
    )
    assert ear.counters.valid == 1


@pytest.mark.parametrize("body", BODIES, ids=kind_of)
def test_a_message_without_time_to_live_has_that_of_its_kind(body) -> None:
    ear = Ear()
    ear.receive(body, ttl_ms=None, at=9_000_000)
    ttl_ms = BY_KIND[kind_of(body)].ttl_ms
    assert ear.samples[0].expires_us == (None if ttl_ms is None else 9_000_000 + ttl_ms * 1000)


def test_a_topic_has_one_spelling() -> None:
    ear = Ear()
    for about in ("2001:DB8::1", "2001:db8:0:0::1", "2001:db8::0001"):
        message = Envelope(
            version=VERSION,
            sender="recv",
            t_mono_us=1,
            t_wall_us=1,
            body=ReceiverSignal(peer="2001:db8::1"),
        )
        ear.receive_bytes(topic_of("receiver_signal", "recv", about), encode(message))
    ear.receive(RegimeDecision(regime="SHARED"))
    topics = [sample.topic for sample in ear.samples]
    assert topics == ["ccp/v1/signal/recv/2001:db8::1"] * 3 + ["ccp/v1/regime/recv/host"]


def test_what_waited_too_long_is_not_delivered() -> None:
    ear = Ear()
    ear.receive(mono=0, wall=0, at=1000)
    ear.receive(mono=10, wall=10, at=500_010)
    ear.receive(mono=20, wall=20, at=1_101_020)
    assert [sample.age_at_receipt_us // 1000 for sample in ear.samples] == [0, 499]
    assert (ear.counters.valid, ear.counters.expired) == (2, 1)


def test_a_retained_message_is_as_old_as_the_wall_clocks_say() -> None:
    ear = Ear()
    decision = RegimeDecision(regime="SHARED", peer="10.0.0.1")
    ear.receive(decision, wall=wall_us() - 40_000_000, ttl_ms=60_000, retained=True)
    ear.receive(decision, wall=wall_us() - 70_000_000, ttl_ms=60_000, retained=True)
    (sample,) = ear.samples
    assert 40_000 <= sample.age_ms(sample.received_us) < 60_000
    assert ear.counters.expired == 1


def test_our_own_messages_are_not_delivered() -> None:
    ear = Ear()
    ear.receive(sender="host-a")
    assert (ear.samples, ear.counters.echoes) == ([], 1)


def test_the_removal_of_a_retained_message_is_no_message() -> None:
    ear = Ear()
    ear.receive_bytes("ccp/v1/regime/recv/host", b"")
    assert (ear.samples, ear.counters.invalid) == ([], {})


def test_invalid_messages_are_counted_and_logged_once_a_source(caplog: pytest.LogCaptureFixture) -> None:
    ear = Ear()
    with caplog.at_level(logging.WARNING, "ccplane.bus"):
        for _ in range(3):
            ear.receive_bytes("ccp/v1/status/a", b"{")
            ear.receive_bytes("ccp/v1/status/b", b'{"version":7}')
    assert ear.counters.invalid == {"message.not_readable": 3, "message.version": 3}
    assert len(caplog.records) == 2
    assert "schema version 7" in caplog.text
    assert ear.samples == []


def test_many_sources_of_nonsense_do_not_fill_log_and_memory(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bus_module, "MAX_LOGGED_SOURCES", 5)
    ear = Ear()
    for number in range(20):
        ear.receive_bytes(f"ccp/v1/status/{number}", b"{")
    assert len(caplog.records) == 5
    assert ear.counters.invalid == {"message.not_readable": 20}


@pytest.mark.parametrize("form", ["json", "msgpack"])
@pytest.mark.parametrize("body", BODIES, ids=kind_of)
def test_each_kind_is_published_as_the_table_says(body, form) -> None:
    bus = Bus(BusOptions(), sender="recv", form=form)
    topic = BY_KIND[kind_of(body)]
    queue = bus._client._decisions if topic.decision else bus._client._samples
    bus.publish(body)
    first = queue.pop()
    bus.publish(body, ttl_ms=7)
    second = queue.pop()
    assert (first.qos, first.retain, first.decision) == (topic.qos, topic.retain, topic.decision)
    assert first.topic == topic_of(topic.kind, "recv", about_of(body))
    assert first.content_type == CONTENT_TYPES[form]
    message = decode(first.payload)
    assert (message.body, message.ttl_ms) == (body, topic.ttl_ms)
    assert first.expiry_s == (None if topic.ttl_ms is None else topic.ttl_ms / 1000)
    assert decode(second.payload).ttl_ms == 7
    assert second.expiry_s == 0.007


def test_a_will_says_that_the_connection_was_lost() -> None:
    bus = Bus(BusOptions(), sender="recv", status=AgentStatus(status="online", role="receiver"))
    will = bus._client._paho
    assert decode(bytes(will._will_payload)).body == AgentStatus(
        status="offline", role="receiver", reason="connection lost"
    )
    assert (will._will_topic, will._will_qos, will._will_retain) == (b"ccp/v1/status/recv", 1, True)
