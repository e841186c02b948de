"""Linux network namespaces from the view of a thread: `setns(2)` moves only the calling thread.

Sockets that a thread opens, and files that it opens under /proc/thread-self/net and /proc/sys/net, belong to
its namespace permanently. New threads start in the namespace of their creator.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

DIRECTORY: Final = Path("/var/run/netns")
"""Directory of named namespaces, also for `ip netns`: NETNS_RUN_DIR of iproute2 and pyroute2."""

OWN: Final = Path("/proc/thread-self/ns/net")
"""File that stands for the namespace of the thread that opens it."""

_CLONE_NEWNET: Final = 0x40000000  # <linux/sched.h>
_libc: Final = ctypes.CDLL(None, use_errno=True)  # os.setns and os.unshare come with Python 3.12


def path_of(namespace: str) -> Path:
    """Return the file that stands for a namespace: its name, or a path such as `/proc/PID/ns/net`."""
    return Path(namespace) if "/" in namespace else DIRECTORY / namespace


def enter(path: Path) -> None:
    """Move this thread into a namespace.

    Raises:
        OSError: If the namespace does not exist, or entering is not permitted.
    """
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        _must(_libc.setns(file, _CLONE_NEWNET))
    finally:
        os.close(file)


@contextlib.contextmanager
def inside(path: Path | None, refused: Callable[[OSError], Exception]) -> Iterator[None]:
    """Move this thread into a namespace for a `with` block; None leaves it where it is.

    Args:
        path: The file that stands for the namespace.
        refused: Returns the exception to raise if the namespace cannot be entered.
    """
    if path is None:
        yield
        return
    home = os.open(OWN, os.O_RDONLY | os.O_CLOEXEC)
    try:
        try:
            enter(path)
        except OSError as error:
            raise refused(error) from error
        try:
            yield
        finally:
            _must(_libc.setns(home, _CLONE_NEWNET))
    finally:
        os.close(home)


def unshare() -> None:
    """Move this thread into a new namespace.

    Raises:
        OSError: If that is not permitted.
    """
    _must(_libc.unshare(_CLONE_NEWNET))


def _must(result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
