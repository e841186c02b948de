"""Kernel memory that a process has allocated: a control group with nothing else in it accounts it."""

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
"""How long processes that were ended may take to be gone."""


class KernelMemory:
    """A control group that accounts kernel memory.

    BPF maps count for the group of the process that made them, whoever fills them.
    """

    def __init__(self, group: Path) -> None:
        """Describe a group that exists."""
        self._group = group

    def take(self, pid: int) -> None:
        """Account what a process allocates from now on."""
        (self._group / "cgroup.procs").write_text(f"{pid}\n")

    @property
    def used_bytes(self) -> int:
        """What is allocated now; processors keep some 100 KB each that they have not counted yet."""
        if (older := self._group / "memory.kmem.usage_in_bytes").exists():
            return int(older.read_text())
        found = re.search(r"^kernel (\d+)$", (self._group / "memory.stat").read_text(), re.MULTILINE)
        assert found is not None, "Linux 5.18 and newer say so"
        return int(found[1])


@contextlib.contextmanager
def kernel_memory() -> Iterator[KernelMemory]:
    """Make a control group, for the length of a block; processes that it took have to end in it.

    Raises:
        LabError: `lab.kernel_refused`, if there is no control group that accounts memory.
    """
    root = _ROOT if (_ROOT / "cgroup.controllers").exists() else _ROOT / "memory"
    group = root / f"{_NAME}-{os.getpid()}"
    try:
        group.mkdir()
        if root == _ROOT and "memory" not in (group / "cgroup.controllers").read_text().split():
            group.rmdir()
            raise FileNotFoundError(errno.ENOENT, "the controller `memory` is not there for groups")
    except OSError as error:
        raise LabError(
            "lab.kernel_refused",
            "cannot make a control group that accounts memory",
            str(group),
            error.strerror or str(error),
            "run as root, outside of a container that has none of its own",
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
