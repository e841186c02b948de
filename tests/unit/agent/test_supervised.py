from __future__ import annotations

from pathlib import Path

from ccp_algs import Algorithm
from ccplane.agent.keepalive import CALLBACKS_PER_KEEPALIVE
from ccplane.agent.supervised import supervised
from ccplane.base.notify import Manager
from tests.service_manager import ServiceManager
from tests.unit.agent.fakes import FakeInfo, fake_datapath
from tests.unit.agent.test_agent_loop import loop_with


class Quiet(Algorithm):
    name = "quiet"


def test_the_turns_of_the_loop_are_what_the_manager_receives_of(tmp_path: Path) -> None:
    agent_loop = loop_with(fake_datapath(FakeInfo(1), FakeInfo(2)), Quiet)
    agent_loop.adopt()
    with ServiceManager(tmp_path / "notify", watchdog_s=0.04) as systemd:
        with supervised(agent_loop, Manager.from_environment(systemd.environment.copy()), bool):
            assert systemd.listen(0.05) == []  # not before the loop runs
            agent_loop.turn(0)
            assert systemd.listen() == [
                {"READY": "1"},
                {"WATCHDOG": "1"},
                {"STATUS": "quiet: 2 flows"},
            ]
            assert systemd.listen(0.1) == []  # a loop that hangs, though the process lives
            for _ in agent_loop.keepalive.between(range(CALLBACKS_PER_KEEPALIVE)):  # a long turn
                pass
            assert systemd.listen() == [{"WATCHDOG": "1"}]
        assert systemd.listen() == [{"STOPPING": "1"}]
        agent_loop.turn(0)
        assert systemd.listen() == []


def test_without_a_manager_turns_cost_nothing() -> None:
    agent_loop = loop_with(fake_datapath(), Quiet)
    with supervised(agent_loop, None, bool):
        assert agent_loop.each_turn == []
        assert agent_loop.keepalive.also == []
