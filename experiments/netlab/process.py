"""Processes of a lab: each in its own process group, with a time limit, and always ended."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import IO, Any, Final

from experiments.netlab.errors import LabError, no_command

TAIL_CHARACTERS: Final = 2000
"""Number of characters of a failed command's output that an error quotes."""

_TERM_GRACE_S: Final = 2.0
"""Time for a process to exit after SIGTERM [s]."""

Process = subprocess.Popen[str]
Stream = IO[Any] | int | None


def which(program: str, where: str) -> str:
    """Return the path of a program.

    Raises:
        LabError: `lab.no_command`, if it does not exist or cannot be executed.
    """
    path = shutil.which(program)
    if path is None:
        raise no_command(program, where)
    return path


def start(
    args: Sequence[str],
    *,
    where: str,
    stdin: Stream,
    stdout: Stream,
    stderr: Stream,
    env: dict[str, str] | None,
    pass_fds: Sequence[int] = (),
) -> Process:
    """Start a command in its own process group, so that it can be ended with all its children.

    Raises:
        LabError: `lab.no_command`, if the program does not exist.
    """
    return subprocess.Popen(
        [which(args[0], where), *args[1:]],
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        env=env,
        text=True,
        start_new_session=True,
        pass_fds=pass_fds,
    )


def finish(
    process: Process, *, timeout_s: float, where: str, check: bool = True
) -> subprocess.CompletedProcess[str]:
    """Wait for a process, and return its output.

    Raises:
        LabError: `lab.timeout`, or `lab.command_failed` if `check` and the status is not 0.
    """
    try:
        out, err = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired as error:
        kill(process)
        out, err = process.communicate()
        raise LabError(
            "lab.timeout",
            f"the command ran longer than {timeout_s:g} s and was killed",
            where,
            _tail(out, err),
            "increase the time limit, or check what the command waits for",
        ) from error
    except BaseException:  # Ctrl-C: leave no process behind
        kill(process)
        raise
    if check and process.returncode != 0:
        raise LabError(
            "lab.command_failed",
            f"the command failed with {status(process.returncode)}",
            where,
            _tail(out, err),
            "run the command manually in the host: `nsenter --net=/run/netns/NAMESPACE COMMAND`",
        )
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def kill(process: Process, number: signal.Signals = signal.SIGKILL) -> None:
    """Send a signal to a process and its whole group, if it still exists."""
    if process.returncode is None:  # once reaped, the pid may be reused
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)


def end(processes: Sequence[Process]) -> None:
    """End processes with their groups: SIGTERM first, then SIGKILL for the rest.

    All processes are reaped, and this process' ends of their pipes are closed.
    """
    running = [process for process in processes if process.poll() is None]
    for process in running:
        kill(process, signal.SIGTERM)
    deadline_s = time.monotonic() + _TERM_GRACE_S
    for process in running:
        try:
            process.wait(max(0.0, deadline_s - time.monotonic()))
        except subprocess.TimeoutExpired:
            kill(process)
            process.wait()
    for process in processes:
        _close_streams(process)


def _close_streams(process: Process) -> None:
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            with contextlib.suppress(OSError):  # unsent input of a dead process
                stream.close()


def kill_numbers(pids: Iterable[int], *, timeout_s: float = 5.0) -> None:
    """Kill processes that are not children of this one, and wait until they are gone.

    Raises:
        LabError: `lab.timeout`, if one of them still exists after the time.
    """
    left = [pid for pid in pids if pid != os.getpid()]
    for pid in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    deadline_s = time.monotonic() + timeout_s
    while left := [pid for pid in left if runs(pid)]:
        if time.monotonic() > deadline_s:
            raise LabError(
                "lab.timeout",
                f"processes {left} do not exit",
                "cleaning up the lab",
                "these processes are blocked in a system call",
                "see /proc/PID/stack; a reboot removes the processes",
            )
        time.sleep(0.01)


def runs(pid: int) -> bool:
    """Return whether a process runs; a zombie does not."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def children_of(pid: int) -> list[int]:
    """Return the living children of a process; none if it has exited."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            found += map(int, (task / "children").read_text().split())
    return found


def status(returncode: int) -> str:
    """Describe how a process ended: its status, or the signal that ended it."""
    if returncode < 0:
        return f"signal {signal.Signals(-returncode).name}"
    return f"status {returncode}"


def _tail(out: str | None, err: str | None) -> str:
    text = (err or "").strip() or (out or "").strip()
    return text[-TAIL_CHARACTERS:] or "the command wrote nothing"
