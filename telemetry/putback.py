"""What a program changes on a host and puts back: at its end, or, killed, when the next one comes."""

from __future__ import annotations

import errno
import socket
from pathlib import Path
from typing import TypeVar

import msgspec

_Before = TypeVar("_Before", bound=msgspec.Struct)


def claim(name: str) -> socket.socket | None:
    """Take a name that the kernel gives once in each network namespace, until the socket is closed.

    Args:
        name: What is to be changed by one program only.

    Returns:
        The socket that has the name; None if another has it.
    """
    taken = socket.socket(socket.AF_UNIX)
    try:
        taken.bind(f"\0ccplane-{name}")
    except OSError as error:
        taken.close()
        if error.errno != errno.EADDRINUSE:
            raise
        return None
    return taken


def keep(path: Path, before: msgspec.Struct) -> None:
    """Write down how things were, before they are changed; what was there is replaced as a whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    new.write_bytes(msgspec.json.encode(before))
    new.replace(path)


def left_behind(path: Path, kind: type[_Before]) -> _Before | None:
    """Return how things were, if a program wrote it down and was killed."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (FileNotFoundError, msgspec.DecodeError):
        return None
