"""Agents for benchmarks, the demo and tests: a `ccp run` as users start it, or one in this process."""

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

from ccplane.agent.description import Description, assembled, plan
from ccplane.agent.plane import Plane
from ccplane.base.errors import LoadError
from ccplane.datapath import ebpf

START_TIMEOUT_S: Final = 600.0 if os.environ.get("CCPLANE_EMULATED") else 60.0
"""Nobody waits for so long but for one that hangs; an emulated processor is ten times slower."""
STOP_TIMEOUT_S: Final = 10.0
PIN_DIR: Final = "/sys/fs/bpf/ccplane-lab"
"""Not an agent's default: an experiment takes no flows from somebody's running agent."""


def ccp(*arguments: str) -> list[str]:
    """Return the command `ccp ...`; nothing in the current directory is imported for it."""
    return [sys.executable, "-P", "-c", "from ccplane.agent.entry import main; main()", *arguments]


class AgentProcess:
    """An agent in a process of its own.

    Attributes:
        pid: Its process.
        greeting: The line that it printed when it was ready.
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
            arguments: Those of `ccp run`.
            pin_dir: Where its datapath is pinned.
            enter: Command that starts it somewhere else, such as `Host.enter`.
            packages: Folder to import ccplane from, if not where this one was imported from.
            patience_s: How long it may take until it is ready [s].
            command: Another one of `ccp` than `run` that serves flows.
            bind: Its socket, on a datapath that is not the kernel's: then nothing is pinned.

        Raises:
            LoadError: `load.agent`, with what it printed, if it ends or is not ready in time.
        """
        place = ["--pin-dir", pin_dir] if bind is None else ["--bind", str(bind)]
        words = [*enter, *ccp(command, *arguments, *place)]
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
        except BaseException:  # Ctrl-C: it is in a session of its own and does not hear it
            self.kill()
            raise
        if not self.greeting:
            self.kill()
            raise LoadError(
                "load.agent",
                "the agent did not start",
                " ".join(["ccp", command, *arguments]),
                self.log().strip()[-2000:],
                "run the command by hand; `ccp doctor` says what is missing",
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
        """Return what it wrote to its error output so far."""
        if not self._log.closed:
            self._log.seek(0)
            self._written = self._log.read()
        return self._written

    @property
    def running(self) -> bool:
        """Whether it lives."""
        return self._process.poll() is None

    def kill(self) -> None:
        """Kill it without a word (SIGKILL): its flows find out by themselves."""
        if self.running:
            os.kill(self.pid, signal.SIGKILL)
        self._reap()

    def stop(self) -> str:
        """End it as Ctrl-C does; returns its last words."""
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
    """Run an agent for the length of a block, and leave nothing of it in the kernel.

    Args:
        *arguments: Those of `ccp run`.
        pin_dir: Where its datapath is pinned.
        enter: As for `AgentProcess`.
        packages: Likewise.
        command: Likewise.
        bind: Likewise.

    Raises:
        LoadError: As `AgentProcess`.
    """

    def tidy() -> None:
        if bind is None:
            ebpf.unload(pin_dir)

    try:
        agent = AgentProcess(arguments, pin_dir, enter, packages, command=command, bind=bind)
    except LoadError:
        raise  # what is pinned there may be another agent's
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
def agent_here(described: Description, **options: Any) -> Iterator[Plane]:
    """Have an agent in this process for the length of a block; who has it lets it take its turns.

    Args:
        described: What it runs; its callbacks are not tried before, as they may measure.
        **options: As of `ebpf.LoadOptions`, but where it is pinned.

    Raises:
        CcpError: What keeps it from starting.
    """
    ready = plan(described, tries=False)
    ebpf.unload(PIN_DIR)
    datapath = ebpf.load(ebpf.LoadOptions(pin_dir=PIN_DIR, **options))
    try:
        yield assembled(ready, datapath)
    finally:
        datapath.close()
        ebpf.unload(PIN_DIR)
