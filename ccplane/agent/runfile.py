"""The run file: what the agent of a datapath runs, for `ccp flows` and other commands.

The file is in /run, because a bpffs cannot contain ordinary files, or next to the agent's socket. The file is
not locked, because any user may read it, and so could hold a lock. The datapath itself ensures that it has
only one agent. The file of a killed agent is recognised by its process id, which no longer exists.
"""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final

import msgspec

from ccplane.agent.stored import check_writable, replace_file
from ccplane.base.decoding import UNREADABLE
from ccplane.base.errors import LoadError

log = logging.getLogger("ccplane.agent")

RUN_DIR: Final = Path("/run/ccplane")
"""Directory of run files."""

_ROOM_BYTES: Final = 4096
"""Upper bound for the size of a run file."""

_START_TIME: Final = 21
"""Index of `starttime` in /proc/PID/stat, from 0 (proc_pid_stat(5))."""


class RunInfo(msgspec.Struct, kw_only=True, frozen=True):
    """Description of what an agent runs.

    Attributes:
        pid: Its process id.
        pin_dir: Its datapath: a pin directory, or a socket.
        default: Algorithm of `ccp` flows that match no rule.
        algorithms: Names of the algorithms by congestion-control name.
        programs: `ALGORITHM/PROGRAM` by program handle.
        rules: Texts of the rules.
        listens: Addresses of its metrics, control socket and broker.
        started_ticks: Start time of the process, in clock ticks since boot: process ids are reused.
        pid_namespace: Inode of the PID namespace in which the process has this id.
    """

    pid: int
    pin_dir: str
    default: str = ""
    algorithms: dict[str, str] = {}
    programs: dict[int, str] = {}
    rules: list[str] = []
    listens: list[str] = []
    started_ticks: int | None = None
    pid_namespace: int | None = None


def run_dir_of(pin_dir: str) -> Path:
    """Return the directory of a datapath's run file: the directory of its socket, or `RUN_DIR`."""
    return Path(pin_dir).parent if is_socket(pin_dir) else RUN_DIR


def is_socket(place: str) -> bool:
    """Return whether a datapath is identified by a socket, not by a pin directory."""
    try:
        return Path(place).is_socket()
    except OSError:  # a bpffs does not accept every name
        return False


def run_file(pin_dir: str, run_dir: Path | None = None) -> Path:
    """Return the path of a datapath's run file, unique per datapath."""
    if run_dir is None and is_socket(pin_dir):
        return Path(f"{pin_dir}.json")
    name = str(Path(pin_dir).absolute()).strip("/").replace("_", "__").replace("/", "_")
    return (run_dir or RUN_DIR) / f"{name}.json"


def check_room(run_dir: Path = RUN_DIR) -> None:
    """Check that a run file can be written.

    Raises:
        LoadError: `load.no_run_dir`.
    """
    try:
        check_writable(run_dir, 0o755, _ROOM_BYTES)
    except OSError as error:
        raise _no_run_dir(run_dir, error) from error


def _no_run_dir(place: Path, error: OSError) -> LoadError:
    return LoadError(
        "load.no_run_dir",
        f"cannot write the run file {place}",
        why=error.strerror or str(error),
        fix="run as root, and check that the disk is not full",
    )


class RunFile:
    """The run file of this process; a context manager.

    Attributes:
        path: Its path.
    """

    def __init__(self, pin_dir: str, run_dir: Path | None = None) -> None:
        """Check that the file can be written; `write` replaces that of an earlier agent.

        Raises:
            LoadError: `load.no_run_dir`.
        """
        self.path = run_file(pin_dir, run_dir)
        self._started_ticks = _started_ticks("self")
        self._pid_namespace = _own_pid_namespace()
        self._failing = False
        self._is_successors = False
        check_room(self.path.parent)

    def write(self, info: RunInfo) -> None:
        """Replace the contents atomically. Errors, such as a full disk, are only logged."""
        try:
            self._replace(info)
            self._failing = False
        except OSError as error:
            if not self._failing:
                log.error("cannot write the run file %s: %s", self.path, error.strerror)
            self._failing = True

    def _replace(self, info: RunInfo) -> None:
        mine = msgspec.structs.replace(
            info, started_ticks=self._started_ticks, pid_namespace=self._pid_namespace
        )
        replace_file(self.path, msgspec.json.encode(mine), 0o644)

    def leave(self) -> None:
        """Leave the file to a successor, which replaces it."""
        self._is_successors = True

    def close(self) -> None:
        """Remove the file, unless another agent has replaced it."""
        if self._is_successors:
            return
        info = _read(self.path)
        if info is not None and (info.pid, info.started_ticks) == (os.getpid(), self._started_ticks):
            with suppress(OSError):
                self.path.unlink()

    def __enter__(self) -> RunFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def running(pin_dir: str, run_dir: Path | None = None) -> RunInfo | None:
    """Return what a datapath's agent runs; None if no agent is alive, or the file cannot be read.

    The process id is as seen from this process's PID namespace. An agent outside of it is not found.
    """
    info = _read(run_file(pin_dir, run_dir))
    if info is None:
        return None
    if info.pid_namespace is not None and info.pid_namespace != _own_pid_namespace():
        return _of_other_namespace(info)
    alive_since = _started_ticks(info.pid)
    return info if alive_since is not None and alive_since == info.started_ticks else None


def _read(path: Path) -> RunInfo | None:
    """Return the contents of a run file; None if it cannot be read."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=RunInfo)
    except (OSError, *UNREADABLE):
        return None


def _of_other_namespace(info: RunInfo) -> RunInfo | None:
    """Find the process of a container's agent among those that this namespace sees."""
    inside = str(info.pid)
    for entry in Path("/proc").glob("[0-9]*/status"):
        try:
            lines = entry.read_text().splitlines()
            _, *ids = next(line for line in lines if line.startswith("NSpid:")).split()
        except (OSError, StopIteration):  # the process ended
            continue
        if len(ids) > 1 and ids[-1] == inside and _started_ticks(entry.parent.name) == info.started_ticks:
            return msgspec.structs.replace(info, pid=int(entry.parent.name))
    return None


def _own_pid_namespace() -> int | None:
    try:
        return os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        return None


def _started_ticks(pid: int | str) -> int | None:
    """Return the start time of a process, in clock ticks since boot; None if it does not exist."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # The preceding field, the name in parentheses, may contain spaces and parentheses.
    return int(stat.rpartition(")")[2].split()[_START_TIME - 2])
