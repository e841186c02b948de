"""The programs under test: an agent with its broker, and a receiver."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ccplane.agent.client import Client
from ccplane.agent.control import control_socket
from ccplane.datapath import ebpf
from experiments.agent_process import PIN_DIR, AgentProcess, ccp
from experiments.bench.bpf_objects import invert
from experiments.bench.flows import load_environment
from experiments.netlab import process, sockets
from experiments.soak import algorithms

MAX_FLOWS: Final = (4096, 8192)
BUILD_HASH, LAYOUT_HASH = 8, 16
"""Offsets in `struct ccp_globals`."""
PATIENCE_S: Final = 60.0
START_PATIENCE_S: Final = 240.0
"""Start timeout of an agent; it takes up to a minute on an emulated processor [s]."""


def wait_for(what: str, look: Callable[[], object], patience_s: float = PATIENCE_S) -> None:
    """Wait until a function returns a true value.

    Raises:
        TimeoutError: If it does not within the time.
    """
    end_s = time.monotonic() + patience_s
    while not look():
        if time.monotonic() > end_s:
            raise TimeoutError(f"{what}: not within {patience_s:g} s")
        time.sleep(0.1)


def looks_like_another_build(pin_dir: str, *, layout: bool) -> None:
    """Make a loaded datapath look like another build, with other programs or with another layout.

    The loaded datapath and its replacement are real; only its identification is modified.
    """
    invert(Path(pin_dir, "globals"), (BUILD_HASH, LAYOUT_HASH) if layout else (BUILD_HASH,))


@dataclass(slots=True)
class Plant:
    """The programs under test.

    Attributes:
        folder: Folder for files.
        disk: A separate small file system, for the audit log.
        version: Version of the algorithm.
        max_flows: Maximum number of flows of the next agent.
        port: Port of the broker.
    """

    folder: Path
    disk: Path
    version: int = 0
    max_flows: int = MAX_FLOWS[0]
    port: int = field(default_factory=sockets.free_port)
    _agent: AgentProcess | None = None
    _receiver: subprocess.Popen[bytes] | None = None

    @property
    def agent(self) -> AgentProcess:
        """The running agent."""
        assert self._agent is not None
        return self._agent

    @property
    def url(self) -> str:
        """URL of the broker."""
        return f"mqtt://127.0.0.1:{self.port}"

    def pids(self) -> dict[str, int]:
        """Return the running processes under test by name."""
        found = {"agent": self.agent.pid} if self._agent is not None and self._agent.running else {}
        if (broker := self.broker_pid) is not None:
            found["broker"] = broker
        if self._receiver is not None and self._receiver.poll() is None:
            found["receiver"] = self._receiver.pid
        return found

    @property
    def broker_pid(self) -> int | None:
        """Process id of the broker; None if it is not running."""
        if self._agent is None or not self._agent.running:
            return None
        for keeper in process.children_of(self._agent.pid):
            for pid in process.children_of(keeper):
                with contextlib.suppress(OSError):
                    if b"mosquitto" in Path(f"/proc/{pid}/cmdline").read_bytes():
                        return pid
        return None

    # The agent

    def start_agent(self, *, take_over: bool = False) -> None:
        """Start an agent; it may take over from a running one.

        Raises:
            LoadError: `load.agent`; the previous one keeps running.
        """
        file = self.folder / f"{algorithms.NAME}.py"
        file.write_text(algorithms.good(self.version))
        arguments = [
            str(file),
            "reno",
            "--param",
            f"{algorithms.NAME}.report_ms=500",
            "--sender",
            "soak-agent",
        ]
        arguments += ["--broker", f"embedded:{self.port}", "--audit", str(self.disk / "audit.jsonl")]
        arguments += ["--max-flows", str(self.max_flows), *(["--take-over"] if take_over else [])]
        following = AgentProcess(arguments, patience_s=START_PATIENCE_S)
        old, self._agent = self._agent, following
        if old is not None and take_over:
            wait_for("the old agent's exit", lambda: not old.running)
            old.stop()

    def kill_agent(self) -> None:
        """Kill the agent (SIGKILL)."""
        self.agent.kill()

    def stop_agent(self) -> str:
        """Stop the agent as Ctrl-C does; return its final output."""
        return self.agent.stop()

    @contextlib.contextmanager
    def client(self) -> Iterator[Client]:
        """Connect to the agent."""
        with Client(control_socket(PIN_DIR), timeout_s=PATIENCE_S) as client:
            yield client

    # Broker and receiver

    def start_receiver(self, namespace: str) -> None:
        """Start a receiver in a network namespace."""
        command = ccp(
            "telemetry",
            "receive",
            "--netns",
            namespace,
            "--broker",
            self.url,
            "--quiet",
            "--sender",
            "soak-receiver",
        )
        with (self.folder / "receiver.log").open("ab") as log:
            self._receiver = subprocess.Popen(
                command, stdout=log, stderr=log, env=load_environment(), start_new_session=True
            )

    def kill_receiver(self) -> None:
        """Kill the receiver (SIGKILL)."""
        assert self._receiver is not None
        self._receiver.kill()
        self._receiver.wait()

    def kill_broker(self) -> None:
        """Kill the broker (SIGKILL); its agent restarts it."""
        if (pid := self.broker_pid) is not None:
            os.kill(pid, signal.SIGKILL)

    def log(self, name: str) -> str:
        """Return the end of a program's log."""
        if name == "agent":
            return self.agent.log()[-2000:]
        file = self.folder / f"{name}.log"
        return file.read_text(errors="replace")[-2000:] if file.exists() else ""

    def close(self) -> None:
        """Stop everything, and remove the datapath."""
        if self._receiver is not None and self._receiver.poll() is None:
            self._receiver.terminate()
            try:
                self._receiver.wait(10)
            except subprocess.TimeoutExpired:
                self.kill_receiver()
        if self._agent is not None:
            with contextlib.suppress(OSError):
                os.kill(self._agent.pid, signal.SIGCONT)
            self._agent.stop()
        ebpf.unload(PIN_DIR)
