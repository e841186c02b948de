"""Network namespaces: create, enter, list and remove them.

A thread that lives for one call enters the namespace, so that the rest of the process stays where it is
(`telemetry.netns`). Forking instead (pyroute2's default) is unsafe in a process with threads; Python 3.12 and
later warn about it.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from pyroute2 import netns

from experiments.netlab.errors import from_kernel
from experiments.netlab.names import host_of
from telemetry.netns import DIRECTORY, enter, unshare
from telemetry.netns import path_of as path_of

_T = TypeVar("_T")


def names() -> list[str]:
    """Return the names of all namespaces of this machine."""
    try:
        return sorted(os.listdir(DIRECTORY))
    except FileNotFoundError:
        return []


def create(name: str) -> None:
    """Create a namespace.

    Raises:
        LabError: `lab.not_permitted` or `lab.kernel_refused`.
    """

    def make() -> None:
        unshare()
        netns.attach(name, "thread-self")

    try:
        _in_thread(make)
    except OSError as error:
        raise from_kernel(error, "create a network namespace", f"host {host_of(name)}") from error


def remove(name: str) -> None:
    """Remove a namespace's name, if it exists.

    The kernel removes the namespace itself with the last process and socket in it.

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
    """Call a function inside a namespace, in a separate thread, and return its result.

    Args:
        name: The namespace.
        function: The function. Sockets that it opens, and files that it opens under /proc/sys/net, belong to
            the namespace.

    Raises:
        LabError: `lab.kernel_refused`, if the namespace cannot be entered.
    """

    def enter_and_call() -> _T:
        try:
            enter(path_of(name))
        except OSError as error:
            raise from_kernel(error, "enter a network namespace", f"host {host_of(name)}") from error
        return function()

    return _in_thread(enter_and_call)


def processes_inside(names: set[str]) -> dict[str, list[int]]:
    """Return the processes in each namespace, pids ascending; omit namespaces without any."""
    by_inode: dict[tuple[int, int], str] = {}
    for name in names:
        with contextlib.suppress(OSError):
            status = os.stat(path_of(name))
            by_inode[status.st_dev, status.st_ino] = name
    found: dict[str, list[int]] = {}
    for pid in sorted(int(entry) for entry in os.listdir("/proc") if entry.isdigit()):
        try:
            status = os.stat(f"/proc/{pid}/ns/net")
        except OSError:  # exited meanwhile, or another user's
            continue
        inside = by_inode.get((status.st_dev, status.st_ino))
        if inside is not None:
            found.setdefault(inside, []).append(pid)
    return found


def _in_thread(function: Callable[[], _T]) -> _T:
    # On Ctrl-C the pool still waits for its thread, so nothing is left half done.
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="netns") as pool:
        return pool.submit(function).result()
