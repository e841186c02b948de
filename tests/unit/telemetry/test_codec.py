from __future__ import annotations

import msgspec
import pytest

from broker.topics import BY_KIND, topic_of
from telemetry.codec import CONTENT_TYPES, MAX_BYTES, about_of, decode, decode_from, encode
from telemetry.errors import InvalidMessageError
from telemetry.schema import (
    VERSION,
    About,
    AgentStatus,
    AlgorithmEvent,
    Envelope,
    FlowId,
    IntHop,
    IntSummary,
    ParamChange,
    ReceiverSignal,
    RegimeDecision,
    Sample,
    kind_of,
)

FLOW = FlowId(src="10.0.0.1", src_port=1000, dst="fd00::2", dst_port=80)
BODIES = [
    ReceiverSignal(peer="10.0.0.1", address="10.0.0.2", flow=FLOW, window_ms=1000, rtt_min_us=0, ce_marks=3),
    RegimeDecision(regime="SHARED", host="host-a", density=0.5, since_wall_us=1, reason="ä"),
    IntSummary(flow=FLOW, loss_ratio=0.1, loss_cause="wireless", hops=(IntHop(node_id=1, rssi_dbm=-60.5),)),
    AgentStatus(status="online", role="agent", algorithms=("cubic", "reno")),
    ParamChange(algorithm="cubic", name="beta", value=0.7),
    AlgorithmEvent(algorithm="cubic", event="reload:swapped", detail={"old": "a1", "n": 1, "x": None}),
]


def envelope(body, **more) -> Envelope:
    return Envelope(version=VERSION, sender="recv", t_mono_us=1, t_wall_us=2, body=body, **more)


def refused(payload: bytes, content_type: str = "") -> str:
    with pytest.raises(InvalidMessageError) as caught:
        decode(payload, content_type)
    return caught.value.slug


@pytest.mark.parametrize("form", ["json", "msgpack"])
@pytest.mark.parametrize("typed", [True, False])
@pytest.mark.parametrize("body", BODIES, ids=kind_of)
def test_a_message_comes_back_as_it_was(body, form, typed) -> None:
    sent = envelope(body, ttl_ms=1000)
    payload = encode(sent, form)
    assert decode(payload, CONTENT_TYPES[form] if typed else "") == sent
    assert decode_from(topic_of(kind_of(body), "recv", about_of(body)), payload) == sent


def test_there_is_a_topic_for_each_kind() -> None:
    assert {kind_of(body) for body in BODIES} == set(BY_KIND)


def test_what_is_missing_is_not_zero() -> None:
    (message,) = [decode(encode(envelope(ReceiverSignal(peer="10.0.0.1", ce_marks=0))))]
    assert (message.body.ce_marks, message.body.loss_pkts) == (0, None)
    assert b"loss_pkts" not in encode(message)


def test_unknown_fields_are_passed_over() -> None:
    message = msgspec.json.decode(encode(envelope(BODIES[0])))
    message["colour"] = {"red": [1, 2]}
    message["body"]["taste"] = None
    message["body"]["flow"]["smell"] = "good"
    assert decode(msgspec.json.encode(message)).body == BODIES[0]
    assert decode(msgspec.msgpack.encode(message)).body == BODIES[0]


@pytest.mark.parametrize("form", ["json", "msgpack"])
@pytest.mark.parametrize("body", [{"kind": "receiver_signal", "peer": "10.0.0.1"}, {"kind": "news"}, 7])
def test_an_unknown_version_is_the_reason(form, body) -> None:
    message = {"version": 2, "sender": "recv", "t_mono_us": 1, "t_wall_us": 2, "body": body}
    payload = msgspec.json.encode(message) if form == "json" else msgspec.msgpack.encode(message)
    with pytest.raises(InvalidMessageError) as caught:
        decode(payload)
    assert caught.value.slug == "message.version"
    assert "version 2" in caught.value.message
    assert caught.value.fix


WRONG = [
    {"version": "1"},
    {"version": None},
    {"sender": ""},
    {"sender": "a/b"},
    {"sender": "a\n"},
    {"sender": "x" * 65},
    {"t_mono_us": -1},
    {"t_wall_us": 1.5},
    {"t_wall_us": 1 << 60},
    {"ttl_ms": 0},
    {"ttl_ms": 10**12},
    {"body": None},
    {"body": {"peer": "10.0.0.1"}},
    {"body": {"kind": "news"}},
    {"body": {"kind": "receiver_signal"}},
    {"body": {"kind": "receiver_signal", "peer": "10.0.0.256"}},
    {"body": {"kind": "receiver_signal", "peer": None}},
    {"body": {"kind": "receiver_signal", "peer": "10.0.0.1", "ce_marks": -1}},
    {"body": {"kind": "receiver_signal", "peer": "10.0.0.1", "ce_marks": True}},
    {"body": {"kind": "receiver_signal", "peer": "10.0.0.1", "ce_marks": "3"}},
    {"body": {"kind": "receiver_signal", "peer": "10.0.0.1", "window_ms": 0}},
    {"body": {"kind": "receiver_signal", "peer": "10.0.0.1", "address": "host"}},
    {"body": {"kind": "regime_decision", "regime": "BUSY"}},
    {"body": {"kind": "regime_decision", "regime": "SHARED", "density": 1.01}},
    {"body": {"kind": "regime_decision", "regime": "SHARED", "density": float("nan")}},
    {"body": {"kind": "param_change", "algorithm": "a", "name": "b", "value": float("inf")}},
    {"body": {"kind": "param_change", "algorithm": "a", "name": "b"}},
    {"body": {"kind": "int_summary"}},
    {"body": {"kind": "int_summary", "flow": {"src": "a", "src_port": 1, "dst": "::1", "dst_port": 2}}},
    {"body": {"kind": "int_summary", "flow": {"src": "::1", "src_port": 65536, "dst": "::1", "dst_port": 2}}},
    {"body": {"kind": "algorithm_event", "algorithm": "a", "event": "b", "detail": {"x": [1]}}},
]


@pytest.mark.parametrize("wrong", WRONG, ids=str)
def test_a_wrong_field_is_refused(wrong) -> None:
    message = msgspec.json.decode(encode(envelope(BODIES[0]))) | wrong
    assert refused(msgspec.msgpack.encode(message)) == "message.not_valid"


@pytest.mark.parametrize(
    "payload", [b"", b"{", b"{}x", b"\xc1", b"\x00", b"[]", b'{"version":1e999}', b"\xff" * 9]
)
def test_what_cannot_be_read_is_refused(payload: bytes) -> None:
    assert refused(payload) in {"message.not_readable", "message.not_valid"}


@pytest.mark.parametrize("opening", [b'{"q":' + b"[" * 60_000, b"\x81\xa1q" + b"\x91" * 60_000])
def test_deep_nesting_is_refused(opening: bytes) -> None:
    assert refused(opening) == "message.not_readable"


def test_a_long_message_is_refused_unread() -> None:
    payload = encode(envelope(BODIES[0])).ljust(MAX_BYTES + 1)
    assert decode(payload[:-1])
    assert refused(payload) == "message.too_long"


def test_a_content_type_that_lies_is_believed() -> None:
    assert refused(encode(envelope(BODIES[0])), CONTENT_TYPES["msgpack"]) == "message.not_valid"
    assert decode(encode(envelope(BODIES[0])), "text/plain").body == BODIES[0]


@pytest.mark.parametrize(
    "topic", ["other/recv", "ccp/v1/signal/ben/10.0.0.1", "ccp/v1/status/recv", "ccp/v1/signal/recv"]
)
def test_a_message_on_a_wrong_topic_is_refused(topic: str) -> None:
    with pytest.raises(InvalidMessageError) as caught:
        decode_from(topic, encode(envelope(BODIES[0])))
    assert caught.value.slug == "message.wrong_topic"


@pytest.mark.parametrize(
    ("about", "body", "fits"),
    [
        ("10.0.0.1", ReceiverSignal(peer="10.0.0.1"), True),
        ("::ffff:10.0.0.1", ReceiverSignal(peer="10.0.0.1"), True),
        ("10.0.0.2", ReceiverSignal(peer="10.0.0.1"), False),
        ("host", ReceiverSignal(peer="10.0.0.1"), False),
        ("10.0.0.1", ReceiverSignal(peer="10.0.0.1", flow=FLOW), True),
        ("fd00::2", ReceiverSignal(peer="fd00::2", flow=FLOW), True),
        ("10.0.0.3", ReceiverSignal(peer="10.0.0.3", flow=FLOW), False),
        ("host", RegimeDecision(regime="SHARED", host="host-a"), True),
        ("10.0.0.1", RegimeDecision(regime="SHARED", host="host-a"), False),
        ("10.0.0.1", RegimeDecision(regime="SHARED", flow=FLOW), False),
    ],
)
def test_who_may_speak_of_one_peer_cannot_speak_of_another(about: str, body: About, fits: bool) -> None:
    topic = topic_of(kind_of(body), "recv", about)
    if fits:
        assert decode_from(topic, encode(envelope(body))).body == body
        return
    with pytest.raises(InvalidMessageError) as caught:
        decode_from(topic, encode(envelope(body)))
    assert caught.value.slug == "message.wrong_topic"


def test_a_sample_reports_its_age() -> None:
    sample = Sample(
        kind="receiver_signal",
        body=BODIES[0],
        sender="recv",
        topic="t",
        received_us=1_000_000,
        age_at_receipt_us=500,
        expires_us=1_002_000,
    )
    assert sample.age_ms(1_001_000) == 1.5
    assert sample.age_ms(0) == 0
    assert not sample.expired(1_001_999)
    assert sample.expired(1_002_000)
    assert not msgspec.structs.replace(sample, expires_us=None).expired(1 << 62)
