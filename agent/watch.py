"""Watches files of algorithms and reloads what was saved: `ccp run --reload`.

It looks at the time of change ten times a second, which works with every editor and file system and costs a
system call a file. What changed is read when it has stood still from one look to the next.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from functools import partial
from typing import Final

from agent.changes import Reloaded
from agent.plane import Plane
from agent.reload import Loader
from agent.source import read
from datapath.errors import CcpError, UsageError

log = logging.getLogger("ccplane.agent")

LOOK_S: Final = 0.1
"""How often the files are looked at [s]."""

Stamp = tuple[int, int, int] | None
"""Time of change, size and inode of a file; None while it is not there."""

Told = Callable[[str, Reloaded | CcpError], None]
"""Is told what a file's saving came to: name of the algorithm, what was done or what is wrong."""


class Watcher:
    """Reloads algorithms when their files change."""

    def __init__(self, plane: Plane, loader: Loader, told: Told, look_s: float = LOOK_S) -> None:
        """Take note of the files.

        Args:
            plane: Where the algorithms run.
            loader: Reloads them.
            told: Is told what came of it, on the loader's thread.
            look_s: How often to look [s].

        Raises:
            UsageError: `reload.no_file`, if no algorithm has one; `reload.not_readable`, if one cannot be
                read now, because it could not be read later either.
        """
        self._loader = loader
        self._told = told
        self._look_s = look_s
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="ccp-watch", daemon=True)
        self._files: dict[str, list[str]] = {}
        for host in plane.hosts.values():
            if host.version.has_file:
                read(host.version.file)
                self._files.setdefault(host.version.file, []).append(host.name)
        if not self._files:
            raise UsageError(
                "reload.no_file",
                "there is no file to watch",
                where="--reload",
                fix="run an algorithm from a file",
            )
        self._seen = {file: _stamp(file) for file in self._files}

    @property
    def files(self) -> list[str]:
        """The files that are watched."""
        return list(self._files)

    def start(self) -> None:
        """Start watching."""
        self._thread.start()

    def close(self) -> None:
        """Stop watching."""
        self._done.set()

    def _watch(self) -> None:
        before = dict(self._seen)
        while not self._done.wait(self._look_s):
            for file in self._files:
                now = _stamp(file)
                if now is not None and now == before[file] and now != self._seen[file]:
                    self._seen[file] = now
                    self._loader.submit(partial(self._reload, file))
                before[file] = now

    def _reload(self, file: str) -> None:
        for name in self._files[file]:
            try:
                done = self._loader.reload(name)
            except CcpError as error:
                self._told(name, error)
            else:
                if done.old_sha256 != done.new_sha256:
                    self._told(name, done)


def _stamp(file: str) -> Stamp:
    try:
        found = os.stat(file)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
