"""Events from extensions of the datapath are delivered to algorithms."""

from __future__ import annotations

from typing import ClassVar

from ccp_algs import Algorithm
from ccplane.agent.agent_loop import AgentLoop
from ccplane.agent.algorithms import Running
from tests.unit.agent.fakes import FakeCreated, FakeEvent, FakeInfo, FakeProgram, fake_datapath


class Extended(Algorithm):
    name = "extended"
    program = "x"
    reported: ClassVar[list[tuple[str, bytes]]] = []

    def on_extension(self, extension: str, message: bytes) -> None:
        self.reported.append((extension, message))
        if message == b"bad":
            raise ValueError("never mind")


EXTENDED = Running(Extended, "extended", {"default": FakeProgram()}, "default", "ccp.extended")


def test_what_extensions_report_reaches_the_algorithm_in_order() -> None:
    datapath = fake_datapath()
    agent_loop = AgentLoop(datapath, [EXTENDED])
    datapath.feed(FakeCreated(FakeInfo(1)), FakeEvent(1, b"good"), FakeEvent(2, b"nobody's"))
    datapath.feed(FakeEvent(1, b"bad"), FakeEvent(1, b"too late"))
    for _ in range(2):
        agent_loop.turn(0)
    assert Extended.reported == [("counter", b"good"), ("counter", b"bad")]
    assert agent_loop.counters.flows_failed == 1, "what it raises costs the flow its algorithm"
