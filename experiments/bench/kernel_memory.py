"""Kernel memory that a process has allocated, accounted by its own control group."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from experiments.netlab import LabError

_ROOT: Final = Path("/sys/fs/cgroup")
_NAME: Final = "ccplane-bench"
_GONE_S: Final = 5.0
"""Maximum time for ended processes to disappear [s]."""


class KernelMemory:
    """A control group that accounts kernel memory, such as BPF maps that its processes create."""

    def __init__(self, group: Path) -> None:
        """Use an existing group."""
        self._group = group

    def take(self, pid: int) -> None:
        """Account the memory that a process allocates from now on."""
        (self._group / "cgroup.procs").write_text(f"{pid}\n")

    @property
    def used_bytes(self) -> int:
        """Allocated memory [bytes]; each processor has up to about 100 KB that are not counted yet."""
        if (older := self._group / "memory.kmem.usage_in_bytes").exists():
            return int(older.read_text())
        found = re.search(r"^kernel (\d+)$", (self._group / "memory.stat").read_text(), re.MULTILINE)
        assert found is not None, "memory.stat has `kernel` since Linux 5.18"
        return int(found[1])


@contextlib.contextmanager
def kernel_memory() -> Iterator[KernelMemory]:
    """Create a control group for a block; processes in it have to end before the block does.

    Raises:
        LabError: `lab.kernel_refused`, if there is no control group that accounts memory.
    """
    root = _ROOT if (_ROOT / "cgroup.controllers").exists() else _ROOT / "memory"
    group = root / f"{_NAME}-{os.getpid()}"
    try:
        group.mkdir()
        if root == _ROOT and "memory" not in (group / "cgroup.controllers").read_text().split():
            group.rmdir()
            raise FileNotFoundError(errno.ENOENT, "the controller `memory` is not available")
    except OSError as error:
        raise LabError(
            "lab.kernel_refused",
            "cannot create a control group that accounts memory",
            str(group),
            error.strerror or str(error),
            "run as root, and not in a container without its own control groups",
        ) from error
    try:
        yield KernelMemory(group)
    finally:
        _remove(group)


def _remove(group: Path) -> None:
    end_s = time.monotonic() + _GONE_S
    while True:
        try:
            group.rmdir()
        except OSError as error:
            if error.errno != errno.EBUSY or time.monotonic() > end_s:
                raise
            time.sleep(0.01)
        else:
            return
