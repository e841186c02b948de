"""The run file: what the agent of a pin directory runs, for `ccp flows` and others to read.

It stands in /run, because a bpffs holds no ordinary files, or beside the socket that datapaths of others
write to, and is never locked: everybody may read it, so everybody could hold a lock. That there is one agent
a datapath is seen to where the maps are pinned. A file that a killed agent left is known by the process that
it names, which is gone.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path
from types import TracebackType
from typing import Final

import msgspec

from agent.stored import check_writable, replace_file
from ccp_base.errors import LoadError

log = logging.getLogger("ccplane.agent")

RUN_DIR: Final = Path("/run/ccplane")
"""Where run files stand."""

_ROOM_BYTES: Final = 4096
"""More than a run file has."""

_START_TIME: Final = 21
"""Place of `starttime` in /proc/PID/stat, counted from 0 (proc_pid_stat(5))."""


class RunInfo(msgspec.Struct, kw_only=True, frozen=True):
    """What an agent runs.

    Attributes:
        pid: Its process.
        pin_dir: Its datapath: a directory of pins, or a socket.
        default: Algorithm of flows of plain `ccp` that no rule matches.
        algorithms: Names of the algorithms by congestion-control name.
        programs: `ALGORITHM/PROGRAM` by program handle.
        rules: The rules as they were written.
        listens: Addresses at which it can be asked, and that of its broker.
        started_ticks: When the process began, in clock ticks since boot: another one may get its number.
    """

    pid: int
    pin_dir: str
    default: str = ""
    algorithms: dict[str, str] = {}
    programs: dict[int, str] = {}
    rules: list[str] = []
    listens: list[str] = []
    started_ticks: int | None = None


def run_dir_of(pin_dir: str) -> Path:
    """Return where the run file of a datapath stands: beside its socket, or in `RUN_DIR`."""
    return Path(pin_dir).parent if is_socket(pin_dir) else RUN_DIR


def is_socket(place: str) -> bool:
    """Return whether a datapath is known by a socket, not by a directory of pins."""
    try:
        return Path(place).is_socket()
    except OSError:  # a bpffs takes not every name
        return False


def run_file(pin_dir: str, run_dir: Path | None = None) -> Path:
    """Return the path of a pin directory's run file; different directories never share one."""
    if run_dir is None and is_socket(pin_dir):
        return Path(f"{pin_dir}.json")
    name = str(Path(pin_dir).absolute()).strip("/").replace("_", "__").replace("/", "_")
    return (run_dir or RUN_DIR) / f"{name}.json"


def check_room(run_dir: Path = RUN_DIR) -> None:
    """See whether a run file could be written.

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
        fix="run as root, and see that there is room",
    )


class RunFile:
    """The run file of this process, which holds the datapath; a context manager.

    Attributes:
        path: Where it stands.
    """

    def __init__(self, pin_dir: str, run_dir: Path | None = None) -> None:
        """Write that this process has the datapath.

        Args:
            pin_dir: Directory of the datapath.
            run_dir: Directory of run files; None for that of this datapath.

        Raises:
            LoadError: `load.no_run_dir` if this process may not write there.
        """
        self.path = run_file(pin_dir, run_dir)
        self._started_ticks = _started_ticks(os.getpid())
        self._failing = False
        try:
            self.path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
            self._replace(RunInfo(pid=os.getpid(), pin_dir=pin_dir))
        except OSError as error:
            raise _no_run_dir(self.path, error) from error

    def write(self, info: RunInfo) -> None:
        """Replace the contents; who reads meanwhile sees the old ones. A full disk stops nothing."""
        try:
            self._replace(info)
            self._failing = False
        except OSError as error:
            if not self._failing:
                log.error("the run file %s cannot be written: %s", self.path, error.strerror)
            self._failing = True

    def _replace(self, info: RunInfo) -> None:
        text = msgspec.json.encode(msgspec.structs.replace(info, started_ticks=self._started_ticks))
        replace_file(self.path, text, 0o644)

    def close(self) -> None:
        """Remove the file."""
        self.path.unlink(missing_ok=True)

    def __enter__(self) -> RunFile:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Remove the file."""
        self.close()


def running(pin_dir: str, run_dir: Path | None = None) -> RunInfo | None:
    """Return what the agent of a pin directory runs; None if none is alive or the file cannot be read."""
    try:
        info = msgspec.json.decode(run_file(pin_dir, run_dir).read_bytes(), type=RunInfo)
    except (OSError, msgspec.DecodeError):
        return None
    alive_since = _started_ticks(info.pid)
    return info if alive_since is not None and alive_since == info.started_ticks else None


def _started_ticks(pid: int) -> int | None:
    """Return when a process began, in clock ticks since boot; None if there is none."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # The name before, in parentheses, may have spaces and parentheses itself.
    return int(stat.rpartition(")")[2].split()[_START_TIME - 2])
