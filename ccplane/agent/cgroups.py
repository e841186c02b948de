"""The cgroups below a cgroup, without reading the tree for each new cgroup of the machine.

inotify(7) reports directories made in the tree. A socket's cgroup exists before the socket, so the report of
this cgroup is already waiting when the flow is looked up. Therefore it is known immediately whether the
cgroup is in the tree, and cgroups elsewhere, which any user can make, cost one system call each.
"""

from __future__ import annotations

import ctypes
import errno
import logging
import os
import struct
import threading
import weakref
from collections import deque
from functools import lru_cache
from pathlib import Path
from typing import Final

log = logging.getLogger("ccplane.agent")

STEPS: Final = 256
"""Maximum directories read per lookup, which takes a few milliseconds; the next lookups read the rest."""

KEPT_IDS: Final = 10_000
"""Ids of removed cgroups that are remembered, because sockets may outlive their cgroup."""

_IN_CREATE: Final = 0x100
_IN_Q_OVERFLOW: Final = 0x4000
_IN_IGNORED: Final = 0x8000
_IN_ONLYDIR: Final = 0x1000000
_EVENT: Final = struct.Struct("iIII")  # struct inotify_event, before the name
_READ_BYTES: Final = 16_384


class CgroupTree:
    """A cgroup and its descendants, identified by id: the inode number of the cgroup's directory.

    The cgroup may be removed and made again, as systemd does with a service's. Thread-safe.
    """

    def __init__(self, path: Path) -> None:
        """Read the tree.

        Raises:
            OSError: If its directories cannot be watched.
        """
        self._path = path
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._inotify = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._inotify < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        weakref.finalize(self, os.close, self._inotify)
        self._lock = threading.Lock()
        self._root = -1
        self._watched: dict[int, tuple[Path, int]] = {}
        self._read: set[int] = set()
        self._inside: set[int] = set()
        self._removed: deque[int] = deque()
        self._to_read: deque[Path] = deque([path])
        self._failed = False
        while self._to_read:
            self._read_one(self._to_read.popleft())

    def __contains__(self, cgroup_id: int) -> bool:
        """Return whether the id belongs to the cgroup or a descendant.

        With more than `STEPS` new directories, the answer may be False for some of them at first.
        """
        with self._lock:
            self._take_events()
            if self._root not in self._read:
                self._to_read.append(self._path)
            for _ in range(STEPS):
                if not self._to_read:
                    break
                try:
                    self._read_one(self._to_read.popleft())
                except OSError as error:
                    if not self._failed:
                        log.error("%s: rules do not match new cgroups below %s", error, self._path)
                    self._failed = True
            return cgroup_id in self._inside

    def _read_one(self, directory: Path) -> None:
        """Watch a directory, and note the directories in it for later."""
        watch = self._libc.inotify_add_watch(self._inotify, os.fsencode(directory), _IN_CREATE | _IN_ONLYDIR)
        if watch < 0:
            if ctypes.get_errno() in (errno.ENOENT, errno.ENOTDIR):
                return  # removed since it was reported
            raise OSError(ctypes.get_errno(), _why(ctypes.get_errno()), str(directory))
        if watch in self._read:
            return
        try:
            cgroup_id = directory.stat().st_ino
            with os.scandir(directory) as entries:
                self._to_read.extend(Path(entry) for entry in entries if entry.is_dir(follow_symlinks=False))
        except FileNotFoundError:
            return
        self._watched[watch] = directory, cgroup_id
        self._read.add(watch)
        self._inside.add(cgroup_id)
        if directory == self._path:
            self._root = watch

    def _take_events(self) -> None:
        try:
            events = os.read(self._inotify, _READ_BYTES)
        except BlockingIOError:
            return
        at = 0
        while at < len(events):
            watch, mask, _, length = _EVENT.unpack_from(events, at)
            name = events[at + _EVENT.size : at + _EVENT.size + length].rstrip(b"\0")
            at += _EVENT.size + length
            if mask & _IN_Q_OVERFLOW:
                self._read.clear()  # reports were lost: the next lookups read the tree again
            elif mask & _IN_IGNORED:
                self._forget(watch)
            elif watch in self._watched:
                self._to_read.append(self._watched[watch][0] / os.fsdecode(name))

    def _forget(self, watch: int) -> None:
        self._read.discard(watch)
        _, cgroup_id = self._watched.pop(watch, (self._path, None))
        if cgroup_id is not None:
            self._removed.append(cgroup_id)
        if len(self._removed) > KEPT_IDS:
            self._inside.discard(self._removed.popleft())


@lru_cache(maxsize=16)
def cgroup_tree(path: Path) -> CgroupTree:
    """Return the tree of a cgroup; rules about the same cgroup share it."""
    return CgroupTree(path)


def _why(number: int) -> str:
    if number == errno.ENOSPC:
        return "too many watched directories: raise fs.inotify.max_user_watches with sysctl"
    return os.strerror(number)
