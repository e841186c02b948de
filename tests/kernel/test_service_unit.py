"""The agent with what the shipped unit lets it do."""

from __future__ import annotations

import pytest

from ccp_base.errors import UsageError
from datapath.ebpf import DEFAULT_PIN_DIR
from experiments.agent_process import AgentProcess
from experiments.netlab import Path, iperf3
from experiments.netlab.sockets import available_congestion_controls
from tests.kernel import shipped


@pytest.fixture(autouse=True)
def _reachable() -> None:
    try:
        shipped.reachable()
    except UsageError as error:
        pytest.skip(f"{error.message}: {error.why}")


def test_the_shipped_unit_lets_an_agent_serve_a_flow(wire: Path) -> None:
    enter = [*shipped.mounts(), *shipped.rights()]
    agent = AgentProcess(["cubic", *shipped.arguments()], pin_dir=DEFAULT_PIN_DIR, enter=enter)
    try:
        iperf3(wire.sender, wire.receiver, congestion="ccp", duration_s=1)
    finally:
        last = agent.stop()
    assert "2 flows" in last
    assert agent.log() == ""
    assert "ccp" not in available_congestion_controls()
