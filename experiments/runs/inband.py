"""In-band telemetry of a run: into the result and, where there is an agent, over the bus to it.

Without an agent the emulator writes the sinks' summaries into a file of the result's. With one it writes into
a pipe; a process of its own (`telemetry.inband.publisher`) copies them from there to the file and publishes
them on the run's bus.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ccplane.agent.priority import raise_process
from experiments.errors import RunError
from experiments.netlab import process
from experiments.netlab.held import held
from experiments.netlab.host import Host
from experiments.runs.bus import failed
from experiments.runs.leavings import SUMMARIES
from telemetry.inband.node import InterfaceNode, NodeSpec

if TYPE_CHECKING:
    from experiments.scenario import Scenario

SENDER: Final = "sink"
"""Name of the publisher on the bus."""

STOP_TIMEOUT_S: Final = 10.0
_PIPE_BYTES: Final = 1 << 20
"""What waits while the publisher is kept from running: seconds of summaries of a hundred flows."""
_ROOT: Final = Path(__file__).parents[2]


@dataclass(frozen=True)
class Outlet:
    """Where in-band telemetry of a run goes.

    Attributes:
        summaries_fd: Where the emulator writes summaries; None if there is no telemetry.
        publisher: What brings them to the bus; None where nobody listens.
    """

    summaries_fd: int | None = None
    publisher: Publisher | None = None


@contextlib.contextmanager
def outlet(
    scenario: Scenario, directory: Path, facts: dict[str, Any], broker: str | None
) -> Iterator[Outlet]:
    """Give what takes the telemetry of a run.

    Args:
        scenario: What is run.
        directory: Of the result; it gets the file `SUMMARIES`.
        facts: Gets `telemetry`, what the publisher counted.
        broker: URL of the bus on which an agent listens; None if none does.

    Raises:
        RunError: `run.publisher`.
    """
    file = directory / SUMMARIES
    with contextlib.ExitStack() as around:
        if scenario.network.telemetry is None:
            yield Outlet()
        elif broker is None:
            yield Outlet(around.enter_context(open(file, "ab")).fileno())
        else:
            reading, writing = os.pipe()
            written = around.enter_context(os.fdopen(writing, "wb", buffering=0))
            with os.fdopen(reading, "rb"):
                fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
                publisher = Publisher(reading, broker, file)
            raise_process(publisher.pid)  # as emulator and agent: telemetry waits for no program
            try:
                yield Outlet(writing, publisher)
            finally:
                written.close()  # the publisher ends when nobody can write any more
                facts["telemetry"] = publisher.stop()


@contextlib.contextmanager
def readers_on(hosts: Iterable[Host], pin_dir: str) -> Iterator[None]:
    """Take echoes of the path out of ACKs that come to hosts, for their sockets.

    Args:
        hosts: The hosts.
        pin_dir: Directory of the datapath of the agent that has their flows.

    Raises:
        NodeError: As `InterfaceNode`.
    """
    with contextlib.ExitStack() as stack, open(os.devnull, "wb") as nowhere:
        for host in hosts:
            spec = NodeSpec(roles=("reader",), pin_dir=pin_dir)
            reader = InterfaceNode(host.interfaces[0].name, spec, nowhere.fileno())
            stack.enter_context(held(host, reader))
        yield


class Publisher:
    """The process that publishes summaries.

    Attributes:
        broker: URL of the broker.
        pid: Its process.
    """

    def __init__(self, summaries_fd: int, broker: str, copy: Path) -> None:
        """Start it, and wait until it is connected.

        Args:
            summaries_fd: What it reads.
            broker: URL of the broker.
            copy: File that gets the same lines.

        Raises:
            RunError: `run.publisher`.
        """
        self.broker = broker
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the process lives
        arguments = ["--fd", str(summaries_fd), "--broker", broker, "--sender", SENDER, "--copy", str(copy)]
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "telemetry.inband.publisher", *arguments],
            env=os.environ | {"PYTHONPATH": str(_ROOT)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._log,
            bufsize=0,
            pass_fds=(summaries_fd,),
            start_new_session=True,  # Ctrl-C is for us; its input ends
        )
        self.pid = self._process.pid
        assert self._process.stdout is not None
        if not self._process.stdout.readline():
            self._process.wait()
            error = self._failed()
            self._close()
            raise error

    def must_run(self) -> None:
        """Find out whether it lives.

        Raises:
            RunError: `run.publisher`.
        """
        if self._process.poll() is not None:
            raise self._failed()

    def stop(self) -> dict[str, Any]:
        """Wait until it has published everything; its input has ended. Returns what it counted."""
        try:
            out, _ = self._process.communicate(timeout=STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            out, _ = self._process.communicate()
        finally:
            self._close()
        counted: dict[str, Any] = json.loads(out) if out else {}
        return counted

    def _close(self) -> None:
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._log.close()

    def _failed(self) -> RunError:
        self._log.seek(0)
        return failed(
            f"it ended with {process.status(self._process.returncode)}",
            self._log.read(),
            "run.publisher",
            "the process that publishes in-band telemetry failed",
            "process telemetry.inband.publisher",
            "run it again; algorithms would have gone without telemetry",
        )
