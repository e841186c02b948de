"""Checks candidates in a process that can be killed.

A time limit within the agent's process cannot end a call that holds the interpreter lock, such as `re.match`
with backtracking, and meanwhile the agent loop cannot run. So a candidate is first imported, compiled and
checked in a child process. The agent reads the candidate's files, because only the agent may read all of
them.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

from ccp_algs import siblings
from ccplane.agent.candidate import again, check_takeover, package_for, prepare
from ccplane.agent.locate import shown
from ccplane.agent.source import Past, Source
from ccplane.base.errors import CcpError, UsageError
from ccplane.datapath import ebpf

START_S: Final = 60.0
"""Time limit for the start of the process, before any code of the candidate runs [s]."""

_START: Final = (
    "import sys; sys.path[:] = sys.argv[2:]; "
    "from ccplane.agent.candidate_process import serve; serve(int(sys.argv[1]))"
)
_READY: Final = "ready"
_READ: Final = "read"
_RUNNING: Final = "running"
_DONE: Final = "done"


def too_slow(source: Source, limit_s: float) -> UsageError:
    """Return the error of a candidate whose import and checks take too long."""
    return UsageError(
        "reload.too_slow",
        f"importing and checking {shown(source.file)} took longer than {limit_s:g} s",
        where=shown(source.file),
        why="the module or a callback has an endless loop, or does too much work",
        fix="make that code faster; a running version is not affected",
    )


def try_out(
    source: Source,
    class_name: str,
    limit_s: float,
    read: siblings.Read,
    running: Callable[[str], Past | None],
) -> None:
    """Import, compile and check a candidate in a child process.

    Args:
        source: Its source.
        class_name: Name of the class; may be empty if there is only one.
        limit_s: Time limit [s].
        read: Reads the files that it imports.
        running: Returns the version that an algorithm of this name would replace; None if there is none.

    Raises:
        CcpError: What is wrong with the candidate, or `reload.too_slow`.
    """
    agent_end, child_end = multiprocessing.Pipe()
    with agent_end:
        with child_end:
            process = subprocess.Popen(
                [sys.executable, "-c", _START, str(child_end.fileno()), *sys.path],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[child_end.fileno()],
            )
        try:
            error = _attend(agent_end, (source, class_name), limit_s, {_READ: read, _RUNNING: running})
        except TimeoutError:
            raise too_slow(source, limit_s) from None
        except (EOFError, OSError):
            raise _died(source, process.wait()) from None
        finally:
            process.kill()
            process.wait()
    if error is not None:
        raise error


def _attend(
    child: Connection, order: tuple[Source, str], limit_s: float, answers: dict[str, Callable[[Any], Any]]
) -> CcpError | None:
    """Answer the child's questions until it is done; return the candidate's error."""
    end_s = time.monotonic() + START_S
    while child.poll(max(0.0, end_s - time.monotonic())):
        kind, what = child.recv()
        if kind == _DONE:
            return what if isinstance(what, CcpError) else None
        if kind == _READY:
            end_s = time.monotonic() + limit_s
            child.send(order)
            continue
        try:
            answer = answers[kind](what)
        except Exception as error:
            answer = error
        try:
            child.send(answer)
        except (pickle.PicklingError, AttributeError, TypeError):  # a class that only this process has
            child.send(None)
    raise TimeoutError


def _died(source: Source, code: int) -> UsageError:
    how = f"by {signal.Signals(-code).name}" if code < 0 else f"with status {code}"
    return UsageError(
        "reload.check_failed",
        f"the process that checked {shown(source.file)} ended before its answer",
        where=shown(source.file),
        why=f"the process ended {how}",
        fix="find the call that ends the process, for example with `ccp check`; a running version is "
        "not affected",
    )


def serve(descriptor: int) -> None:
    """Check one candidate for the agent at the other end of a connection."""
    with Connection(descriptor) as agent:

        def ask(kind: str, what: Any) -> Any:
            agent.send((kind, what))
            answer = agent.recv()
            if isinstance(answer, Exception):
                raise answer
            return answer

        agent.send((_READY, None))
        source, class_name = agent.recv()

        def read(path: Path) -> str | None:
            text: str | None = ask(_READ, path)
            return text

        try:
            candidate = prepare(source, ebpf.compile_program, class_name, package_for(source, read))
            old = None
            with contextlib.suppress(CcpError):  # what runs cannot be imported here: the agent checks it
                past: Past | None = ask(_RUNNING, candidate.name)
                old = past and again(past, candidate.name, ebpf.compile_program)
            if old:
                check_takeover(old.algorithm, candidate)
        except CcpError as error:
            agent.send((_DONE, error))
        else:
            agent.send((_DONE, None))
