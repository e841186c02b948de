from __future__ import annotations

from ccp_algs import Algorithm
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
