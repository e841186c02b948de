"""Restores a host's settings when a program ends, or, if it was killed, when the next program starts."""

from __future__ import annotations

import errno
import socket
from pathlib import Path
from typing import TypeVar

import msgspec

from ccplane.base import private
from ccplane.base.decoding import UNREADABLE

_Before = TypeVar("_Before", bound=msgspec.Struct)


def claim(name: str) -> socket.socket | None:
    """Claim a name that is unique in each network namespace, until the socket is closed.

    Args:
        name: The setting that only one program may change.

    Returns:
        The socket that holds the name; None if another process holds it.
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
    """Save settings to a file before changing them; replaces the file atomically.

    Raises:
        LoadError: `load.not_private`.
    """
    private.write(path, msgspec.json.encode(before))


def left_behind(path: Path, kind: type[_Before]) -> _Before | None:
    """Return the settings saved by a program that was killed; None if there are none.

    Raises:
        LoadError: `load.not_private`, if another user could have written them.
    """
    raw = private.read(path)
    try:
        return None if raw is None else msgspec.json.decode(raw, type=kind)
    except UNREADABLE:
        return None
