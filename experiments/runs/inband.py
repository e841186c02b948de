"""In-band telemetry of a run: stored in the result and, if there is an agent, published to it on the bus.

Without an agent the emulator writes the sinks' summaries into a file of the result. With an agent the
emulator writes into a pipe; a separate process (`telemetry.inband.publisher`) copies the summaries to the
file and publishes them on the run's bus.
"""

from __future__ import annotations

import contextlib
import fcntl
import ipaddress
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
from experiments.netlab.contexts import held
from experiments.netlab.host import Host
from experiments.runs.artifacts import SUMMARIES
from experiments.runs.bus import failed
from telemetry.inband.node import InterfaceNode, NodeSpec

if TYPE_CHECKING:
    from experiments.scenario import Scenario

SENDER: Final = "sink"
"""Name of the publisher on the bus."""

LAB: Final = ipaddress.IPv6Network("fd00::/8")
"""Prefix of the addresses of a laboratory's hosts."""
STOP_TIMEOUT_S: Final = 10.0
_PIPE_BYTES: Final = 1 << 20
"""Size of the pipe: it holds seconds of summaries of a hundred flows while the publisher is not scheduled."""
_ROOT: Final = Path(__file__).parents[2]


@dataclass(frozen=True)
class Outlet:
    """Destination of a run's in-band telemetry.

    Attributes:
        summaries_fd: Descriptor for the emulator's summaries; None without telemetry.
        publisher: Publishes them on the bus; None without subscribers.
    """

    summaries_fd: int | None = None
    publisher: Publisher | None = None


@contextlib.contextmanager
def outlet(
    scenario: Scenario, directory: Path, facts: dict[str, Any], broker: str | None
) -> Iterator[Outlet]:
    """Open the destination of a run's telemetry.

    Args:
        scenario: The scenario.
        directory: Directory of the result; gets the file `SUMMARIES`.
        facts: Gets `telemetry`, the counters of the publisher.
        broker: URL of the bus on which an agent listens; None for none.

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
            raise_process(publisher.pid)  # like emulator and agent, so that telemetry is not delayed
            try:
                yield Outlet(writing, publisher)
            finally:
                written.close()  # the publisher exits when all writers have closed the pipe
                facts["telemetry"] = publisher.stop()


@contextlib.contextmanager
def readers_on(hosts: Iterable[Host], pin_dir: str) -> Iterator[None]:
    """Read echoes of the path from ACKs that arrive at hosts, for their sockets.

    Raises:
        NodeError: As in `InterfaceNode`.
    """
    with contextlib.ExitStack() as stack, open(os.devnull, "wb") as nowhere:
        for host in hosts:
            spec = NodeSpec(roles=("reader",), trusted=LAB, pin_dir=pin_dir)
            reader = InterfaceNode(host.interfaces[0].name, spec, nowhere.fileno())
            stack.enter_context(held(host, reader))
        yield


class Publisher:
    """The process that publishes summaries.

    Attributes:
        broker: URL of the broker.
        pid: Its process id.
    """

    def __init__(self, summaries_fd: int, broker: str, copy: Path) -> None:
        """Start the process, and wait until it is connected.

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
            start_new_session=True,  # Ctrl-C must not reach it; it exits at the end of its input
        )
        self.pid = self._process.pid
        assert self._process.stdout is not None
        if not self._process.stdout.readline():
            self._process.wait()
            error = self._failed()
            self._close()
            raise error

    def must_run(self) -> None:
        """Check that the process is running.

        Raises:
            RunError: `run.publisher`.
        """
        if self._process.poll() is not None:
            raise self._failed()

    def stop(self) -> dict[str, Any]:
        """Wait until the process has published its whole input; return the process' counters."""
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
            f"it exited with {process.status(self._process.returncode)}",
            self._log.read(),
            "run.publisher",
            "the process that publishes in-band telemetry failed",
            "process telemetry.inband.publisher",
            "run the scenario again; without the process, algorithms get no telemetry",
        )
