"""cpio archives of folders, in the format of the kernel's initial file system."""

from __future__ import annotations

import stat
from pathlib import Path


def archive(folder: Path) -> bytes:
    """Return a folder as an archive in which everything belongs to root.

    Source: Linux, Documentation/driver-api/early-userspace/buffer-format.rst (the "newc" format).
    """
    out = bytearray()
    for number, path in enumerate(sorted(folder.rglob("*")), start=1):
        name = str(path.relative_to(folder))
        if path.is_dir():
            _add(out, number, name, stat.S_IFDIR | 0o755, b"")
        else:
            _add(out, number, name, stat.S_IFREG | (path.stat().st_mode & 0o777), path.read_bytes())
    _add(out, 0, "TRAILER!!!", 0, b"")
    return bytes(out)


def _add(out: bytearray, number: int, name: str, mode: int, data: bytes) -> None:
    # inode, mode, uid, gid, links, time, size, device (2), special device (2), length of the name, checksum
    fields = [number, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name) + 1, 0]
    out += b"070701" + b"".join(b"%08X" % field for field in fields) + name.encode() + b"\0"
    out += b"\0" * (-len(out) % 4)
    out += data
    out += b"\0" * (-len(out) % 4)
