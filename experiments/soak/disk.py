"""Small file systems, and how to fill them so that they empty again when this process is killed."""

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
    """Mount a file system in memory during a `with` block; it hides the folder's previous content.

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
            "run as root",
        )
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=False)


@contextlib.contextmanager
def full(places: Sequence[Path]) -> Iterator[None]:
    """Fill file systems during a `with` block, with an unnamed file."""
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
