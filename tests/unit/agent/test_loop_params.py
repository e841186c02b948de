"""Algorithms are notified of parameter changes immediately."""

from __future__ import annotations

from typing import Any, ClassVar

from ccp_algs import Algorithm, Param
from ccplane.agent.agent_loop import AgentLoop
from ccplane.agent.algorithms import Running
from ccplane.agent.changes import Which
from tests.unit.agent.fakes import FakeInfo, FakeProgram, fake_datapath


def reported() -> type[Algorithm]:
    """A fresh algorithm that records parameter changes; the flow `refuses` raises."""

    class Reported(Algorithm):
        name = "told"
        beta = Param(0.5, min=0.1, max=0.9)
        calls: ClassVar[list[tuple[int, frozenset[str]]]] = []
        refuses: ClassVar[int] = 0

        def on_params(self, names: frozenset[str]) -> None:
            flow_id = self.flow.info.flow_id
            self.calls.append((flow_id, names))
            if flow_id == self.refuses:
                raise RuntimeError("no")

    return Reported


def loop_of(cls: Any) -> AgentLoop:
    datapath = fake_datapath(FakeInfo(1), FakeInfo(2))
    agent_loop = AgentLoop(
        datapath, [Running(cls, cls.name, {"default": FakeProgram()}, "default", "ccp.told")]
    )
    agent_loop.adopt()
    return agent_loop


def test_idle_flows_are_reported_once_of_what_was_set_since_they_began() -> None:
    cls: Any = reported()
    cls.beta = 0.4  # before there is a flow: on_create sees it
    agent_loop = loop_of(cls)
    agent_loop.turn(0)
    assert cls.calls == []
    agent_loop.changes.set_params({"beta": "0.8"}, Which(2))
    for _ in range(2):
        agent_loop.turn(0)
    assert cls.calls == [(2, {"beta"})]
    cls.beta = 0.7  # as in a notebook, past the plane
    agent_loop.turn(0)
    assert cls.calls[1:] == [(1, {"beta"}), (2, {"beta"})]


class NotWalked(dict[int, Any]):
    def values(self) -> Any:
        raise AssertionError("one flow is meant, and all are looked at")


def test_to_set_a_parameter_of_one_flow_touches_that_flow_only() -> None:
    cls: Any = reported()
    agent_loop = loop_of(cls)
    agent_loop.flows = NotWalked(agent_loop.flows)
    assert agent_loop.changes.set_params({"beta": "0.8"}, Which(2)) == 1
    agent_loop.turn(0)
    assert cls.calls == [(2, {"beta"})]


def test_algorithm_that_raises_loses_that_flow_only() -> None:
    cls: Any = reported()
    agent_loop = loop_of(cls)
    cls.refuses = 1
    agent_loop.changes.set_params({"beta": 0.8}, Which())
    agent_loop.turn(0)
    assert len(cls.calls) == 2
    assert agent_loop.flow_ids() == [2]
