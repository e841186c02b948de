"""Flows older than the agent, and events that the datapath dropped."""

from __future__ import annotations

import pytest

from ccplane.agent.events import Event
from tests.unit.agent.fakes import FakeCreated, FakeInfo, FakeReport, fake_datapath
from tests.unit.agent.test_agent_loop import loop_with, recorder
from tests.waiting import Clock


def test_flows_that_are_there_are_adopted_and_their_late_create_events_ignored() -> None:
    cls, datapath = recorder(), fake_datapath(FakeInfo(1), FakeInfo(2))
    agent_loop = loop_with(datapath, cls)
    assert agent_loop.adopt() == 2
    datapath.feed(FakeCreated(FakeInfo(2)), FakeReport(2, acked=5))
    agent_loop.turn(0)
    assert cls.calls == [("create", 1), ("create", 2), ("report", 2, 5)]
    assert (agent_loop.counters.flows_created, agent_loop.counters.flows_adopted) == (2, 2)
    assert agent_loop.adopt() == 0


def test_lost_events_are_made_up_for_from_the_list_of_flows() -> None:
    cls, datapath, clock = recorder(), fake_datapath(), Clock()
    agent_loop = loop_with(datapath, cls, clock=clock)
    agent_loop.adopt()
    datapath.feed(FakeCreated(FakeInfo(1)), FakeCreated(FakeInfo(2)))
    agent_loop.turn(0)
    datapath.there = {2: FakeInfo(2), 3: FakeInfo(3)}  # 1 went and 3 came, and nobody said so
    datapath.missed = {"creates_missed": 1, "closes_missed": 1}
    clock.now_s += 1
    agent_loop.turn(0)
    assert sorted(agent_loop.flow_ids()) == [2, 3]
    assert ("close", 1, 0) in cls.calls
    assert ("create", 3) in cls.calls
    assert agent_loop.counters.resyncs == 1


def test_create_event_after_a_long_backlog_of_a_flow_whose_close_was_lost_makes_no_ghost() -> None:
    cls, datapath, clock = recorder(), fake_datapath(), Clock()
    agent_loop = loop_with(datapath, cls, clock=clock)
    agent_loop.adopt()
    gone, new = FakeInfo(7 << 32 | 1), FakeInfo(8 << 32 | 1)
    datapath.missed |= {"closes_missed": 1, "flows_created": 7}
    for _ in range(5):
        clock.now_s += 1
        agent_loop.turn(0)
    datapath.feed(FakeCreated(gone), FakeCreated(new))
    del datapath.there[gone.flow_id]
    agent_loop.turn(0)
    assert agent_loop.flow_ids() == [new.flow_id]
    assert agent_loop.counters.resyncs == 1


def test_loss_while_flows_are_compared_is_not_forgotten() -> None:
    datapath, clock = fake_datapath(FakeInfo(1)), Clock()
    agent_loop = loop_with(datapath, recorder(), clock=clock)
    agent_loop.adopt()
    listed = datapath.flows

    def lose_meanwhile() -> list[FakeInfo]:
        there = listed()
        if datapath.there:
            datapath.there.clear()
            datapath.missed["closes_missed"] += 1
        return there

    datapath.flows = lose_meanwhile  # type: ignore[method-assign]
    datapath.missed["closes_missed"] = 1
    for _ in range(2):
        clock.now_s += 1
        agent_loop.turn(0)
    assert agent_loop.flow_ids() == []


def test_losses_from_before_the_agent_cause_no_resync() -> None:
    datapath, clock = fake_datapath(), Clock()
    datapath.missed["creates_missed"] = 7
    agent_loop = loop_with(datapath, recorder(), clock=clock)
    agent_loop.adopt()
    clock.now_s += 1
    agent_loop.turn(0)
    assert agent_loop.counters.resyncs == 0


def test_slots_that_were_taken_from_silent_flows_are_reported(caplog: pytest.LogCaptureFixture) -> None:
    datapath, clock = fake_datapath(), Clock()
    datapath.missed["flows_reaped"] = 5
    agent_loop = loop_with(datapath, recorder(), clock=clock)
    reported: list[Event] = []
    agent_loop.events.listen(reported.append)
    agent_loop.adopt()  # what was before the agent is not its news
    for reaped in (5, 8, 8):
        datapath.missed["flows_reaped"] = reaped
        clock.now_s += 1
        agent_loop.turn(0)
    assert [(event.kind, event.detail) for event in reported] == [("flows:reaped", {"flows": 3})]
    assert "3 flows lost their slots" in caplog.text


def test_flows_that_the_datapath_took_are_reported_by_cause(caplog: pytest.LogCaptureFixture) -> None:
    datapath, clock = fake_datapath(), Clock()
    datapath.missed |= {"fallback_entries_silent": 5, "fallback_entries_unanswered": 1}
    agent_loop = loop_with(datapath, recorder(), clock=clock)
    reported: list[Event] = []
    agent_loop.events.listen(reported.append)
    agent_loop.adopt()
    for _ in range(2):
        datapath.missed |= {"fallback_entries_silent": 7, "fallback_entries_unanswered": 4}
        clock.now_s += 1
        agent_loop.turn(0)
    assert [(event.kind, event.detail) for event in reported] == [
        ("flows:fallback", {"cause": "silent", "flows": 2}),
        ("flows:fallback", {"cause": "unanswered", "flows": 3}),
    ]
    assert "not answered in time (--report-timeout): 3 flows" in caplog.text
