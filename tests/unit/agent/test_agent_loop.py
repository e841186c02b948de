from __future__ import annotations

import logging
from typing import Any, ClassVar

import pytest

from ccp_algs import Algorithm, Param
from ccplane.agent.agent_loop import EVENTS_PER_HEARTBEAT, AgentLoop
from ccplane.agent.algorithms import Running
from ccplane.agent.changes import Which
from ccplane.agent.rules import parse_rules
from ccplane.base.errors import FlowGone, ParamError, UsageError, VerifierError
from tests.unit.agent.fakes import (
    FakeClosed,
    FakeCreated,
    FakeDatapath,
    FakeInfo,
    FakeProgram,
    FakeReport,
    FakeStats,
    Written,
    fake_datapath,
    stamped,
)
from tests.waiting import Clock


def recorder(name: str = "rec") -> type[Algorithm]:
    """A fresh algorithm that records its callbacks in the class's list `calls`."""

    class Recorder(Algorithm):
        program = "x"
        beta = Param(0.5, min=0.1, max=0.9)
        calls: ClassVar[list[tuple[Any, ...]]] = []

        def on_create(self, info: Any) -> None:
            self.calls.append(("create", info.flow_id))

        def on_report(self, report: Any) -> None:
            self.calls.append(("report", report.flow_id, report.acked))

        def on_close(self, stats: Any) -> None:
            self.calls.append(("close", stats.flow_id, stats.bytes_acked))

    Recorder.name = name
    return Recorder


def running(cls: type[Algorithm], name: str | None = None, **programs: FakeProgram) -> Running:
    name = name or cls.name
    compiled = programs or {"default": FakeProgram()}
    return Running(cls, name, compiled, next(iter(compiled)), f"ccp.{name}")


def loop_with(datapath: FakeDatapath, *classes: type[Algorithm], **options: Any) -> AgentLoop:
    return AgentLoop(datapath, [running(cls) for cls in classes], **options)


def test_callbacks_come_in_order_of_events() -> None:
    cls, datapath = recorder(), fake_datapath()
    agent_loop = loop_with(datapath, cls)
    datapath.feed(
        FakeCreated(FakeInfo(1)),
        FakeReport(1, acked=10),
        FakeCreated(FakeInfo(2)),
        FakeReport(2, acked=20),
    )
    assert agent_loop.turn(0) == 4
    datapath.feed(FakeReport(1, acked=30), FakeClosed(1, FakeStats(1, bytes_acked=40)))
    assert agent_loop.turn(0) == 2
    assert cls.calls == [
        ("create", 1),
        ("report", 1, 10),
        ("create", 2),
        ("report", 2, 20),
        ("report", 1, 30),
        ("close", 1, 40),
    ]
    assert agent_loop.flow_ids() == [2]
    counters = agent_loop.counters
    assert (counters.flows_created, counters.flows_closed, counters.reports) == (2, 1, 3)


def test_flow_gets_its_program_with_what_on_create_sets() -> None:
    class Setter(Algorithm):
        name = "setter"

        def on_create(self, info: Any) -> None:
            self.flow.set(cwnd_bytes=2 * info.init_cwnd_bytes)

    datapath = fake_datapath()
    agent_loop = loop_with(datapath, Setter)
    datapath.feed(FakeCreated(FakeInfo(1)))
    agent_loop.turn(0)
    assert datapath.written == [Written(1, 28_960, None, 1, None)]


@pytest.mark.parametrize("programs", ["b", "ba"])
def test_report_of_before_a_change_of_programs_is_stale(programs: str) -> None:
    class Switching(Algorithm):
        name = "switching"
        seen: ClassVar[list[int]] = []

        def on_report(self, report: Any) -> None:
            self.seen.append(report.acked)
            if report.acked == 1:
                for program in programs:
                    self.flow.set_program(program)

    datapath = fake_datapath()
    agent_loop = AgentLoop(datapath, [running(Switching, a=FakeProgram("a"), b=FakeProgram("b"))])
    handle = 2 if programs == "b" else 1
    datapath.feed(
        FakeCreated(FakeInfo(1)),
        FakeReport(1, 1, acked=1),
        FakeReport(1, 1, acked=2),
        FakeReport(1, stamped(handle, len(programs)), acked=3),
        FakeReport(99, 1, acked=4),
    )
    agent_loop.turn(0)
    assert Switching.seen == [1, 3]
    assert (agent_loop.counters.reports, agent_loop.counters.reports_stale) == (2, 2)


def test_a_report_is_answered_once_its_callback_has_returned() -> None:
    answered: list[int] = []

    class Looking(Algorithm):
        program = "x"

        def on_report(self, report: Any) -> None:
            answered.append(len(datapath.answers))
            if report.acked == 666:
                raise ValueError("bad luck")

    datapath = fake_datapath(FakeInfo(1), FakeInfo(2))
    agent_loop = loop_with(datapath, Looking)
    agent_loop.adopt()
    right = [FakeReport(1, acked=1), FakeReport(1, acked=2)]
    wrong = FakeReport(2, acked=666)
    datapath.feed(right[0], wrong, right[1], FakeReport(9))
    agent_loop.turn(0)
    assert answered == [0, 1, 1]
    assert datapath.answers == right


def test_a_known_flow_that_announces_itself_again_is_answered_and_not_new() -> None:
    cls, datapath = recorder(), fake_datapath()
    agent_loop = loop_with(datapath, cls)
    again = FakeCreated(FakeInfo(1))
    datapath.feed(FakeCreated(FakeInfo(1)))
    agent_loop.turn(0)
    assert datapath.answers == []
    datapath.feed(again)
    agent_loop.turn(0)
    assert datapath.answers == [again]
    assert cls.calls == [("create", 1)]


def test_long_batch_refreshes_the_heartbeat() -> None:
    datapath = fake_datapath()
    agent_loop = loop_with(datapath, recorder())
    datapath.feed(
        FakeCreated(FakeInfo(1)), *(FakeReport(1, acked=1) for _ in range(3 * EVENTS_PER_HEARTBEAT))
    )
    agent_loop.turn(0)
    assert datapath.heartbeats == 4
    assert agent_loop.counters.reports == 3 * EVENTS_PER_HEARTBEAT


@pytest.mark.parametrize(
    ("info", "expected"),
    [
        (FakeInfo(1), "one"),
        (FakeInfo(1, cc_name="ccp.two"), "two"),
        (FakeInfo(1, dst_port=80), "two"),
        (FakeInfo(1, dst_port=80, cc_name="ccp.one"), "one"),
        (FakeInfo(1, cc_name="ccp.gone"), "one"),
        (FakeInfo(1, cc_name="ccp.gone", dst_port=80), "two"),
    ],
    ids=["default", "by name", "by rule", "name before rule", "name of nobody", "name of nobody, rule"],
)
def test_algorithm_is_chosen_by_name_then_rule_then_default(info: FakeInfo, expected: str) -> None:
    classes = [recorder("one"), recorder("two")]
    datapath = fake_datapath()
    agent_loop = loop_with(datapath, *classes, rules=parse_rules(["dport=80 -> two"], ["one", "two"]))
    datapath.feed(FakeCreated(info))
    agent_loop.turn(0)
    assert agent_loop.flow_ids(expected) == [1]


def test_unknown_default_and_rule_are_refused() -> None:
    with pytest.raises(UsageError) as caught:
        loop_with(fake_datapath(), recorder("one"), default="two")
    assert caught.value.slug == "algorithm.unknown"
    with pytest.raises(UsageError):
        loop_with(fake_datapath(), recorder("one"), rules=parse_rules(["dport=80 -> x"], ["x"]))


def test_two_algorithms_of_one_name_are_refused() -> None:
    with pytest.raises(UsageError) as caught:
        loop_with(fake_datapath(), recorder("one"), recorder("one"))
    assert caught.value.slug == "algorithm.duplicate"


def test_nothing_stays_installed_when_the_second_algorithm_is_refused() -> None:
    datapath = fake_datapath(refuse=["bad"])
    with pytest.raises(VerifierError):
        AgentLoop(datapath, [running(recorder("one")), running(recorder("two"), bad=FakeProgram("bad"))])
    assert datapath.installed == {}


def failing(callback: str, error: Exception) -> type[Algorithm]:

    class Failing(Algorithm):
        name = "failing"
        reported: ClassVar[list[int]] = []

        def _maybe(self, where: str, flow_id: int) -> None:
            if where == callback and flow_id == 1:
                raise error

        def on_create(self, info: Any) -> None:
            self._maybe("on_create", info.flow_id)

        def on_report(self, report: Any) -> None:
            self._maybe("on_report", report.flow_id)
            self.reported.append(report.flow_id)

        def on_close(self, stats: Any) -> None:
            self._maybe("on_close", stats.flow_id)

    return Failing


@pytest.mark.parametrize("callback", ["on_create", "on_report"])
def test_flow_whose_algorithm_raises_goes_to_the_fallback_and_others_go_on(
    callback: str, caplog: pytest.LogCaptureFixture
) -> None:
    cls, datapath = failing(callback, ZeroDivisionError("an RTT of 0")), fake_datapath()
    agent_loop = loop_with(datapath, cls)
    datapath.feed(
        FakeCreated(FakeInfo(1)), FakeCreated(FakeInfo(2)), FakeReport(1), FakeReport(2), FakeReport(1)
    )
    with caplog.at_level(logging.ERROR, "ccplane.agent"):
        agent_loop.turn(0)
    assert cls.reported == [2]
    assert datapath.written[-1 if callback == "on_report" else 0] == Written(1, None, None, 0, None)
    assert agent_loop.flow_ids() == [2]
    assert (agent_loop.counters.algorithm_errors, agent_loop.counters.flows_failed) == (1, 1)
    assert agent_loop.counters.reports_stale == (1 if callback == "on_report" else 2)
    (record,) = caplog.records
    assert "failing." + callback in record.message
    assert "an RTT of 0" in record.message
    assert "10.0.0.1:40000 -> 10.0.0.2:5001" in record.message
    assert record.exc_info is not None
    assert record.exc_info[1].__traceback__ is not None


def test_algorithm_that_cannot_be_constructed_costs_the_flow_only() -> None:
    class Unborn(Algorithm):
        name = "unborn"

        def __init__(self) -> None:
            raise RuntimeError("no")

    datapath = fake_datapath()
    agent_loop = loop_with(datapath, Unborn)
    datapath.feed(FakeCreated(FakeInfo(1)), FakeClosed(1, FakeStats(1)))
    agent_loop.turn(0)
    assert datapath.written == [Written(1, None, None, 0, None)]
    assert (agent_loop.counters.flows_failed, agent_loop.counters.flows_closed) == (1, 1)


def test_failed_flow_is_not_adopted_again_and_gets_no_farewell() -> None:
    cls = recorder()
    cls.on_report = lambda self, report: 1 / 0
    datapath = fake_datapath()
    agent_loop = loop_with(datapath, cls)
    datapath.feed(FakeCreated(FakeInfo(1)), FakeReport(1))
    agent_loop.turn(0)
    assert agent_loop.adopt() == 0
    datapath.feed(FakeClosed(1, FakeStats(1)))
    agent_loop.turn(0)
    assert cls.calls == [("create", 1)]
    assert agent_loop.counters.flows_closed == 1


def test_exception_in_on_close_is_counted_and_costs_nothing(caplog: pytest.LogCaptureFixture) -> None:
    cls, datapath = failing("on_close", ValueError("bye")), fake_datapath()
    agent_loop = loop_with(datapath, cls)
    datapath.feed(FakeCreated(FakeInfo(1)), FakeClosed(1, FakeStats(1)))
    agent_loop.turn(0)
    assert (agent_loop.counters.algorithm_errors, agent_loop.counters.flows_failed) == (1, 0)
    assert "fallback" not in caplog.text


def test_traceback_is_logged_once_a_line_however_many_flows_raise(caplog: pytest.LogCaptureFixture) -> None:
    cls = recorder()
    cls.on_report = lambda self, report: 1 / 0
    datapath = fake_datapath()
    agent_loop = loop_with(datapath, cls)
    datapath.feed(*(FakeCreated(FakeInfo(i)) for i in range(5)), *(FakeReport(i) for i in range(5)))
    agent_loop.turn(0)
    assert [record.exc_info is not None for record in caplog.records] == [True, False, False, False, False]
    assert "5 times" in caplog.records[-1].message


def test_flow_that_closes_under_its_algorithm_is_no_failure(caplog: pytest.LogCaptureFixture) -> None:
    class Setter(Algorithm):
        name = "setter"

        def on_report(self, report: Any) -> None:
            self.flow.set(cwnd_bytes=20_000)

    datapath = fake_datapath()
    agent_loop = loop_with(datapath, Setter)
    datapath.feed(FakeCreated(FakeInfo(1)))
    agent_loop.turn(0)
    datapath.feed(FakeReport(1), FakeClosed(1, FakeStats(1)))
    agent_loop.turn(0)
    assert agent_loop.counters.algorithm_errors == 0
    assert agent_loop.counters.flows_closed == 1
    assert caplog.records == []


def test_flow_that_closes_before_it_is_started_is_no_failure() -> None:
    datapath = fake_datapath()
    agent_loop = loop_with(datapath, recorder())
    datapath.feed(FakeCreated(FakeInfo(1)), FakeClosed(1, FakeStats(1)))
    datapath.there.clear()
    agent_loop.turn(0)
    assert agent_loop.counters.algorithm_errors == 0
    assert agent_loop.flow_ids() == []


def test_parameter_of_a_flow_that_is_not_there_is_refused() -> None:
    agent_loop = loop_with(fake_datapath(), recorder())
    with pytest.raises(FlowGone):
        agent_loop.changes.set_params({"beta": 0.8}, Which(7))
    with pytest.raises(ParamError):
        agent_loop.changes.set_params({"gamma": 0.8}, Which())


def test_program_is_replaced_under_the_flows_that_run_it() -> None:
    cls, datapath = recorder(), fake_datapath(FakeInfo(1), FakeInfo(2), FakeInfo(3))
    agent_loop = loop_with(datapath, cls)
    agent_loop.adopt()
    del datapath.there[3]  # closed, its event on the way
    datapath.written.clear()
    assert agent_loop.changes.replace_program("rec", "default", FakeProgram(uid=2)) == 2
    assert datapath.written == [Written(i, None, None, 2, None) for i in (1, 2, 3)]
    datapath.feed(
        FakeReport(1, 1, acked=1), FakeReport(1, stamped(2, 1), acked=2), FakeClosed(3, FakeStats(3))
    )
    agent_loop.turn(0)
    assert [call for call in cls.calls if call[0] == "report"] == [("report", 1, 2)]
    assert sorted(datapath.installed) == [2]


def test_replacing_a_program_of_none_is_refused() -> None:
    agent_loop = loop_with(fake_datapath(), recorder("cubic"))
    with pytest.raises(UsageError) as caught:
        agent_loop.changes.replace_program("cubik", "default", FakeProgram())
    assert "`cubic`" in caught.value.fix


def test_new_program_is_there_for_set_program() -> None:
    datapath = fake_datapath(FakeInfo(1))
    agent_loop = loop_with(datapath, recorder())
    agent_loop.adopt()
    assert agent_loop.changes.replace_program("rec", "extra", FakeProgram("extra")) == 0
    agent_loop.flows[1].flow.set_program("extra")
    assert datapath.written[-1] == Written(1, None, None, 2, None)


def test_run_adopts_serves_and_closes_the_datapath() -> None:
    cls, datapath, clock = recorder(), fake_datapath(FakeInfo(1)), Clock()
    agent_loop = loop_with(datapath, cls, clock=clock)

    def tick() -> None:
        clock.now_s += 1

    agent_loop.run(duration_s=3, each_turn=tick)
    assert cls.calls == [("create", 1)]
    assert datapath.polls == 3
    assert datapath.closed
