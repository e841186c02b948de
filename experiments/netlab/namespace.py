"""Network namespaces: make, enter, list and remove them.

A namespace is entered by a thread that lives for one call: `setns(2)` changes the calling thread only, so the
rest of the process stays where it is. Forking instead (as `pyroute2` does by itself) is not safe in a process
with threads, and Python warns about it from 3.12 on.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, TypeVar

from pyroute2 import netns

from experiments.netlab.errors import from_kernel
from experiments.netlab.names import host_of

DIRECTORY: Final = Path(netns.NETNS_RUN_DIR)
"""Where namespaces have their names, for us and for `ip netns`."""

_CLONE_NEWNET: Final = 0x40000000  # <linux/sched.h>
_libc: Final = ctypes.CDLL(None, use_errno=True)  # os.setns and os.unshare come with Python 3.12
_T = TypeVar("_T")


def path_of(name: str) -> Path:
    """Return the file that stands for a namespace."""
    return DIRECTORY / name


def names() -> list[str]:
    """Return the names of all namespaces of this machine, the lab's and others."""
    try:
        return sorted(os.listdir(DIRECTORY))
    except FileNotFoundError:
        return []


def create(name: str) -> None:
    """Make a namespace.

    Raises:
        LabError: `lab.not_permitted` or `lab.kernel_refused`.
    """

    def make() -> None:
        _must(_libc.unshare(_CLONE_NEWNET))
        netns.attach(name, "thread-self")

    try:
        _in_thread(make)
    except OSError as error:
        raise from_kernel(error, "make a network namespace", f"host {host_of(name)}") from error


def remove(name: str) -> None:
    """Remove a namespace's name; nothing if it is not there.

    The namespace itself goes with the last process and socket in it.

    Raises:
        LabError: `lab.not_permitted` or `lab.kernel_refused`.
    """
    try:
        netns.remove(name)
    except FileNotFoundError:
        return
    except OSError as error:
        raise from_kernel(error, "remove a network namespace", f"namespace {name}") from error


def call_inside(name: str, function: Callable[[], _T]) -> _T:
    """Return what a function returns that runs, in a thread of its own, inside a namespace.

    Args:
        name: The namespace.
        function: What to run. Sockets that it opens, and files that it opens under /proc/sys/net, belong to
            the namespace.

    Raises:
        LabError: `lab.kernel_refused`, if the namespace cannot be entered.
    """

    def enter_and_call() -> _T:
        try:
            file = os.open(path_of(name), os.O_RDONLY | os.O_CLOEXEC)
            try:
                _must(_libc.setns(file, _CLONE_NEWNET))
            finally:
                os.close(file)
        except OSError as error:
            raise from_kernel(error, "enter a network namespace", f"host {host_of(name)}") from error
        return function()

    return _in_thread(enter_and_call)


def processes_inside(names: set[str]) -> dict[str, list[int]]:
    """Return the processes that are in some namespaces.

    Args:
        names: The namespaces to look into.

    Returns:
        Namespace -> process numbers, ascending; namespaces without processes are left out.
    """
    by_inode: dict[tuple[int, int], str] = {}
    for name in names:
        with contextlib.suppress(OSError):
            status = os.stat(path_of(name))
            by_inode[status.st_dev, status.st_ino] = name
    found: dict[str, list[int]] = {}
    for pid in sorted(int(entry) for entry in os.listdir("/proc") if entry.isdigit()):
        try:
            status = os.stat(f"/proc/{pid}/ns/net")
        except OSError:  # gone meanwhile, or another user's
            continue
        inside = by_inode.get((status.st_dev, status.st_ino))
        if inside is not None:
            found.setdefault(inside, []).append(pid)
    return found


def _in_thread(function: Callable[[], _T]) -> _T:
    # The pool waits for its thread also when Ctrl-C comes in between: nothing is half made afterwards.
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="netns") as pool:
        return pool.submit(function).result()


def _must(result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
