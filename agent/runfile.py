"""The run file: one agent a pin directory, and what that agent runs, for `ccp flows` to read.

It is locked (flock) for as long as the agent lives, however the agent ends, so that it never goes stale: who
finds it unlocked knows that nobody is there. It stands in /run, because a bpffs holds no ordinary files.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from types import TracebackType
from typing import Final

import msgspec

from ccp_base.errors import LoadError

RUN_DIR: Final = Path("/run/ccplane")
"""Where run files stand."""


class RunInfo(msgspec.Struct, kw_only=True, frozen=True):
    """What an agent runs.

    Attributes:
        pid: Its process.
        pin_dir: Its datapath.
        default: Algorithm of flows of plain `ccp` that no rule matches.
        algorithms: Names of the algorithms by congestion-control name.
        programs: `ALGORITHM/PROGRAM` by program handle.
        rules: The rules as they were written.
    """

    pid: int
    pin_dir: str
    default: str = ""
    algorithms: dict[str, str] = {}
    programs: dict[int, str] = {}
    rules: list[str] = []


def run_file(pin_dir: str, run_dir: Path = RUN_DIR) -> Path:
    """Return the path of a pin directory's run file; different directories never share one."""
    name = str(Path(pin_dir).absolute()).strip("/").replace("_", "__").replace("/", "_")
    return run_dir / f"{name}.json"


class RunFile:
    """The locked run file of this process; a context manager.

    Attributes:
        path: Where it stands.
    """

    def __init__(self, pin_dir: str, run_dir: Path = RUN_DIR) -> None:
        """Lock the run file.

        Args:
            pin_dir: Directory of the datapath.
            run_dir: Directory of run files.

        Raises:
            LoadError: `load.already_running`, or `load.no_run_dir` if this process may not write there.
        """
        self.path = run_file(pin_dir, run_dir)
        self._pin_dir = pin_dir
        try:
            run_dir.mkdir(mode=0o755, parents=True, exist_ok=True)
            self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise LoadError(
                "load.no_run_dir",
                f"cannot write the run file {self.path}",
                why=error.strerror or str(error),
                fix="run as root",
            ) from error
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = _read(self._fd)
            os.close(self._fd)
            raise already_running(pin_dir, holder) from None
        self.write(RunInfo(pid=os.getpid(), pin_dir=pin_dir))

    def write(self, info: RunInfo) -> None:
        """Replace the contents."""
        text = msgspec.json.encode(info)
        os.pwrite(self._fd, text, 0)
        os.ftruncate(self._fd, len(text))

    def close(self) -> None:
        """Empty and unlock the file. It stays: removing a lock file races with who has just opened it."""
        if self._fd >= 0:
            os.ftruncate(self._fd, 0)
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> RunFile:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Unlock."""
        self.close()


def already_running(pin_dir: str, holder: RunInfo | None) -> LoadError:
    """Return the error that names the agent which holds a datapath."""
    pid = "unknown" if holder is None else str(holder.pid)
    return LoadError(
        "load.already_running",
        f"another agent (pid {pid}) steers the flows of {pin_dir}",
        why="one agent a datapath: two would overwrite each other's windows",
        fix=f"stop it (kill {pid}), or choose another --pin-dir"
        if holder is not None
        else "stop it, or choose another --pin-dir",
    )


def running(pin_dir: str, run_dir: Path = RUN_DIR) -> RunInfo | None:
    """Return what the agent of a pin directory runs; None if none is alive or the file cannot be read."""
    try:
        fd = os.open(run_file(pin_dir, run_dir), os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _read(fd)
    else:
        return None
    finally:
        os.close(fd)


def _read(fd: int) -> RunInfo | None:
    try:
        return msgspec.json.decode(os.pread(fd, 1 << 20, 0), type=RunInfo)
    except msgspec.DecodeError:
        return None  # read while it is being written
