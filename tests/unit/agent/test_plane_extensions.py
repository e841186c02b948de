"""Events from extensions of the datapath are delivered to algorithms."""

from __future__ import annotations

from typing import ClassVar

from ccp_algs import Algorithm
from ccplane.agent.algorithms import Running
from ccplane.agent.plane import Plane
from tests.unit.agent.fakes import FakeCreated, FakeInfo, FakeProgram, FakeTold, fake_datapath


class Extended(Algorithm):
    name = "extended"
    program = "x"
    told: ClassVar[list[tuple[str, bytes]]] = []

    def on_extension(self, extension: str, octets: bytes) -> None:
        self.told.append((extension, octets))
        if octets == b"bad":
            raise ValueError("never mind")


EXTENDED = Running(Extended, "extended", {"default": FakeProgram()}, "default", "ccp.extended")


def test_what_extensions_tell_reaches_the_algorithm_in_order() -> None:
    datapath = fake_datapath()
    plane = Plane(datapath, [EXTENDED])
    datapath.feed(FakeCreated(FakeInfo(1)), FakeTold(1, b"good"), FakeTold(2, b"nobody's"))
    datapath.feed(FakeTold(1, b"bad"), FakeTold(1, b"too late"))
    for _ in range(2):
        plane.turn(0)
    assert Extended.told == [("counter", b"good"), ("counter", b"bad")]
    assert plane.counters.flows_failed == 1, "what it raises costs the flow its algorithm"
