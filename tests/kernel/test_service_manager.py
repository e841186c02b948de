"""What a service manager hears of an agent that serves, hangs, and stops."""

from __future__ import annotations

import os
import re
import signal
import time
from pathlib import Path

from ccplane.base.notify import STATUS_S
from ccplane.datapath import ebpf
from experiments.agent_process import PIN_DIR, AgentProcess
from experiments.netlab import Path as NetworkPath
from tests.kernel.driving import Start, wait_until
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
