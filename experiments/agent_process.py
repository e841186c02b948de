"""Agents for benchmarks, the demo and tests: a `ccp run` process, or an agent in this process."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any, Final

from ccplane.agent.agent_loop import AgentLoop
from ccplane.agent.description import Description, assembled, plan
from ccplane.base.errors import LoadError
from ccplane.datapath import ebpf

START_TIMEOUT_S: Final = 600.0 if os.environ.get("CCPLANE_EMULATED") else 60.0
"""Start timeout [s]; long, because an emulated processor is ten times slower."""
STOP_TIMEOUT_S: Final = 10.0
PIN_DIR: Final = "/sys/fs/bpf/ccplane-lab"
"""Pin directory; it differs from the agent's default, so that an experiment does not take over the flows of a
running agent."""

WITH_THIS_PROCESS: Final = ("setpriv", "--pdeathsig", "TERM") if sys.platform == "linux" else ()
"""Command prefix: end the command when the thread that starts it ends, even if this process is killed."""


def ccp(*arguments: str) -> list[str]:
    """Return the command `ccp ...`; it imports nothing from the current directory."""
    return [sys.executable, "-P", "-c", "from ccplane.agent.entry import main; main()", *arguments]


class AgentProcess:
    """An agent in its own process, which ends with this process.

    Attributes:
        pid: Process id.
        greeting: The line that the agent printed when it was ready.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        pin_dir: str = PIN_DIR,
        enter: Sequence[str] = (),
        packages: Path | None = None,
        patience_s: float = START_TIMEOUT_S,
        command: str = "run",
        bind: Path | None = None,
    ) -> None:
        """Start the agent and wait until it is ready.

        Args:
            arguments: Arguments of `ccp run`.
            pin_dir: Directory in which the datapath is pinned.
            enter: Command prefix that starts the agent elsewhere, such as `Host.enter`.
            packages: Folder to import ccplane from; None for the one in use here.
            patience_s: Time limit until it is ready [s].
            command: Command of `ccp` to use instead of `run`.
            bind: The agent's socket, for datapaths other than the kernel's; nothing is pinned then.

        Raises:
            LoadError: `load.agent`, with its output, if it exits or is not ready in time.
        """
        place = ["--pin-dir", pin_dir] if bind is None else ["--bind", str(bind)]
        words = [*WITH_THIS_PROCESS, *enter, *ccp(command, *arguments, *place)]
        self._log: IO[str] = tempfile.TemporaryFile("a+")  # noqa: SIM115 - lives as long as the process
        self._written = ""
        self._process = subprocess.Popen(
            words,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            start_new_session=True,
            cwd=packages,
            env=None if packages is None else {**os.environ, "PYTHONPATH": str(packages)},
        )
        self.pid = self._process.pid
        try:
            self.greeting = self._first_line(patience_s)
        except BaseException:  # Ctrl-C does not reach the agent's session
            self.kill()
            raise
        if not self.greeting:
            self.kill()
            raise LoadError(
                "load.agent",
                "the agent did not start",
                " ".join(["ccp", command, *arguments]),
                self.log().strip()[-2000:],
                "run the command manually; `ccp doctor` lists what is missing",
            )

    def _first_line(self, patience_s: float) -> str:
        assert self._process.stdout is not None
        late = threading.Timer(patience_s, self._process.kill)
        late.start()
        try:
            return self._process.stdout.readline().strip()
        finally:
            late.cancel()

    def log(self) -> str:
        """Return the agent's error output so far."""
        if not self._log.closed:
            self._log.seek(0)
            self._written = self._log.read()
        return self._written

    @property
    def running(self) -> bool:
        """Whether the process is running."""
        return self._process.poll() is None

    def kill(self) -> None:
        """Kill the agent with SIGKILL; the kernel's watchdog takes over its flows."""
        if self.running:
            os.kill(self.pid, signal.SIGKILL)
        self._reap()

    def stop(self) -> str:
        """Stop the agent as Ctrl-C does; return its final output."""
        if self.running:
            os.kill(self.pid, signal.SIGINT)
        return self._reap()

    def _reap(self) -> str:
        if self._log.closed:
            return ""
        try:
            out, _ = self._process.communicate(timeout=STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            out, _ = self._process.communicate()
        self.log()
        self._log.close()
        return out


@contextlib.contextmanager
def running_agent(
    *arguments: str,
    pin_dir: str = PIN_DIR,
    enter: Sequence[str] = (),
    packages: Path | None = None,
    command: str = "run",
    bind: Path | None = None,
) -> Iterator[AgentProcess]:
    """Run an agent for a `with` block, and leave nothing in the kernel.

    Arguments and errors are those of `AgentProcess`; `arguments` are those of `ccp run`.
    """

    def tidy() -> None:
        if bind is None:
            ebpf.unload(pin_dir)

    try:
        agent = AgentProcess(arguments, pin_dir, enter, packages, command=command, bind=bind)
    except LoadError:
        raise  # the pinned datapath may belong to another agent
    except BaseException:
        tidy()
        raise
    try:
        yield agent
    finally:
        try:
            agent.stop()
        finally:
            tidy()


@contextlib.contextmanager
def agent_here(described: Description, **options: Any) -> Iterator[AgentLoop]:
    """Run an agent in this process for a `with` block; the caller has to run its loop.

    Args:
        described: What it runs; callbacks are not tried first, because they may measure.
        **options: Those of `ebpf.LoadOptions`, except the pin directory.

    Raises:
        CcpError: If it cannot start.
    """
    ready = plan(described, tries=False)
    ebpf.unload(PIN_DIR)
    datapath = ebpf.load(ebpf.LoadOptions(pin_dir=PIN_DIR, **options))
    try:
        yield assembled(ready, datapath)
    finally:
        datapath.close()
        ebpf.unload(PIN_DIR)
