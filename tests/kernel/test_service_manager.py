"""What a service manager hears of an agent that serves, hangs, and stops."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from ccplane.base.notify import STATUS_S
from ccplane.datapath import ebpf
from experiments.agent_process import PIN_DIR, AgentProcess, ccp, running_agent
from experiments.netlab import Path as NetworkPath
from tests.kernel import shipped
from tests.kernel.driving import Start, wait_until
from tests.kernel.upgrading import Server
from tests.service_manager import ServiceManager

WATCHDOG_S = 2.0

HANGS = """
import os
from ccp_algs.reno import Reno

class Hanging(Reno):
    name = "hanging"

    def on_create(self, info):
        super().on_create(info)
        while os.path.exists("FILE"):
            pass
"""


def agent_of(systemd: ServiceManager, algorithm: str) -> AgentProcess:
    settings = [f"{name}={value}" for name, value in systemd.environment.items()]
    return AgentProcess([algorithm, "--no-realtime"], enter=["env", *settings])


def test_an_agent_reports_its_manager_how_it_is(
    wire: NetworkPath, tmp_path: Path, start_transfer: Start
) -> None:
    with ServiceManager(tmp_path / "notify", watchdog_s=WATCHDOG_S) as systemd:
        agent = agent_of(systemd, "reno")
        try:
            assert systemd.wait_for("READY", 10) == "1"
            start_transfer(wire.sender, wire.receiver, congestion="ccp", duration_s=8)
            systemd.listen(2 + STATUS_S)  # its queue is short
            assert len(systemd.times_of("WATCHDOG")) > STATUS_S / WATCHDOG_S
            lines = [message["STATUS"] for _, message in systemd.received if "STATUS" in message]
            assert [line.partition(",")[0] for line in lines] == ["reno: 0 flows", "reno: 2 flows"]
            os.kill(agent.pid, signal.SIGSTOP)
            systemd.listen(0.1)
            assert systemd.listen(WATCHDOG_S) == []
            os.kill(agent.pid, signal.SIGCONT)
            assert {"WATCHDOG": "1"} in systemd.listen(1)
        finally:
            agent.stop()
            ebpf.unload(PIN_DIR)
        assert systemd.listen()[-1] == {"STOPPING": "1"}


def test_a_loop_that_hangs_feeds_no_watchdog_and_its_end_says_where(
    wire: NetworkPath, tmp_path: Path, start_transfer: Start
) -> None:
    file = tmp_path / "hanging.py"
    hang = tmp_path / "hang"
    file.write_text(HANGS.replace("FILE", str(hang)))
    with ServiceManager(tmp_path / "notify", watchdog_s=WATCHDOG_S) as systemd:
        agent = agent_of(systemd, f"{file}:Hanging")
        try:
            systemd.wait_for("READY", 10)
            hang.touch()
            start_transfer(wire.sender, wire.receiver, congestion="ccp", duration_s=1)
            time.sleep(1)
            systemd.listen()
            assert [message for message in systemd.listen(WATCHDOG_S) if "WATCHDOG" in message] == []
            os.kill(agent.pid, signal.SIGABRT)  # as systemd does then
            wait_until(lambda: not agent.running)
            assert re.search(rf'File "{file}", line \d+ in on_create', agent.log())
        finally:
            agent.kill()
            ebpf.unload(PIN_DIR)


@dataclass
class Unit:
    """The agent as in the shipped unit: its user, capabilities and run directory, and a service manager.

    Attributes:
        systemd: The service manager.
        agent: The process that it started.
        main_pid: The main process now.
    """

    systemd: ServiceManager
    agent: AgentProcess
    main_pid: int

    def ccp(self, command: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command as root, where the run directory is."""
        enter = ["nsenter", "--mount", f"--target={self.main_pid}"]
        words = [*enter, *ccp(command, "--pin-dir", PIN_DIR, *arguments)]
        return subprocess.run(words, capture_output=True, text=True, timeout=100)

    def steered_by(self) -> set[str]:
        """Return what steers the flows."""
        found = json.loads(self.ccp("flows", "--json").stdout)["flows"]
        return {flow["steered_by"] for flow in found}


@pytest.fixture
def unit() -> Iterator[Unit]:
    """An agent that runs as the unit does."""
    ebpf.unload(PIN_DIR)
    place = Path(PIN_DIR)
    place.mkdir(mode=0o700)
    os.chown(place, shipped.UID, shipped.UID)
    with ServiceManager(f"@ccplane-test-{os.getpid()}", watchdog_s=WATCHDOG_S) as systemd:
        settings = [f"{name}={value}" for name, value in systemd.environment.items()]
        enter = ["env", *settings, *shipped.run_dir(), *shipped.rights()]
        agent = AgentProcess(["reno", "--no-realtime"], enter=enter)
        made = Unit(systemd, agent, agent.pid)
        try:
            systemd.wait_for("READY", 10)
            yield made
        finally:
            if made.main_pid != agent.pid:  # it has the agent's output
                os.kill(made.main_pid, signal.SIGTERM)
                wait_until(lambda: gone(made.main_pid))
            agent.kill()
            ebpf.unload(PIN_DIR)


def gone(pid: int) -> bool:
    """Return whether a process ended."""
    return not Path(f"/proc/{pid}/exe").exists()


@pytest.fixture
def server(wire: NetworkPath) -> Iterator[Server]:
    """A server with three connections that the agent steers."""
    with closing(Server(wire.sender)) as made:
        for _ in range(3):
            made.accept(wire.receiver, made.chose)
        with made.talking():
            yield made


def fallback_entries() -> list[int]:
    return sorted(one.fallback_entries for one in ebpf.observe(PIN_DIR).all_stats())


def test_an_upgrade_makes_the_successor_the_main_process(unit: Unit, server: Server) -> None:
    wait_until(lambda: unit.steered_by() == {"reno/default"})
    entries = fallback_entries()
    rights = status_of(unit.main_pid)
    for algorithm in ("cubic", "reno"):
        before = unit.main_pid
        unit.systemd.received.clear()
        done = unit.ccp("upgrade", "--", algorithm, "--no-realtime", "--pin-dir", PIN_DIR)
        assert (done.returncode, done.stderr) == (0, ""), unit.agent.log()
        unit.main_pid = int(re.findall(r"process (\d+) has taken the flows over", done.stdout)[0])
        assert unit.systemd.wait_for("MAINPID", 10) == str(unit.main_pid)
        assert unit.main_pid != before
        assert "STOPPING" not in str(unit.systemd.received)
        wait_until(lambda before=before: gone(before))
        wait_until(lambda name=algorithm: unit.steered_by() == {f"{name}/default"})
        assert fallback_entries() == entries
        assert status_of(unit.main_pid) == rights
        unit.systemd.listen()
        fed = len(unit.systemd.times_of("WATCHDOG"))
        unit.systemd.listen(2 * WATCHDOG_S)
        assert len(unit.systemd.times_of("WATCHDOG")) >= fed + 2


def status_of(pid: int) -> list[str]:
    """Return a process's rights, and its parent, which is not another agent."""
    names = ("Uid", "Gid", "CapEff", "CapPrm", "CapInh", "CapAmb", "CapBnd", "NoNewPrivs")
    return [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith(names)]


@pytest.mark.parametrize("arguments", [["no_such_algorithm"], ["--no-such-option"]])
def test_the_main_process_keeps_its_flows_if_the_new_version_cannot_start(
    unit: Unit, server: Server, arguments: list[str]
) -> None:
    wait_until(lambda: unit.steered_by() == {"reno/default"})
    done = unit.ccp("upgrade", "--", *arguments, "--pin-dir", PIN_DIR)
    assert done.returncode == 1
    assert "upgrade.failed" in done.stderr
    assert arguments[0] in unit.agent.log()
    unit.systemd.listen(WATCHDOG_S)
    assert "MAINPID" not in str(unit.systemd.received)
    assert unit.agent.running
    assert unit.steered_by() == {"reno/default"}


def test_an_agent_without_a_service_manager_does_not_upgrade_itself() -> None:
    with running_agent("reno"):
        words = ccp("upgrade", "--pin-dir", PIN_DIR)
        done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "upgrade.refused" in done.stderr
