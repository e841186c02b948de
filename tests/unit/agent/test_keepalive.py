from __future__ import annotations

import pytest

from ccp_algs import Algorithm
from ccplane.agent.keepalive import CALLBACKS_PER_KEEPALIVE, UNANSWERED_S
from ccplane.base.flows import FlowInfo
from tests.unit.agent.fakes import FakeInfo, fake_datapath
from tests.unit.agent.test_agent_loop import loop_with


class Quiet(Algorithm):
    name = "quiet"


def test_taking_many_flows_over_refreshes_the_heartbeat() -> None:
    datapath = fake_datapath(*(FakeInfo(i) for i in range(1, 1001)))
    agent_loop = loop_with(datapath, Quiet)
    agent_loop.adopt()
    assert sum(datapath.written_between_heartbeats) == 1000
    assert max(datapath.written_between_heartbeats) <= 100


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_long_work_does_not_hide_that_reports_wait(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    datapath = fake_datapath(FakeInfo(1))
    agent_loop = loop_with(datapath, Quiet, clock=clock)
    fed: list[float] = []
    agent_loop.keepalive.also.append(lambda: fed.append(clock.now_s))
    agent_loop.adopt()
    agent_loop.turn(0)
    began_s = clock.now_s

    def work(seconds: int) -> None:
        for _ in range(seconds):
            clock.now_s += 1.0
            agent_loop.keepalive.refresh()

    work(30)
    until_s = began_s + UNANSWERED_S
    assert fed == [began_s + second for second in range(1, 30) if began_s + second < until_s]
    heartbeats = datapath.heartbeats
    work(10)
    assert datapath.heartbeats == heartbeats
    assert caplog.text.count("no reports were handled") == 1
    fed.clear()
    agent_loop.turn(0)  # reports are handled again
    heartbeats = datapath.heartbeats
    work(1)
    assert datapath.heartbeats == heartbeats + 1
    assert len(fed) == 1


def test_taking_flows_over_slowly_is_progress() -> None:
    clock = Clock()
    datapath = fake_datapath(*(FakeInfo(i) for i in range(1, 1001)))

    class Slow(Algorithm):
        name = "slow"

        def on_create(self, info: FlowInfo) -> None:
            clock.now_s += 0.1

    agent_loop = loop_with(datapath, Slow, clock=clock)
    agent_loop.adopt()
    assert datapath.heartbeats >= 1000 // CALLBACKS_PER_KEEPALIVE


def test_reports_are_handled_between_calls_that_call_again() -> None:
    datapath = fake_datapath(FakeInfo(1))
    agent_loop = loop_with(datapath, Quiet)
    called: list[int] = []

    def again() -> None:
        called.append(datapath.polls)
        if len(called) < 10:
            agent_loop.call(again)

    agent_loop.call(again)
    for _ in range(10):
        agent_loop.turn(0)
    assert called == list(range(1, 11))


def test_the_report_timeout_is_also_the_limit_of_keepalives() -> None:
    clock, datapath = Clock(), fake_datapath(FakeInfo(1))
    agent_loop = loop_with(datapath, Quiet, clock=clock)
    agent_loop.keepalive.unanswered_s = 60.0
    agent_loop.turn(0)
    clock.now_s += 59.0
    before = datapath.heartbeats
    agent_loop.keepalive.refresh()
    clock.now_s += 2.0
    agent_loop.keepalive.refresh()
    assert datapath.heartbeats == before + 1
