"""Cgroups of tests."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path as FilePath


@contextmanager
def cgroup(name: str) -> Iterator[FilePath]:
    """Make a cgroup (v2), and remove it, empty."""
    mounted = [
        line.split()[1] for line in FilePath("/proc/mounts").read_text().splitlines() if " cgroup2 " in line
    ]
    made = FilePath(mounted[0]) / f"ccplane-test-{name}"
    made.mkdir(exist_ok=True)
    try:
        yield made
    finally:
        made.rmdir()


@contextmanager
def inside(group: FilePath) -> Iterator[None]:
    """Be in a cgroup for a while: what makes sockets here makes them there."""
    before = next(
        line.removeprefix("0::").strip()
        for line in FilePath("/proc/self/cgroup").read_text().splitlines()
        if line.startswith("0::")
    )
    root = group.parent
    (group / "cgroup.procs").write_text(str(os.getpid()))
    try:
        yield
    finally:
        (root / before.lstrip("/") / "cgroup.procs").write_text(str(os.getpid()))
