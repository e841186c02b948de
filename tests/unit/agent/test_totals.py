"""`on_close` can always read all totals of a flow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import pytest

from ccp_algs import Algorithm, check_algorithm
from ccp_algs.api import FlowStats
from ccplane.agent.agent_loop import AgentLoop
from ccplane.agent.algorithms import Running
from ccplane.datapath import ebpf
from tests.unit.agent.fakes import FakeCreated, FakeInfo, fake_datapath
from tests.unit.agent.test_agent_loop import Clock
from tests.unit.datapath.test_sim import PROGRAM, plan, world

TOTALS = [name for name in vars(FlowStats) if not name.startswith("_")]


class Reader(Algorithm):
    program = PROGRAM
    read: ClassVar[list[Mapping[str, Any]]] = []

    def on_report(self, report: Any) -> None:
        pass

    def on_close(self, stats: FlowStats) -> None:
        self.read.append({name: getattr(stats, name) for name in TOTALS})


@pytest.fixture(autouse=True)
def read(monkeypatch: pytest.MonkeyPatch) -> list[Mapping[str, Any]]:
    seen: list[Mapping[str, Any]] = []
    monkeypatch.setattr(Reader, "read", seen)
    return seen


def reader() -> Running:
    programs = {"default": ebpf.compile_program(PROGRAM)}
    return Running(Reader, "reader", programs, "default")


def test_a_check_has_them(read: list[Mapping[str, Any]]) -> None:
    assert len(TOTALS) > 20
    check_algorithm(Reader)
    assert read
    assert read[0]["acks"] > 0


def test_the_simulator_has_them(read: list[Mapping[str, Any]]) -> None:
    datapath = world()
    agent_loop = AgentLoop(datapath, [reader()])
    datapath.connect(plan(stop_us=2_000_000))
    while not datapath.finished:
        agent_loop.turn(1000)
    (stats,) = read
    assert stats["reports"] > 5
    assert stats["mail_applied_us"] > 1_000_000


def test_a_flow_whose_close_event_was_lost_has_them(read: list[Mapping[str, Any]]) -> None:
    datapath, clock = fake_datapath(), Clock()
    agent_loop = AgentLoop(datapath, [reader()], clock=clock)
    agent_loop.adopt()
    datapath.feed(FakeCreated(FakeInfo(1)))
    agent_loop.turn(0)
    datapath.there = {}
    datapath.missed = {"closes_missed": 1}
    clock.now_s += 1
    agent_loop.turn(0)
    assert read == [{**dict.fromkeys(TOTALS, 0), "flow_id": 1, "fallback": True, "fallback_cause": "new"}]
