"""Upgrades an agent under a service manager: the agent starts its successor, which takes the flows over.

The successor is a process of the same service, with its cgroup, mounts, credentials and capabilities, which a
reload command of systemd would not all have. It runs the files that are installed now.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from pathlib import Path
from typing import Final

from ccplane.agent.runfile import running
from ccplane.agent.user import pass_on_capabilities
from ccplane.base.errors import LoadError, UsageError
from ccplane.base.notify import Manager

START_S: Final = 80.0
"""Time limit for the successor to take over [s]; systemd ends a reload command after 90 s."""

ADOPT_S: Final = 60.0
"""Time limit for the successor, from the end of this agent's work until it serves [s]."""

LOOK_S: Final = 0.1
"""Interval between two looks at the successor [s]."""

_PIPE: Final = "CCPLANE_SUCCESSOR_PIPE"
"""Environment variable with the pipe on which the old agent waits for its successor's id, and for its end."""

_waits_for: Final[list[int]] = []
"""A successor's end of that pipe."""

_RUN: Final = "run"
_TAKE_OVER: Final = "--take-over"


class Upgrade:
    """Starts successors of this agent.

    Attributes:
        taken_over: Whether a successor that was started here takes over.
    """

    def __init__(self, manager: Manager | None) -> None:
        self.taken_over = False
        self._pid = 0
        self._manager = manager
        self._running: Future[int] | None = None

    def start(self, arguments: Sequence[str] | None, answer: Callable[[Future[int]], None]) -> None:
        """Start a successor on a thread; call this on the agent's thread, whose capabilities it gets.

        Args:
            arguments: Arguments of `ccp run`; None for those of this agent.
            answer: Called with the process id of the successor when it takes over, or with the error.
        """
        outcome: Future[int] = Future()
        outcome.add_done_callback(answer)
        if self._running is not None and not self._running.done():
            outcome.set_exception(_refused("another upgrade is running", "wait until it has ended"))
        elif self._manager is None or _RUN not in sys.orig_argv:
            why = "no service manager started this agent with `ccp run`"
            outcome.set_exception(_refused(why, "start the new version with `ccp run ... --take-over`"))
        else:
            self._running, self._pid = outcome, 0
            work = (outcome, _command(arguments), self._manager.environment())
            threading.Thread(target=self._run, args=work, name="ccp-upgrade", daemon=True).start()

    def succeeded(self, pid: int) -> None:
        """Report that an agent takes over, started here or not; call this on the agent's thread."""
        if self._running is not None and pid == self._pid:
            self.taken_over = True
            with contextlib.suppress(InvalidStateError):  # it failed in this moment
                self._running.set_result(pid)

    def _run(self, outcome: Future[int], command: list[str], environment: dict[str, str]) -> None:
        """Start the successor, and wait for its end; the agent's thread notices when it takes over."""
        reader, writer = os.pipe()
        failure = f"it did not start within {START_S:g} s"
        try:
            environment = {**os.environ, **environment, _PIPE: str(writer)}
            try:
                pass_on_capabilities()  # of this thread only
                subprocess.run(command, env=environment, pass_fds=[writer], timeout=START_S, check=False)
            finally:
                os.close(writer)
            while select.select([reader], [], [], START_S)[0]:
                if not (text := os.read(reader, 64)):
                    failure = "it ended with an error"
                    break
                self._pid = int(text)
        except subprocess.TimeoutExpired:
            pass
        except OSError as error:
            failure = str(error)
        finally:
            os.close(reader)
        with contextlib.suppress(InvalidStateError, ProcessLookupError):  # it took over, or it has ended
            outcome.set_exception(
                LoadError(
                    "upgrade.failed",
                    "the new version did not take over; this agent keeps its flows",
                    why=failure,
                    fix="see the agent's log: `journalctl -u ccplane-agent`",
                )
            )
            if self._pid:
                os.kill(self._pid, signal.SIGKILL)


def _refused(why: str, fix: str) -> UsageError:
    return UsageError("upgrade.refused", "the agent cannot start a new version of itself", why=why, fix=fix)


def _command(arguments: Sequence[str] | None) -> list[str]:
    """Return the command line of the successor."""
    at = sys.orig_argv.index(_RUN) + 1
    own = sys.orig_argv[at:] if arguments is None else [*arguments]
    return [*sys.orig_argv[:at], *([] if _TAKE_OVER in own else [_TAKE_OVER]), *own]


def continue_service(manager: Manager, pid: int, place: str, run_dir: Path | None) -> None:
    """In the old agent: when the successor serves, make it the main process of the service.

    Args:
        manager: The service manager.
        pid: The successor's process id.
        place: Its datapath.
        run_dir: Directory of its run file; None for the usual one.

    Raises:
        LoadError: `upgrade.failed`, if the successor does not serve: the manager then restarts the service.
    """
    end_s = time.monotonic() + ADOPT_S
    while (info := running(place, run_dir)) is None or info.pid != pid or not info.algorithms:
        if time.monotonic() > end_s or not Path(f"/proc/{pid}").exists():
            raise LoadError(
                "upgrade.failed",
                f"the new agent, process {pid}, took over, but does not serve",
                fix="see its error in the log; until an agent starts, flows use the fallback",
            )
        manager.emit(WATCHDOG=1)
        time.sleep(LOOK_S)
    manager.hand_over(pid)
    manager.close()


def detach() -> None:
    """In a successor: continue in a new process, whose parent is the service manager; else do nothing."""
    pipe = os.environ.pop(_PIPE, None)
    if pipe is None:
        return
    if os.fork():
        os._exit(0)
    os.set_inheritable(int(pipe), False)
    os.write(int(pipe), str(os.getpid()).encode())
    _waits_for.append(int(pipe))


def is_main() -> bool:
    """Return whether this is the service's main process, from which alone systemd takes notifications.

    A successor becomes the main process when the old agent exits, which closes its end of the pipe.
    """
    if _waits_for:
        pipe = select.poll()
        pipe.register(_waits_for[0], 0)
        if pipe.poll(0):
            os.close(_waits_for.pop())
    return not _waits_for
