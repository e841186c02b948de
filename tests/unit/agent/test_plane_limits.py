"""What the plane tells of rate limits."""

from __future__ import annotations

from typing import ClassVar

from agent.algorithms import Running
from agent.events import Event
from agent.plane import Plane
from ccp_algs import Algorithm
from ccp_algs.api import LIMIT_STATES, RateLimit
from tests.unit.agent.fakes import FakeCreated, FakeInfo, FakeLimitChange, FakeProgram, fake_datapath


class Limited(Algorithm):
    """Records what it is told of limits."""

    name = "limited"
    program = "x"
    told: ClassVar[list[RateLimit]] = []

    def on_rate_limit(self, limit: RateLimit) -> None:
        self.told.append(limit)
        if limit.state == "gone":
            raise ValueError("never mind")


LIMITED = Running(Limited, "limited", {"default": FakeProgram()}, "default", "ccp.limited")


def test_limits_are_told_to_the_algorithm_and_to_listeners() -> None:
    datapath, events = fake_datapath(), []
    plane = Plane(datapath, [LIMITED])
    plane.events.listen(events.append)
    capped, gone = LIMIT_STATES.index("capped"), LIMIT_STATES.index("gone")
    datapath.feed(FakeCreated(FakeInfo(1)), FakeLimitChange(1, capped), FakeLimitChange(2, capped))
    datapath.feed(FakeLimitChange(1, gone), FakeLimitChange(1, capped))
    for _ in range(2):
        plane.turn(0)
    assert Limited.told == [
        RateLimit("capped", 500_000, 250_000, 1_000, 1),
        RateLimit("gone", 500_000, 250_000, 1_000, 1),
    ]
    told: list[Event] = [event for event in events if event.kind == "flow:rate_limit"]
    assert [event.detail["state"] for event in told] == ["capped", "gone"]
    assert (told[0].algorithm, told[0].detail["client"]) == ("limited", "10.0.0.2")
    assert told[0].flow is not None
    assert plane.counters.flows_failed == 1, "what it raises costs the flow its algorithm"
