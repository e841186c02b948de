"""Files that no other user can replace: a program that runs as root must not act on another user's file.

`/run/ccplane` belongs to the agent's user, so what root keeps for its next command is in `/run/ccplane-root`.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

from ccplane.base.errors import LoadError

ROOT_DIR: Final = Path("/run/ccplane-root")
"""Directory of root's records; only root can enter it."""


def make_directory(folder: Path) -> None:
    """Create a directory that only this user can enter, or check that no other user can write there.

    Raises:
        LoadError: `load.not_private`.
        OSError: If it cannot be created.
    """
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode):
        raise _not_private(folder, "it is not a directory")
    _check(folder, found)


def write(path: Path, raw: bytes) -> None:
    """Replace a file atomically, in a directory that only this user can enter.

    Raises:
        LoadError: `load.not_private`.
        OSError: If it cannot be written.
    """
    make_directory(path.parent)
    new = path.with_suffix(".new")
    new.unlink(missing_ok=True)  # of a program that was killed
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(new, flags, 0o600), "wb") as file:
        file.write(raw)
    new.replace(path)


def read(path: Path) -> bytes | None:
    """Return the contents of a file that `write` wrote; None if there is none.

    Raises:
        LoadError: `load.not_private`, if another user could have written it.
        OSError: If it cannot be read.
    """
    if not os.path.lexists(path.parent):
        return None
    make_directory(path.parent)
    try:
        found = path.lstat()
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(found.st_mode):
        raise _not_private(path, "it is not a regular file")
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        _check(path, os.fstat(file.fileno()))
        return file.read()


def _check(path: Path, found: os.stat_result) -> None:
    if found.st_uid != os.geteuid():
        raise _not_private(path, f"it belongs to user {found.st_uid}, not to user {os.geteuid()}")
    if found.st_mode & 0o022:
        raise _not_private(path, f"other users can write it (mode {stat.S_IMODE(found.st_mode):04o})")


def _not_private(path: Path, why: str) -> LoadError:
    return LoadError(
        "load.not_private",
        "another user could have written the stored settings",
        where=str(path),
        why=why,
        fix=f"check who created {path}, and remove it; the settings stored in it are then lost",
    )
