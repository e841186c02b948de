from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from ccplane.agent.monitor.loop_source import EVENTS_ASKED, Agent, LoopSource, about
from ccplane.agent.monitor.source import Parameter, Received, Source
from ccplane.agent.runfile import RunInfo
from ccplane.base.errors import CcpError, LoadError, ParamError
from tests.unit.agent.fakes import FakeInfo, FakeStats

RUNNING = RunInfo(pid=7, pin_dir="/x", programs={1: "cubic/default"})

FLOW = {
    "flow_id": 1,
    "algorithm": "cubic",
    "params": [
        {
            "name": "beta",
            "value": 0.7,
            "default": 0.7,
            "low": 0.1,
            "high": 1.0,
            "choices": [],
            "unit": "",
            "doc": "what is kept",
        }
    ],
    "state": {"k_s": 1.5},
    "report": {"flow_id": 1, "t_us": 5, "fields": {"acked": 1448}, "age_ms": 20.0},
    "telemetry": [
        {
            "kind": "receiver_signal",
            "sender": "b",
            "age_ms": 250.0,
            "expired": False,
            "fields": {"kind": "receiver_signal", "ce_marks": 3},
        }
    ],
}


def event(t_us: int, kind: str = "param:set") -> dict[str, Any]:
    return {
        "kind": kind,
        "t_us": t_us,
        "t_wall_us": 1_000_000 + t_us,
        "algorithm": "cubic",
        "flow_id": None,
        "flow": None,
        "detail": {"name": "beta"},
    }


@dataclass
class FakeView:
    stats: list[FakeStats] = field(default_factory=lambda: [FakeStats(1)])

    def flows(self) -> list[FakeInfo]:
        return [FakeInfo(stats.flow_id) for stats in self.stats]

    def all_stats(self) -> list[FakeStats]:
        return self.stats

    def counters(self) -> dict[str, int]:
        return {"flows_over_limit": 2}


@dataclass
class FakeAgent:
    """A fake `ccplane.agent.client.Client`; raises `failure`, if set."""

    failure: CcpError | None = None
    happened: list[dict[str, Any]] = field(default_factory=list)
    asked: list[tuple[object, ...]] = field(default_factory=list)
    closed: bool = False

    def _ask(self, *what: object) -> None:
        self.asked.append(what)
        if self.failure is not None:
            raise self.failure

    def algorithms(self) -> list[str]:
        self._ask("algorithms")
        return ["cubic", "reno"]

    def flow(self, flow_id: int) -> dict[str, Any]:
        self._ask("flow", flow_id)
        return FLOW

    def events(self, limit: int) -> list[dict[str, Any]]:
        self._ask("events", limit)
        return self.happened

    def set(self, values: Mapping[str, str], *, flow: int | None, algorithm: str | None) -> int:
        self._ask("set", dict(values), flow, algorithm)
        return 3

    def switch(self, algorithm: str, *, flow: int | None, before: str | None) -> int:
        self._ask("switch", algorithm, flow, before)
        return 2

    def close(self) -> None:
        self.closed = True


@dataclass
class Around:
    """A source with its surroundings; `connected` are the agents that it connected to."""

    view: FakeView = field(default_factory=FakeView)
    running: RunInfo | None = RUNNING
    agent: FakeAgent = field(default_factory=FakeAgent)
    connected: list[FakeAgent] = field(default_factory=list)

    def source(self) -> LoopSource:
        def connect() -> Agent:
            self.connected.append(self.agent)
            return self.agent

        made = LoopSource("/x", self.view, agent=connect, running=lambda: self.running)
        _: Source = made
        return made


def test_look_has_rows_totals_counters_and_who_steers() -> None:
    around = Around()
    source = around.source()
    (row,) = source.look().rows
    assert row.throughput_bytes_per_s is None
    around.view.stats = [FakeStats(1, bytes_acked=500_000, now_us=1_500_000)]
    look = source.look()
    (row,) = look.rows
    assert row.throughput_bytes_per_s == 1_000_000  # in half a second
    assert row.steered_by == "cubic/default"
    assert look.stats[1].bytes_acked == 500_000
    assert look.agent == RUNNING
    assert look.counters == {"flows_over_limit": 2}


def test_looks_need_no_agent() -> None:
    around = Around(running=None)
    look = around.source().look()
    assert [row.flow_id for row in look.rows] == [1]
    assert look.agent is None
    assert around.connected == []


def test_inside_is_what_the_agent_says() -> None:
    around = Around()
    inside = around.source().inside(1)
    assert inside.algorithm == "cubic"
    assert inside.parameters == [Parameter("beta", 0.7, "0.1 to 1; what is kept")]
    assert inside.state == {"k_s": 1.5}
    assert inside.telemetry == [Received("receiver_signal", "b", 0.25, {"ce_marks": 3})]
    assert around.agent.asked == [("flow", 1)]


def test_each_event_is_reported_once() -> None:
    around = Around()
    source = around.source()
    around.agent.happened = [event(5), event(9)]
    assert [one.t_wall_s for one in source.events()] == [pytest.approx(1.000005), pytest.approx(1.000009)]
    assert source.events() == []
    around.agent.happened = [event(9), event(12, "algorithm:reloaded")]
    (new,) = source.events()
    assert (new.kind, new.algorithm, new.flow_id, new.detail) == (
        "algorithm:reloaded",
        "cubic",
        None,
        {"name": "beta"},
    )
    assert around.agent.asked == [("events", EVENTS_ASKED)] * 3


def test_changes_reach_the_agent_for_one_flow_or_for_those_of_an_algorithm() -> None:
    around = Around()
    source = around.source()
    assert source.algorithms() == ["cubic", "reno"]
    assert source.set_param("beta", "0.8", "cubic", None) == 3
    assert source.set_param("beta", "0.8", "cubic", 1) == 3
    assert source.switch("reno", None, "cubic") == 2
    assert source.switch("reno", 1, "cubic") == 2
    assert around.agent.asked[1:] == [
        ("set", {"beta": "0.8"}, None, "cubic"),
        ("set", {"beta": "0.8"}, 1, "cubic"),
        ("switch", "reno", None, "cubic"),
        ("switch", "reno", 1, None),
    ]
    assert len(around.connected) == 1


def test_no_agent_is_said_without_waiting_for_its_socket() -> None:
    around = Around(running=None)
    with pytest.raises(LoadError) as caught:
        around.source().inside(1)
    assert caught.value.slug == "control.no_agent"
    assert around.connected == []


def test_agent_that_does_not_answer_is_connected_again() -> None:
    first = FakeAgent(failure=LoadError("control.no_answer", "no answer"))
    around = Around(agent=first)
    source = around.source()
    with pytest.raises(LoadError):
        source.set_param("beta", "0.8", "cubic", None)
    assert first.closed
    around.agent = FakeAgent()
    source.inside(1)
    assert around.connected == [first, around.agent]
    assert around.agent.asked == [("flow", 1)]


def test_agent_that_refuses_stays_connected() -> None:
    around = Around(agent=FakeAgent(failure=ParamError("param.out_of_range", "no")))
    source = around.source()
    for _ in range(2):
        with pytest.raises(ParamError):
            source.set_param("beta", "9", "cubic", None)
    assert len(around.connected) == 1
    assert not around.agent.closed


def test_connection_ends_with_the_agent_and_with_the_source() -> None:
    around = Around()
    source = around.source()
    source.inside(1)
    around.running = None
    with pytest.raises(LoadError):
        source.inside(1)
    assert around.agent.closed
    around.running, around.agent = RUNNING, FakeAgent()
    source.inside(1)
    source.close()
    source.close()
    assert around.agent.closed


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, ""),
        ({"unit": "us", "low": 1, "high": 1_000_000, "doc": "target"}, "us; 1 to 1e+06; target"),
        ({"low": 0.5}, "from 0.5"),
        ({"high": 2}, "up to 2"),
        ({"choices": ["a", "b"], "low": 1}, "a | b"),
    ],
)
def test_parameter_is_described_as_far_as_it_says(changes: dict[str, Any], expected: str) -> None:
    empty = {"low": None, "high": None, "choices": [], "unit": "", "doc": ""}
    assert about(empty | changes) == expected
