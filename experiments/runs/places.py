"""Where results are written: whole or not at all, and never over something else.

A run writes into a hidden directory beside the one that it is for, which appears by renaming when all is
written. What a failed run got is kept as `NAME.incomplete`. Hidden directories of runs that were killed
are removed by the next run that writes beside them.
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

INCOMPLETE: Final = ".incomplete"

_SCRATCH: Final = re.compile(r"\..+\.(?P<pid>\d+)-(?P<start>\d+)\.tmp")


def must_be_free(out: Path) -> None:
    """Find out whether a result can be written.

    Raises:
        ResultError: `result.exists`.
    """
    if out.exists() and not (out.is_dir() and not any(out.iterdir())):
        raise ResultError(
            "result.exists",
            f"there is already something at {out}",
            str(out),
            "results are never written over",
            "choose another place with --out, or remove it",
        )


@contextlib.contextmanager
def scratch(out: Path) -> Iterator[Path]:
    """Give a directory to write a result into; gone after the block, unless `finish` or `keep` renamed it.

    Args:
        out: What the result's directory will be.

    Raises:
        ResultError: `result.cannot_write`.
    """
    owner = this_process()
    place = out.parent / f".{out.name}.{owner.pid}-{owner.start_ticks}.tmp"
    try:  # from before it is made: an interruption may come at any time
        _make(place, out)
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


def finish(place: Path, out: Path) -> None:
    """Make a whole result appear.

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
    """Keep what a failed run got; what an earlier one left there is replaced.

    Returns:
        Where it is.

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
    """Return where a failed run's result is kept."""
    return out.with_name(out.name + INCOMPLETE)


def _make(place: Path, out: Path) -> None:
    """Make an empty scratch directory for a result.

    Raises:
        ResultError: `result.cannot_write`.
    """
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
    """Let what root wrote belong to whom the directory around it belongs."""
    if os.geteuid() != 0:
        return
    user, group = _owner_of(place.absolute().parent)
    if user != 0:
        for one in (place, *place.rglob("*")):
            os.chown(one, user, group)


def _owner_of(directory: Path) -> tuple[int, int]:
    status = directory.stat()
    return status.st_uid, status.st_gid


def cannot_write(out: Path, error: OSError) -> ResultError:
    """Return the error for a result that cannot be written."""
    return ResultError(
        "result.cannot_write",
        f"cannot write to {out}",
        str(out),
        error.strerror or str(error),
        "choose another place with --out",
    )
