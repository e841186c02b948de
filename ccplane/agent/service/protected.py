"""Checks that only root can change a service's program, as others could misuse the service's capabilities."""

from __future__ import annotations

import os
import stat
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path

from ccplane.base.errors import UsageError

_PACKAGES = Path(__file__).parents[3]
_OWN = ("ccplane", "ccp_algs", "broker", "experiments", "telemetry")


def check_protected(ccp: Path, fix: str) -> None:
    """Refuse a `ccp` if a user other than root can change it, its interpreter or its packages.

    Raises:
        UsageError: `service.not_protected`.
    """
    folders = {sysconfig.get_path(name) for name in ("purelib", "platlib", "stdlib", "platstdlib")}
    programs = [ccp, Path(sys.executable), Path(sys.prefix, "pyvenv.cfg")]
    packages = [*map(Path, folders), *(_PACKAGES / name for name in _OWN)]
    for path, why in _changeable([*programs, *packages]):
        raise UsageError(
            "service.not_protected",
            "a user other than root can change this `ccp`, and could use the service's capabilities",
            where=str(path),
            why=why,
            fix=f"as root, {fix}",
        )


def _changeable(paths: Iterable[Path]) -> Iterator[tuple[Path, str]]:
    seen: set[Path] = set()
    for path in paths:
        if not path.exists():
            continue
        resolved = path.resolve()
        for place in (*path.absolute().parents, *resolved.parents):
            if place not in seen:
                seen.add(place)
                yield from _why(place, above=True)
        yield from _why(resolved)
        for folder, folders, files in os.walk(resolved):
            for name in (*folders, *files):
                yield from _why(Path(folder, name))


def _why(path: Path, *, above: bool = False) -> Iterator[tuple[Path, str]]:
    """Yield why a user other than root can change a file, or the files in a directory.

    Args:
        path: The file or directory.
        above: Whether only one file in the directory matters, which exists: with the sticky bit, other
            users cannot replace it.
    """
    try:
        status = path.lstat()
    except FileNotFoundError:
        return
    mode = status.st_mode
    if status.st_uid != 0:
        yield path, f"it belongs to the user with uid {status.st_uid}"
    elif stat.S_ISLNK(mode) or (above and mode & stat.S_ISVTX):
        return
    elif mode & stat.S_IWOTH:
        yield path, "every user can write it"
    elif mode & stat.S_IWGRP and status.st_gid != 0:
        yield path, f"the group with gid {status.st_gid} can write it"
