"""The agent with what the shipped unit lets it do."""

from __future__ import annotations

import os
from pathlib import Path

from ccplane.datapath import ebpf
from ccplane.datapath.ebpf import DEFAULT_PIN_DIR
from experiments.agent_process import PIN_DIR, AgentProcess
from experiments.netlab import Path as NetworkPath
from experiments.netlab import iperf3
from experiments.netlab.sockets import available_congestion_controls
from tests.kernel import shipped
from tests.kernel.echoes import chained


def test_the_shipped_unit_lets_an_agent_serve_a_flow(wire: NetworkPath) -> None:
    enter = [*shipped.mounts(), *shipped.rights()]
    agent = AgentProcess(["cubic", *shipped.arguments()], pin_dir=DEFAULT_PIN_DIR, enter=enter)
    try:
        iperf3(wire.sender, wire.receiver, congestion="ccp", duration_s=1)
    finally:
        last = agent.stop()
    assert "2 flows" in last
    assert agent.log() == ""
    assert "ccp" not in available_congestion_controls()


def test_an_agent_without_root_shares_echoes_with_a_node_whichever_starts_first() -> None:
    place = Path(PIN_DIR)
    pin = place / "paths" / "echoes_2"
    ebpf.unload(PIN_DIR)
    place.mkdir(mode=0o700)
    os.chown(place, shipped.UID, shipped.UID)
    with chained() as chain:
        with chain.nodes(pin_dir=PIN_DIR):
            made = pin.stat()
            assert made.st_uid == shipped.UID
            agent = AgentProcess(["reno", "--control", "none"], enter=[*shipped.run_dir(), *shipped.rights()])
            assert pin.stat().st_ino == made.st_ino
            agent.stop()
            assert agent.log() == ""
            (left,) = ebpf.unload(PIN_DIR).left
            assert left.startswith("map path_echoes")
        assert not pin.exists()
        agent = AgentProcess(["reno", "--control", "none"], enter=[*shipped.run_dir(), *shipped.rights()])
        made = pin.stat()
        with chain.nodes(pin_dir=PIN_DIR):
            assert pin.stat().st_ino == made.st_ino
        agent.stop()
    ebpf.unload(PIN_DIR)
    assert not place.exists()
