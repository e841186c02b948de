"""Files that an agent writes and others read: replaced as a whole, or left as they were."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def check_writable(folder: Path, mode: int, octets: int = 0) -> None:
    """See whether files could be written in a folder, which is made if it is not there.

    Args:
        folder: Which.
        mode: Permissions of the folder, if it is made.
        octets: How much room a file needs [bytes].

    Raises:
        OSError: Why not.
    """
    folder.mkdir(mode=mode, parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=folder) as file:
        file.write(bytes(octets))


def replace_file(path: Path, octets: bytes, mode: int = 0o600) -> None:
    """Replace the contents of a file; who reads meanwhile sees the old ones.

    Args:
        path: The file; its folder is there.
        octets: The contents.
        mode: Permissions of the file.

    Raises:
        OSError: Why not; the file is as it was then, and nothing stands beside it.
    """
    part = None
    try:
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
            part = file.name
            file.write(octets)
            os.fchmod(file.fileno(), mode)
        os.replace(part, path)
    except OSError:
        if part is not None:
            Path(part).unlink(missing_ok=True)
        raise
