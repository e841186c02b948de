"""Atomic writing of files that other processes read."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def check_writable(folder: Path, mode: int, raw: int = 0) -> None:
    """Check that a file can be written in a folder; create the folder if necessary.

    Raises:
        OSError: If it cannot.
    """
    folder.mkdir(mode=mode, parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=folder) as file:
        file.write(bytes(raw))


def replace_file(path: Path, raw: bytes, mode: int = 0o600) -> None:
    """Replace the contents of a file atomically.

    Raises:
        OSError: If it cannot be written; the file is unchanged then, and no temporary file is left.
    """
    part = None
    try:
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
            part = file.name
            file.write(raw)
            os.fchmod(file.fileno(), mode)
        os.replace(part, path)
    except OSError:
        if part is not None:
            Path(part).unlink(missing_ok=True)
        raise
