"""The audit log, append-only: one line of JSON for each change of the agent, with its author and outcome.

{"t": "2026-11-24T10:48:03.518204+00:00", "who": {"uid": 0, "pid": 4711}, "what": "reload",
"about": {"algorithm": "mine"}, "sha256": {"mine": "9ae2..."}, "outcome": "done"}
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import socket
import struct
import threading
from collections.abc import Callable
from concurrent.futures import Future
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
import zmq

from ccplane.agent import messages as ask
from ccplane.agent.events import Event
from ccplane.agent.requests import error_from
from ccplane.base.errors import CcpError, LoadError

if TYPE_CHECKING:
    from ccplane.agent.agent_loop import AgentLoop

log = logging.getLogger("ccplane.agent")

Caller = dict[str, Any]

Note = Callable[[Future[Any]], None]
"""Records the outcome of a request; waits for the disk, so it must not run on the agent's thread."""


class AuditLog:
    """An append-only file, reopened after rotation. Lines that cannot be written go to the agent's log.

    Attributes:
        errors: Lines that could not be written.
    """

    def __init__(self, path: Path) -> None:
        """Open the file; only its owner can read it.

        Raises:
            LoadError: `audit.cannot_open`.
        """
        self.errors = 0
        self._path = path
        self._lock = threading.Lock()
        self._is_cut = self._is_closed = False
        self._rotation_failed = False
        try:
            self._file = _opened(path)
        except OSError as error:
            raise LoadError(
                "audit.cannot_open",
                "the audit log cannot be opened",
                str(path),
                error.strerror or str(error),
                "create the folder of the audit log, or choose another file with --audit",
            ) from None

    def add(self, who: Caller, what: str, about: dict[str, Any], outcome: str, **more: Any) -> None:
        """Write a line to the disk before returning. Thread-safe."""
        line = {"t": datetime.now(UTC).isoformat(), "who": who, "what": what, "about": about, **more}
        text = json.dumps({**line, "outcome": outcome}) + "\n"
        with self._lock:
            if self._is_closed:
                return
            self._follow_rotation()
            try:
                self._write(text.encode())
                os.fsync(self._file)
            except OSError as error:
                self.errors += 1
                log.error(
                    "cannot write to the audit log %s: %s: %s", self._path, error.strerror, text.rstrip()
                )

    def _write(self, line: bytes) -> None:
        if self._is_cut:
            line = b"\n" + line
        written = os.write(self._file, line)
        while written < len(line):  # a disk that is almost full takes a part without an error
            self._is_cut = True
            written += os.write(self._file, line[written:])
        self._is_cut = False

    def _follow_rotation(self) -> None:
        """Open the path again if its file was renamed, removed or replaced."""
        try:
            if os.path.samestat(os.stat(self._path), os.fstat(self._file)):
                return
        except FileNotFoundError:
            pass
        except OSError:
            return  # the folder is closed to the agent's user, who could not open a new file either
        try:
            new = _opened(self._path)
        except OSError as error:
            if not self._rotation_failed:
                log.error(
                    "cannot open the audit log %s after its rotation: %s; "
                    "continuing in the old file: let the rotation create a file that the agent can write",
                    self._path,
                    error.strerror,
                )
            self._rotation_failed = True
            return
        os.close(self._file)
        self._file, self._is_cut, self._rotation_failed = new, False, False

    def close(self) -> None:
        """Close the file; later lines are not written."""
        with self._lock:
            self._is_closed = True
            os.close(self._file)


def _opened(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)


class Audit:
    """Records changes of an agent and their outcomes: requests, saved files, and trials."""

    def __init__(self, audit_log: AuditLog, agent_loop: AgentLoop) -> None:
        self._log = audit_log
        self._loop = agent_loop

    def saved(self, algorithm: str, error: CcpError | None) -> None:
        """Record that the file of an algorithm was saved, and whether the new version was accepted."""
        about = {"algorithm": algorithm}
        ended = "done" if error is None else error.slug
        self._log.add({"file": True}, "reload", about, ended, sha256=self._versions())

    def tried(self, event: Event) -> None:
        """Record how the trial of a new version ended."""
        about = {"algorithm": event.algorithm, "why": event.detail["why"]}
        self._log.add({"trial": True}, event.kind, about, "done", sha256=self._versions())

    def _versions(self) -> dict[str, str]:
        return {name: host.version.sha256 for name, host in list(self._loop.hosts.items())}

    def of(self, what: ask.Ask, frame: zmq.Frame) -> Note | None:
        """Return a function that records the outcome of a request; None if the request changes nothing.

        Args:
            what: The request.
            frame: The frame of the request; it identifies the sender.
        """
        if what.changes == "nothing" or (isinstance(what, ask.Load) and what.check):
            return None
        who = peer_of(frame)
        return lambda outcome: self._note(who, what, outcome)

    def _note(self, who: Caller, what: ask.Ask, outcome: Future[Any]) -> None:
        about = msgspec.to_builtins(what)
        kind = about.pop("do")
        source = about.pop("source", None)
        more: dict[str, Any] = {}
        if source is not None:
            more["source_sha256"] = hashlib.sha256(source.encode()).hexdigest()
        if what.changes == "versions":
            more["sha256"] = self._versions()
        error = outcome.exception()
        ended = "done" if error is None else error_from(error).slug
        given = {name: value for name, value in about.items() if value is not None}
        self._log.add(who, kind, given, ended, **more)


_PEER: Final = struct.Struct("3i")  # struct ucred


def peer_of(frame: zmq.Frame) -> Caller:
    """Return the sender of a frame: user and process on a Unix socket, the public key on TCP."""
    try:
        return {"key": frame.get("User-Id")}
    except zmq.ZMQError:
        pass
    try:
        with socket.socket(fileno=os.dup(int(frame.get(zmq.SRCFD)))) as peer:
            pid, uid, _ = _PEER.unpack(peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))
    except (OSError, zmq.ZMQError):
        return {"uid": None, "pid": None}  # the client has disconnected
    return {"uid": uid, "pid": pid}
