"""Writing results: completely or not at all, and never over other files.

A run writes into a hidden directory next to its target, and renames it when everything is written. The files
of a failed run are kept as `NAME.incomplete`. Hidden directories of killed runs are removed by the next run
that writes next to them.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from experiments.errors import ResultError
from experiments.netlab.names import Owner, this_process
from experiments.writing import cannot_write

INCOMPLETE: Final = ".incomplete"

_SCRATCH: Final = re.compile(r"\..+\.(?P<pid>\d+)-(?P<start>\d+)\.tmp")


def must_be_free(out: Path) -> None:
    """Check that a result can be written.

    Raises:
        ResultError: `result.exists`.
    """
    if out.exists() and not (out.is_dir() and not any(out.iterdir())):
        raise ResultError(
            "result.exists",
            f"{out} already exists",
            str(out),
            "results are never overwritten",
            "choose another directory with --out, or remove this directory",
        )


@contextlib.contextmanager
def scratch(out: Path) -> Iterator[Path]:
    """Create a directory for a result; it is removed after the block unless it was renamed.

    Raises:
        ResultError: `result.cannot_write`.
    """
    owner = this_process()
    place = out.parent / f".{out.name}.{owner.pid}-{owner.start_ticks}.tmp"
    try:  # before its creation, because an interruption may come at any time
        _make(place, out)
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


def finish(place: Path, out: Path) -> None:
    """Move a complete result to its final directory.

    Raises:
        ResultError: `result.cannot_write`.
    """
    try:
        give_away(place)
        place.rename(out)  # an empty directory is replaced
        shutil.rmtree(incomplete(out), ignore_errors=True)
    except OSError as error:
        raise cannot_write(out, error) from error


def keep(place: Path, out: Path) -> Path:
    """Keep the files of a failed run, replacing those of an earlier one; return their directory.

    Raises:
        ResultError: `result.cannot_write`.
    """
    kept = incomplete(out)
    try:
        shutil.rmtree(kept, ignore_errors=True)
        give_away(place)
        place.rename(kept)
    except OSError as error:
        raise cannot_write(kept, error) from error
    return kept


def incomplete(out: Path) -> Path:
    """Return the directory for a failed run's result."""
    return out.with_name(out.name + INCOMPLETE)


def _make(place: Path, out: Path) -> None:
    try:
        made = [parent for parent in (out.parent, *out.parent.parents) if not parent.exists()]
        out.parent.mkdir(parents=True, exist_ok=True)
        for parent in reversed(made):
            give_away(parent)
        _remove_stale(out.parent)
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
    except OSError as error:
        raise cannot_write(out, error) from error


def _remove_stale(directory: Path) -> None:
    for one in directory.iterdir():
        found = _SCRATCH.fullmatch(one.name)
        if found and not Owner(int(found["pid"]), int(found["start"])).is_alive():
            shutil.rmtree(one, ignore_errors=True)


def give_away(place: Path) -> None:
    """Give files written by root to the owner of the directory around them."""
    if os.geteuid() != 0:
        return
    user, group = _owner_of(place.absolute().parent)
    if user != 0:
        for one in (place, *place.rglob("*")):
            os.chown(one, user, group)


def _owner_of(directory: Path) -> tuple[int, int]:
    status = directory.stat()
    return status.st_uid, status.st_gid
