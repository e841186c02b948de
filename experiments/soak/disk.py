"""Small file systems, and how to fill them so that they empty themselves if we are killed."""

from __future__ import annotations

import contextlib
import errno
import os
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from experiments.netlab import LabError


@contextlib.contextmanager
def small(place: Path, size_kb: int) -> Iterator[Path]:
    """Mount a file system in memory for the length of a block; what was in the folder is hidden meanwhile.

    Raises:
        LabError: `lab.kernel_refused`.
    """
    place.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size_kb}k,mode=0755", "ccp-soak", str(place)],
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise LabError(
            "lab.kernel_refused",
            "cannot mount a small file system",
            str(place),
            done.stderr.strip(),
            "be root",
        )
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=False)


@contextlib.contextmanager
def full(places: Sequence[Path]) -> Iterator[None]:
    """Leave no room on file systems for the length of a block; the file that takes it has no name."""
    with contextlib.ExitStack() as stack:
        for place in places:
            file = os.open(place, os.O_TMPFILE | os.O_WRONLY)
            stack.callback(os.close, file)
            _fill(file)
        yield


def _fill(file: int) -> None:
    chunk = bytes(4096)
    while True:
        try:
            os.write(file, chunk)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            return
