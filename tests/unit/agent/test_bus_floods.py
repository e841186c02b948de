"""What one sender on the bus, or many, can cost an agent: counted in steps, deliveries and bytes."""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from broker.messages import Incoming
from broker.options import BusOptions
from broker.topics import topic_of
from ccplane.agent.inbox import MAX_WAITING, Inbox
from ccplane.agent.telemetry_dispatch import (
    MAX_SOURCES,
    MAX_STEPS_PER_TURN,
    SLICE_US,
    STEPS,
    TelemetryDispatch,
)
from telemetry.bus import mono_us, wall_us
from telemetry.codec import encode
from telemetry.schema import VERSION, AgentStatus, Body, Envelope, ReceiverSignal, RegimeDecision, kind_of
from tests.unit.agent.fakes import FakeCreated, FakeInfo, FakeReport
from tests.unit.agent.live import Edited, text

HOST, PEER = "10.0.0.1", "10.0.0.2"
"""Both ends of all fake flows."""

COUNTING = text("""
    reports = 0
    telemetry = 0
    lost = 0

    def on_report(self, report):
        type(self).reports += 1

    def on_telemetry(self, sample):
        type(self).telemetry += 1

    def on_telemetry_lost(self, kind, sender):
        type(self).lost += 1
""")

OFFLINE = AgentStatus(status="offline", role="receiver", reason="stopped")


class Flooded(Edited):
    """An agent loop with the inbox of a real agent; messages arrive as bytes."""

    def __init__(self, directory: Path, flows: int) -> None:
        super().__init__(directory / "mine.py", COUNTING, *range(1, flows + 1))
        self.inbox = Inbox(BusOptions(), sender="host-a", wake=self.datapath.wake)
        self.now_us = mono_us()
        self.dispatch = TelemetryDispatch(self.agent_loop, self.inbox, "host-a", lambda: self.now_us)

    @property
    def counts(self) -> Any:
        return self.agent_loop.hosts["mine"].algorithm

    def arrive(self, body: Body, sender: str = "rx", about: str = HOST, ttl_ms: int | None = 60_000) -> None:
        message = Envelope(
            version=VERSION,
            sender=sender,
            t_mono_us=self.now_us,
            t_wall_us=wall_us(),
            ttl_ms=ttl_ms,
            body=body,
        )
        topic = topic_of(kind_of(body), sender, about)
        self.inbox._receive(Incoming(topic, encode(message), False, "", self.now_us))
        assert not self.inbox.counters.invalid

    def turns(self) -> int:
        """Turn until nothing is left; return the number of turns."""
        turns = 0
        while True:
            self.datapath.wakes = 0
            self.agent_loop.turn(0)
            turns += 1
            if not self.datapath.wakes:
                return turns


def lines_of(call: Callable[[], Any], *modules: str) -> int:
    """Return how many lines of the dispatch and its index a call executes."""
    lines = 0
    files = ("telemetry_dispatch.py", "standing.py", "join.py")

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal lines
        if not frame.f_code.co_filename.endswith(files):
            return None
        lines += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return lines


def test_last_wills_of_one_sender_count_once_and_those_of_others_walk_no_flows(tmp_path: Path) -> None:
    live = Flooded(tmp_path, 300)
    for sender in ("one", "two"):
        live.arrive(ReceiverSignal(peer=HOST), sender)
    live.turns()
    for _ in range(1000):
        live.arrive(OFFLINE, "one")
    for number in range(1000):
        live.arrive(OFFLINE, f"other-{number}")
    assert live.inbox.waiting == 1001
    assert lines_of(live.turns) < 60 * (1001 + 300)
    assert live.counts.lost == 300
    assert [sample.sender for sample in live.dispatch.received(1)] == ["two"]


def test_last_will_is_no_less_than_what_came_before_it(tmp_path: Path) -> None:
    live = Flooded(tmp_path, 1)
    live.arrive(AgentStatus(status="online", role="receiver"))
    live.arrive(ReceiverSignal(peer=HOST))
    live.arrive(OFFLINE)
    live.arrive(AgentStatus(status="online", role="receiver"))
    live.turns()
    assert (live.counts.telemetry, live.counts.lost) == (1, 1)
    assert live.dispatch.received(1) == []


def test_samples_for_all_flows_wait_for_reports_and_take_little_memory(tmp_path: Path) -> None:
    flows = 2_000
    live = Flooded(tmp_path, flows)
    for number in range(MAX_WAITING):
        live.arrive(ReceiverSignal(peer=HOST, ce_marks=number))
    handle = live.agent_loop.flows[1].flow.handle
    tracemalloc.start()
    try:
        for turn in range(1, 20):
            live.datapath.feed(FakeReport(1, handle))
            live.agent_loop.turn(0)
            assert live.counts.reports == turn
            assert live.counts.telemetry <= turn * MAX_STEPS_PER_TURN
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert live.counts.telemetry >= 18 * MAX_STEPS_PER_TURN
    assert live.datapath.wakes
    assert peak_bytes < 5_000_000


def test_slow_callbacks_end_the_turn(tmp_path: Path) -> None:
    live = Flooded(tmp_path, 1_000)
    slow: Any = live.counts

    def on_telemetry(self: Any, sample: Any) -> None:
        slow.telemetry += 1
        live.now_us += SLICE_US

    slow.on_telemetry = on_telemetry
    live.arrive(ReceiverSignal(peer=HOST))
    live.agent_loop.turn(0)
    assert 0 < slow.telemetry <= STEPS
    live.turns()
    assert slow.telemetry == 1_000


def test_old_samples_are_not_delivered_after_a_flood(tmp_path: Path) -> None:
    live = Flooded(tmp_path, 2_000)
    for _ in range(100):
        live.arrive(ReceiverSignal(peer=HOST), ttl_ms=1000)
    live.agent_loop.turn(0)
    live.now_us += 2_000_000
    live.turns()
    assert live.dispatch.counters.expired == 99


def test_flood_of_one_sender_delays_and_displaces_no_sample_of_another(tmp_path: Path) -> None:
    live = Flooded(tmp_path, 1)
    for number in range(4 * MAX_WAITING):
        about = f"2001:db8::{number:x}"
        live.arrive(ReceiverSignal(peer=about), "flood", about)
        if number % MAX_WAITING == 0:
            live.arrive(ReceiverSignal(peer=HOST, ce_marks=number), "rx")
    assert live.inbox.waiting == MAX_WAITING
    taken = [live.inbox.take() for _ in range(8)]
    assert [sample.sender for sample in taken if sample] == ["flood", "rx"] * 4


def test_forged_senders_take_bounded_memory_for_each_flow(tmp_path: Path) -> None:
    live = Flooded(tmp_path, 3)
    for number in range(1_000):
        live.arrive(ReceiverSignal(peer=HOST), f"rx-{number}", ttl_ms=7 * 86_400_000)
    live.turns()
    assert len(live.dispatch.received(1)) == MAX_SOURCES
    assert live.counts.lost == 3 * (1_000 - MAX_SOURCES)
    kept = (live.dispatch._expiries, live.dispatch._due, live.dispatch._reached)
    assert [len(one) for one in kept[1:]] == [3 * MAX_SOURCES, MAX_SOURCES]
    assert len(kept[0]) < 1_000 + 3 * 3 * MAX_SOURCES
    live.now_us += 8 * 86_400 * 10**6
    live.turns()
    assert [len(one) for one in kept] == [0, 0, 0]


def test_a_sender_that_comes_and_goes_takes_bounded_memory(tmp_path: Path) -> None:
    live = Flooded(tmp_path, 1)
    for _ in range(5_000):
        live.arrive(ReceiverSignal(peer=HOST), ttl_ms=7 * 86_400_000)
        live.turns()
        live.arrive(OFFLINE)
        live.turns()
    assert len(live.dispatch._expiries) < 2_000


def spelled(number: int) -> str:
    """Return one of 4,096 spellings of the peer's address, IPv4 in IPv6."""
    groups = ["0" * (1 + (number >> 2 * place) % 4) for place in range(5)]
    return ":".join((*groups, "ffff" if number >> 10 & 1 else "FFFF", PEER if number >> 11 & 1 else "a00:2"))


def test_an_address_in_many_spellings_is_one_decision(tmp_path: Path) -> None:
    spellings = {spelled(number) for number in range(2_000)}
    assert len(spellings) == 2_000
    live = Flooded(tmp_path, 0)
    for about in spellings:
        live.arrive(RegimeDecision(peer=about, regime="SHARED"), "detector", about)
    assert live.inbox.waiting == 2_000
    live.turns()
    assert len(live.dispatch._standing) == 1
    live.feed(FakeCreated(FakeInfo(1)))
    live.turns()
    assert live.counts.telemetry == 1


def test_new_flows_walk_no_decisions_about_other_paths(tmp_path: Path) -> None:
    live = Flooded(tmp_path, 0)
    for number in range(2_000):
        about = f"2001:db8::{number:x}"
        live.arrive(RegimeDecision(peer=about, regime="SHARED"), "detector", about)
    live.arrive(RegimeDecision(host="host-a", regime="SHARED"), "detector", "host")
    live.arrive(RegimeDecision(host="host-b", regime="SHARED"), "other", "host")
    live.turns()
    live.datapath.feed(*(FakeCreated(FakeInfo(number)) for number in range(1, 101)))
    assert lines_of(live.turns) < 100 * 120
    assert live.counts.telemetry == 100


def test_decisions_of_many_senders_do_not_displace_those_of_one(tmp_path: Path) -> None:
    live = Flooded(tmp_path, 0)
    live.arrive(RegimeDecision(peer=PEER, address=HOST, regime="SHARED"), "detector", PEER)
    for number in range(1_000):
        live.arrive(RegimeDecision(peer=PEER, regime="SHARED"), f"forged-{number}", PEER)
    live.turns()
    live.feed(FakeCreated(FakeInfo(1)))
    live.turns()
    assert live.counts.telemetry == 17
    assert "detector" in {sample.sender for sample in live.dispatch.received(1)}
