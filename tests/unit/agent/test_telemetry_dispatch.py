from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ccplane.agent import bus, standing
from ccplane.agent import messages as ask
from ccplane.agent.control import _ENCODE
from ccplane.agent.management import Management
from ccplane.agent.requests import Requests
from ccplane.agent.streams import Streams
from ccplane.agent.telemetry_dispatch import TelemetryDispatch
from telemetry.schema import (
    AgentStatus,
    AlgorithmEvent,
    Body,
    FlowId,
    ParamChange,
    ReceiverSignal,
    RegimeDecision,
    Sample,
    kind_of,
)
from tests.unit.agent.fakes import FakeClosed, FakeCreated, FakeInfo, FakeStats
from tests.unit.agent.live import Edited, text

LISTENING = text("""
    def on_create(self, info):
        self.received = []

    def on_report(self, report):
        pass

    def on_telemetry(self, sample):
        if sample.body.peer == "10.0.0.9":
            raise ValueError("on purpose")
        self.received.append((sample.kind, sample.sender))
        self.flow.set(cwnd_bytes=20_000 + sample.body.ce_marks if sample.kind == "receiver_signal" else 9_000)

    def on_telemetry_lost(self, kind, sender):
        self.received.append(("lost", kind, sender))
""")

VECTOR = text(
    """
    def __init__(self):
        self.received = []

    def on_reports(self, reports, program):
        return None

    def on_telemetry(self, samples):
        import numpy as np
        self.received.append([(flow_id, sample.kind) for flow_id, sample in samples])
        ids = np.array([flow_id for flow_id, _ in samples], np.uint64)
        return Updates(ids, ids * np.uint64(10_000))

    def on_telemetry_lost(self, flow_ids, kind, sender):
        self.received.append(("lost", list(flow_ids), kind, sender))
    """,
    base="VectorAlgorithm",
)

RECEIVER = "10.0.0.2"
"""The peer of all fake flows."""


class FakeInbox:
    def __init__(self) -> None:
        self.waiting: list[Sample] = []
        self.kinds: tuple[str, ...] = ("receiver_signal",)
        self.published: list[Body] = []

    def take(self) -> Sample | None:
        return self.waiting.pop(0) if self.waiting else None

    def subscribe(self, kind: str) -> None:
        self.kinds = (*self.kinds, kind)

    def unsubscribe(self, kind: str) -> None:
        self.kinds = tuple(one for one in self.kinds if one != kind)

    def publish(self, body: Body) -> None:
        self.published.append(body)


class Received(Edited):
    """An agent loop with telemetry; the test provides time and samples."""

    def __init__(self, directory: Path, source: str = LISTENING, *flow_ids: int) -> None:
        super().__init__(directory / "mine.py", source, *flow_ids)
        self.inbox, self.now_us = FakeInbox(), 1_000_000
        self.telemetry_dispatch = TelemetryDispatch(
            self.agent_loop, self.inbox, "host-a", lambda: self.now_us
        )

    def say(self, *bodies: Body, sender: str = "rx", ttl_us: int | None = None) -> None:
        expires_us = None if ttl_us is None else self.now_us + ttl_us
        self.inbox.waiting += [
            Sample(
                kind=kind_of(body),
                body=body,
                sender=sender,
                topic=f"ccp/v1/x/{sender}",
                received_us=self.now_us,
                expires_us=expires_us,
            )
            for body in bodies
        ]
        self.agent_loop.turn(0)

    def later(self, us: int) -> None:
        self.now_us += us
        self.agent_loop.turn(0)


def signal(**fields: Any) -> ReceiverSignal:
    return ReceiverSignal(peer="10.0.0.1", address=RECEIVER, **{"ce_marks": 1, **fields})


def test_sample_reaches_the_flows_it_belongs_to_and_may_change_their_window(tmp_path: Path) -> None:
    live = Received(tmp_path, LISTENING, 1, 2)
    live.feed(FakeCreated(FakeInfo(3, dst_addr="10.0.0.3")))
    live.say(signal(), signal(ce_marks=5))
    assert [len(live.instance(i).received) for i in (1, 2, 3)] == [2, 2, 0]
    assert [one.cwnd_bytes for one in live.datapath.written if one.flow_id == 1][-2:] == [20_001, 20_005]
    flow = FlowId(src=RECEIVER, src_port=5001, dst="10.0.0.1", dst_port=40_000)
    live.say(signal(flow=flow), ReceiverSignal(peer="192.0.2.1", ce_marks=0))
    assert live.telemetry_dispatch.counters.unclaimed == 1
    assert live.telemetry_dispatch.counters.delivered == 4 + 1


def test_loss_is_reported_once_a_source_when_the_last_sample_expires(tmp_path: Path) -> None:
    live = Received(tmp_path, LISTENING, 1)
    live.say(signal(), ttl_us=1000)
    live.later(900)
    live.say(signal(), ttl_us=1000)
    live.say(signal(), sender="other", ttl_us=2000)
    live.later(500)
    assert ("lost", "receiver_signal", "rx") not in live.instance().received
    live.later(600)
    live.later(600)
    assert live.instance().received.count(("lost", "receiver_signal", "rx")) == 1
    assert live.instance().received.count(("lost", "receiver_signal", "other")) == 0
    live.later(600)
    assert live.instance().received[-1] == ("lost", "receiver_signal", "other")
    assert live.telemetry_dispatch.received(1) == []
    assert [event.kind for event in live.events].count("telemetry:lost") == 2


def test_sample_that_is_too_old_is_not_delivered(tmp_path: Path) -> None:
    live = Received(tmp_path, LISTENING, 1)
    live.say(signal(), ttl_us=-1)
    assert live.instance().received == []
    assert live.telemetry_dispatch.counters.expired == 1


def test_last_will_of_a_sender_ends_what_it_said(tmp_path: Path) -> None:
    live = Received(tmp_path, LISTENING, 1)
    live.say(signal(), ttl_us=10**9)
    live.say(signal(), sender="other", ttl_us=10**9)
    live.say(signal(), AgentStatus(status="offline", role="receiver", reason="connection lost"))
    assert live.instance().received[-2:] == [("receiver_signal", "rx"), ("lost", "receiver_signal", "rx")]
    assert [sample.sender for sample in live.telemetry_dispatch.received(1)] == ["other"]
    live.say(AgentStatus(status="online", role="receiver"))
    assert len(live.instance().received) == 4


def test_flow_that_begins_later_receives_decisions_that_still_hold(tmp_path: Path) -> None:
    live = Received(tmp_path, LISTENING, 1)
    live.say(RegimeDecision(peer=RECEIVER, regime="SHARED"), sender="detector", ttl_us=1000)
    live.say(signal(), ttl_us=1000)
    live.feed(FakeCreated(FakeInfo(2)))
    live.agent_loop.turn(0)
    assert live.instance(2).received == [("regime_decision", "detector")]
    live.now_us += 2000
    live.feed(FakeCreated(FakeInfo(3)))
    live.agent_loop.turn(0)
    assert live.instance(3).received == []


def test_exception_costs_the_flow_its_algorithm(tmp_path: Path) -> None:
    live = Received(tmp_path, LISTENING, 1)
    live.feed(FakeCreated(FakeInfo(2, dst_addr="10.0.0.9")))
    live.say(ReceiverSignal(peer="10.0.0.9", ce_marks=1), signal())
    assert live.agent_loop.flow_ids() == [1]
    (event,) = [event for event in live.events if event.kind == "flow:failed"]
    assert (event.detail["callback"], event.detail["error"]) == ("on_telemetry", "ValueError: on purpose")
    assert "mine.py" in event.detail["where"]


def test_flow_that_closed_receives_nothing(tmp_path: Path) -> None:
    live = Received(tmp_path, LISTENING, 1)
    live.say(signal(), ttl_us=1000)
    live.feed(FakeClosed(1, FakeStats(1)))
    live.later(2000)
    live.say(signal())
    assert live.telemetry_dispatch.counters.unclaimed == 1
    assert live.telemetry_dispatch.counters.lost == 0


def test_vectorised_algorithm_gets_a_list_and_answers_with_updates(tmp_path: Path) -> None:
    live = Received(tmp_path, VECTOR, 1, 2)
    live.say(signal(), signal(), ttl_us=1000)
    host: Any = live.agent_loop.hosts["mine"]
    assert host.instance.received == [[(1, "receiver_signal"), (2, "receiver_signal")] * 2]
    assert live.datapath.written_many == [([1, 2, 1, 2], [10_000, 20_000, 10_000, 20_000], [0] * 4)]
    live.later(2000)
    assert host.instance.received[-1] == ("lost", [1, 2], "receiver_signal", "rx")


def test_telemetry_is_received_by_the_new_version_after_a_reload(tmp_path: Path) -> None:
    live = Received(tmp_path, LISTENING, 1)
    live.say(signal(), ttl_us=1000)
    live.loader.start()
    live.save(LISTENING.replace("20_000", "30_000"))
    live.loader.close()
    live.say(signal())
    assert live.datapath.written[-1].cwnd_bytes == 30_001
    assert len(live.instance().received) == 2


def test_control_shows_telemetry_and_changes_the_subscription(tmp_path: Path) -> None:
    live = Received(tmp_path, LISTENING, 1)
    streams = Streams(live.agent_loop)
    requests = Requests(live.agent_loop, live.loader, streams)
    inbox: Any = live.inbox
    telemetry_dispatch = Management(live.loader, streams, requests).receive(live.agent_loop, inbox, "host-a")
    streams.want(reports=False, decisions=False, events=True)
    live.inbox.waiting = []
    live.telemetry_dispatch._inbox = FakeInbox()
    live.say(signal(rtt_p50_us=7))
    ((sample, flow_ids),) = streams.samples()
    assert flow_ids == [1]
    assert json.loads(_ENCODE(msgspec.to_builtins(sample)))["body"]["rtt_p50_us"] == 7
    assert telemetry_dispatch.counters.delivered == 1
    flow = requests._flow(1)
    assert flow["telemetry"][0]["fields"]["rtt_p50_us"] == 7
    assert requests._subscribe(ask.Subscribe(kind="int_summary")) == ["receiver_signal", "int_summary"]
    assert requests._subscribe(ask.Subscribe(kind="int_summary", on=False)) == ["receiver_signal"]
    assert requests._status()["telemetry"]["delivered"] == 1


def test_bus_is_reported_of_settings_and_reloads_but_not_of_every_flow(tmp_path: Path) -> None:
    live = Edited(tmp_path / "mine.py", LISTENING, 1)
    inbox: Any = FakeInbox()
    live.agent_loop.events.listen(lambda event: bus.emit(inbox, event))
    live.feed(FakeCreated(FakeInfo(2)))
    assert inbox.published == []
    live.agent_loop.events.emit("param:set", "mine", FakeInfo(1), name="beta", value=0.5)
    live.agent_loop.events.emit("algorithm:reloaded", "mine", flows=2, programs={"a": "kept"}, huge=1 << 70)
    change, reloaded = inbox.published
    assert change == ParamChange(
        algorithm="mine",
        name="beta",
        value=0.5,
        flow=FlowId(src="10.0.0.1", src_port=40_000, dst=RECEIVER, dst_port=5_001),
    )
    assert isinstance(reloaded, AlgorithmEvent)
    assert reloaded.detail == {"flows": 2, "programs": "{'a': 'kept'}", "huge": str(1 << 70)}
    assert bus.status_of(live.agent_loop, "host-a").algorithms == ("mine",)


def test_one_sample_and_one_last_will_for_many_flows_are_no_silence(tmp_path: Path) -> None:
    lost = text("""
        def on_telemetry(self, sample):
            self.flow.set(cwnd_bytes=20_000)

        def on_telemetry_lost(self, kind, sender):
            self.flow.set(cwnd_bytes=10_000)
    """)
    live = Received(tmp_path, lost, *range(1, 1001))
    written = live.datapath.written_between_heartbeats
    for say in (signal(), AgentStatus(status="offline", role="receiver")):
        written[:] = [0]
        live.say(say)
        assert sum(written) == 1000
        assert max(written) <= 100


def test_flow_that_is_reported_often_expires_once(tmp_path: Path) -> None:
    live = Received(tmp_path, LISTENING, 1)
    for _ in range(10_000):
        live.say(signal(), ttl_us=7 * 86_400 * 10**6)
    assert len(live.telemetry_dispatch._expiries) < 100
    live.later(8 * 86_400 * 10**6)
    assert live.telemetry_dispatch.counters.lost == 1


def test_flows_that_closed_leave_nothing_to_expire(tmp_path: Path) -> None:
    live = Received(tmp_path, LISTENING)
    for flow_id in range(1, 5_001):
        live.feed(FakeCreated(FakeInfo(flow_id)))
        live.say(signal(), ttl_us=7 * 86_400 * 10**6)
        live.feed(FakeClosed(flow_id, FakeStats(flow_id)))
    assert len(live.telemetry_dispatch._expiries) < 2_000


def test_decisions_are_forgotten_when_they_expire_and_the_oldest_when_there_are_too_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(standing, "MAX_STANDING", 50)
    live = Received(tmp_path, LISTENING)
    for number in range(150):
        decision = RegimeDecision(peer=f"2001:db8::{number:x}", regime="SHARED")
        live.say(decision, sender=f"detector-{number}", ttl_us=1000 if number < 50 else 10**9)
        if number < 50:
            live.later(1)
    assert len(live.telemetry_dispatch._standing) <= 50
    last = "2001:db8::95"
    live.feed(FakeCreated(FakeInfo(1, dst_addr=last)))
    live.agent_loop.turn(0)
    assert live.instance().received == [("regime_decision", "detector-149")]
