from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest

from ccp_algs import Algorithm, Param, Updates, VectorAlgorithm
from ccplane.agent import hosts
from ccplane.agent.agent_loop import AgentLoop
from ccplane.agent.algorithms import Running
from ccplane.agent.changes import Which
from ccplane.agent.hosts import VectorHost
from tests.unit.agent.fakes import (
    FakeClosed,
    FakeCreated,
    FakeDatapath,
    FakeEvent,
    FakeInfo,
    FakeProgram,
    FakeReport,
    FakeStats,
    Written,
    fake_datapath,
)


def vector() -> type[VectorAlgorithm]:
    """A fresh vectorised algorithm that records, doubles windows, and raises on reports of 666 bytes."""

    class Vector(VectorAlgorithm):
        name = "vec"
        program = "x"
        beta = Param(0.5)
        calls: ClassVar[list[tuple[Any, ...]]] = []
        instances: ClassVar[list[Any]] = []

        def __init__(self) -> None:
            self.instances.append(self)

        def on_create(self, info: Any) -> None:
            self.calls.append(("create", info.flow_id))

        def on_reports(self, reports: np.ndarray, program: str) -> Updates | None:
            if (reports["acked"] == 666).any():
                raise ValueError("bad luck")
            self.calls.append(("reports", *reports["flow_id"].tolist()))
            return Updates(reports["flow_id"], 2 * reports["cwnd_bytes"]) if len(reports) > 1 else None

        def on_close(self, flow_id: int) -> None:
            self.calls.append(("close", flow_id))

    return Vector


class Single(Algorithm):
    name = "single"

    def on_report(self, report: Any) -> None:
        self.flow.set(cwnd_bytes=report.acked)


def loop_with(datapath: FakeDatapath, *classes: Any) -> AgentLoop:
    compiled = {"default": FakeProgram()}
    return AgentLoop(datapath, [Running(c, c.name, compiled, "default", f"ccp.{c.name}") for c in classes])


def test_batch_reaches_the_one_instance_as_an_array_and_goes_back_as_one() -> None:
    cls, datapath = vector(), fake_datapath()
    agent_loop = loop_with(datapath, cls)
    datapath.feed(
        FakeCreated(FakeInfo(1)), FakeReport(1, acked=1), FakeCreated(FakeInfo(2)), FakeReport(2, acked=2)
    )
    agent_loop.turn(0)
    assert cls.calls == [("create", 1), ("create", 2), ("reports", 1, 2)]
    assert len(cls.instances) == 1
    assert datapath.written == [Written(i, None, None, 1, None) for i in (1, 2)]
    assert datapath.written_many == [([1, 2], [28_960, 28_960], [0, 0])]
    assert agent_loop.counters.reports == 2
    assert [flow_id for flow_id, _ in datapath.answers] == [1, 2]


def test_several_updates_are_written_in_their_order() -> None:
    cls, datapath = vector(), fake_datapath()

    def decide(self: Any, reports: np.ndarray, program: str) -> list[Updates]:
        ids = reports["flow_id"]
        return [Updates(ids[:1], registers={"beta_permille": ids[:1]}), Updates(ids, 3 * ids)]

    cls.on_reports = decide
    agent_loop = loop_with(datapath, cls)
    datapath.feed(
        FakeCreated(FakeInfo(1)), FakeReport(1, acked=1), FakeCreated(FakeInfo(2)), FakeReport(2, acked=2)
    )
    agent_loop.turn(0)
    assert datapath.written_many == [([1], [0], [0]), ([1, 2], [3, 6], [0, 0])]
    assert datapath.registers_many == [{"beta_permille": [1]}]


def test_close_comes_after_the_reports_of_its_batch() -> None:
    cls, datapath = vector(), fake_datapath()
    agent_loop = loop_with(datapath, cls)
    datapath.feed(FakeCreated(FakeInfo(1)))
    agent_loop.turn(0)
    datapath.feed(FakeReport(1, acked=1), FakeClosed(1, FakeStats(1)))
    agent_loop.turn(0)
    assert cls.calls == [("create", 1), ("reports", 1), ("close", 1)]
    assert datapath.written_many == []


def test_array_of_another_program_is_stale() -> None:
    cls, datapath = vector(), fake_datapath()
    agent_loop = loop_with(datapath, cls)
    datapath.feed(FakeCreated(FakeInfo(1)), FakeReport(1, 9, acked=1), FakeReport(1, 9, acked=1))
    agent_loop.turn(0)
    assert cls.calls == [("create", 1)]
    assert (agent_loop.counters.reports, agent_loop.counters.reports_stale) == (0, 2)


def test_vectorised_and_other_algorithms_share_a_batch() -> None:
    cls, datapath = vector(), fake_datapath()
    agent_loop = loop_with(datapath, cls, Single)
    datapath.feed(FakeCreated(FakeInfo(1)), FakeCreated(FakeInfo(2, cc_name="ccp.single")))
    agent_loop.turn(0)
    datapath.feed(
        FakeReport(1, 1, acked=7),
        FakeReport(2, 2, acked=3_000),
        FakeReport(2, 9, acked=1),
        FakeReport(1, 1, acked=8),
        FakeClosed(1, FakeStats(1)),
    )
    agent_loop.turn(0)
    assert cls.calls == [("create", 1), ("reports", 1, 1), ("close", 1)]
    assert datapath.written[-1] == Written(2, 3_000, None, None, None)
    assert (agent_loop.counters.reports, agent_loop.counters.reports_stale) == (3, 1)


def test_instance_that_raises_gives_its_flows_to_the_fallback_and_the_next_flow_gets_a_new_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cls, datapath = vector(), fake_datapath()
    agent_loop = loop_with(datapath, cls, Single)
    datapath.feed(
        FakeCreated(FakeInfo(1)),
        FakeCreated(FakeInfo(2)),
        FakeCreated(FakeInfo(3, cc_name="ccp.single")),
        FakeReport(1, acked=666),
    )
    agent_loop.turn(0)
    assert [w for w in datapath.written if w.program == 0] == [
        Written(i, None, None, 0, None) for i in (1, 2)
    ]
    assert agent_loop.flow_ids() == [3]
    assert "and 1 more" in caplog.text
    datapath.feed(FakeCreated(FakeInfo(4)), FakeReport(1, acked=1), FakeReport(4, acked=1))
    agent_loop.turn(0)
    assert cls.calls[-2:] == [("create", 4), ("reports", 4)]
    assert len(cls.instances) == 2
    datapath.feed(FakeClosed(1, FakeStats(1)), FakeClosed(4, FakeStats(4)))
    agent_loop.turn(0)
    assert cls.calls[-1] == ("close", 4)
    assert ("close", 1) not in cls.calls


def test_bad_decision_counts_as_an_exception() -> None:
    cls, datapath = vector(), fake_datapath()
    cls.on_reports = lambda self, reports, program: Updates(reports["flow_id"], np.array([np.nan]))
    agent_loop = loop_with(datapath, cls)
    datapath.feed(FakeCreated(FakeInfo(1)), FakeReport(1, acked=1))
    agent_loop.turn(0)
    assert agent_loop.counters.flows_failed == 1
    assert datapath.written_many == []


def test_flow_that_the_instance_refuses_costs_that_flow_only() -> None:
    cls, datapath = vector(), fake_datapath()

    def on_create(self: Any, info: Any) -> None:
        if info.flow_id == 1:
            raise ValueError("not this one")

    cls.on_create = on_create
    agent_loop = loop_with(datapath, cls)
    datapath.feed(
        FakeCreated(FakeInfo(1)), FakeCreated(FakeInfo(2)), FakeReport(1, acked=1), FakeReport(2, acked=1)
    )
    agent_loop.turn(0)
    assert agent_loop.flow_ids() == [2]
    assert cls.calls == [("reports", 2)]
    assert agent_loop.counters.reports_stale == 1


def test_constructor_that_raises_costs_no_more_than_the_flow() -> None:
    cls, datapath = vector(), fake_datapath()

    def init(self: Any) -> None:
        raise RuntimeError("no")

    cls.__init__ = init
    agent_loop = loop_with(datapath, cls)
    datapath.feed(FakeCreated(FakeInfo(1)), FakeReport(1, acked=1))
    agent_loop.turn(0)
    assert (agent_loop.counters.flows_failed, agent_loop.counters.reports) == (1, 0)


def test_lost_close_is_reported_to_the_instance() -> None:
    cls, datapath = vector(), fake_datapath(FakeInfo(1))
    agent_loop = loop_with(datapath, cls)
    agent_loop.adopt()
    datapath.there.clear()
    agent_loop.resync()
    assert cls.calls == [("create", 1), ("close", 1)]


def test_it_may_do_to_one_flow_what_single_algorithms_may() -> None:
    class Able(VectorAlgorithm):
        name = "able"
        seen: ClassVar[list[Any]] = []

        def on_create(self, info: Any) -> None:
            self.flows[info.flow_id].set(cwnd_bytes=20_000)

        def on_reports(self, reports: np.ndarray, program: str) -> None:
            self.seen.append((program, reports["flow_id"].tolist()))
            for flow_id in reports["flow_id"].tolist():
                if program == "first":
                    self.flows[flow_id].set_program("second", cwnd_bytes=30_000)
                    self.flows[flow_id].emit("able:moved", to="second")

        def on_extension(self, flow_id: int, extension: str, message: bytes) -> None:
            self.seen.append((flow_id, extension, message))

        def on_close(self, flow_id: int) -> None:
            self.seen.append(("closed", self.flows[flow_id].info.flow_id))

    datapath, events = fake_datapath(), []
    programs = {"first": FakeProgram(1), "second": FakeProgram(2)}
    agent_loop = AgentLoop(datapath, [Running(Able, "able", programs, "first", "ccp.able")])
    agent_loop.events.listen(events.append)
    datapath.feed(FakeCreated(FakeInfo(1)), FakeReport(1, program_handle=1, acked=1))
    datapath.feed(FakeReport(1, program_handle=2, acked=1), FakeEvent(1, b"12345678"))
    for _ in range(2):
        agent_loop.turn(0)
    assert datapath.written == [Written(1, 20_000, None, 1, None), Written(1, 30_000, None, 2, None)]
    host = agent_loop.hosts["able"]
    assert isinstance(host, VectorHost)
    assert host.instance is not None
    datapath.there.clear()
    host.instance.flows[1].set(cwnd_bytes=40_000)  # it closed, which is not yet known: no harm to the others
    datapath.feed(FakeClosed(1, FakeStats(1)))
    agent_loop.turn(0)
    assert Able.seen == [("first", [1]), (1, "counter", b"12345678"), ("second", [1]), ("closed", 1)]
    assert [event.detail for event in events if event.kind == "able:moved"] == [{"to": "second"}]
    assert not host.instance.flows


def test_parameters_that_were_set_are_reported_and_the_answer_is_written() -> None:
    cls, datapath = vector(), fake_datapath(FakeInfo(1))
    reported = []

    def on_params(self: Any, names: frozenset[str]) -> Updates:
        reported.append(names)
        return Updates(np.array([1], np.uint64), cwnd_bytes=np.array([20_000], np.uint64))

    cls.on_params = on_params
    agent_loop = loop_with(datapath, cls)
    agent_loop.adopt()
    agent_loop.changes.set_params({"beta": 0.7}, Which())
    for _ in range(2):
        agent_loop.turn(0)
    assert reported == [{"beta"}]
    assert datapath.written_many == [([1], [20_000], [0])]


def test_last_report_of_each_flow_is_known_as_long_as_it_is_among_the_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hosts, "RECENT_ROWS", 3)
    datapath = fake_datapath()
    agent_loop = loop_with(datapath, vector())
    host = agent_loop.hosts["vec"]
    datapath.feed(*(FakeCreated(FakeInfo(flow_id)) for flow_id in (1, 2, 3)))
    datapath.feed(FakeReport(1, acked=10), FakeReport(2, acked=20), FakeReport(1, acked=11))
    for _ in range(2):
        agent_loop.turn(0)

    def last() -> list[int | None]:
        found = [host.row_of_last(agent_loop.flows[flow_id]) for flow_id in (1, 2, 3)]
        return [None if row is None else row["fields"]["acked"] for row in found]

    assert last() == [11, 20, None]
    for acked in (30, 31, 32):
        datapath.feed(FakeReport(3, acked=acked))
        agent_loop.turn(0)
    assert last() == [None, None, 32]
