"""Watches files of algorithms and reloads what was saved: `ccp run --reload`.

It looks at the time of change ten times a second, which works with every editor and file system and costs a
system call a file. What changed is read when it has stood still from one look to the next.

Watched are the algorithm's file, those beside it that it imports, and places where an import looked in vain:
a new version that was refused because of another file is tried again when that one is repaired.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final

from ccplane.agent.changes import Reloaded
from ccplane.agent.files import Stamp
from ccplane.agent.plane import Plane
from ccplane.agent.reload import Loader
from ccplane.agent.source import read
from ccplane.base.errors import CcpError, UsageError

log = logging.getLogger("ccplane.agent")

LOOK_S: Final = 0.1
"""How often the files are looked at [s]."""

Told = Callable[[str, Reloaded | CcpError], None]
"""Is told what a file's saving came to: name of the algorithm, what was done or what is wrong."""


class Watcher:
    """Reloads algorithms when their files change."""

    def __init__(self, plane: Plane, loader: Loader, told: Told, look_s: float = LOOK_S) -> None:
        """Take note of the files.

        Args:
            plane: Where the algorithms run.
            loader: Reloads them, and reads their files.
            told: Is told what came of it, on the loader's thread.
            look_s: How often to look [s].

        Raises:
            UsageError: `reload.no_file`, if no algorithm has one; `reload.not_readable`, if one cannot be
                read now, because it could not be read later either.
        """
        self._plane = plane
        self._loader = loader
        self._told = told
        self._look_s = look_s
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="ccp-watch", daemon=True)
        self._own: dict[str, str] = {}
        for host in plane.hosts.values():
            if host.version.has_file:
                read(host.version.file, loader.files.read)
                self._own[host.name] = host.version.file
        if not self._own:
            raise UsageError(
                "reload.no_file",
                "there is no file to watch",
                where="--reload",
                fix="run an algorithm from a file",
            )
        self._reloaded: dict[str, dict[str, Stamp]] = {name: {} for name in self._own}
        for name, stamps in self._look().items():
            self._changed(name, stamps)  # notes those that are as they were imported

    @property
    def files(self) -> list[str]:
        """The files that are watched, those that do not exist included."""
        return sorted({file for name in self._own for file in self._watched(name)})

    def start(self) -> None:
        """Start watching."""
        self._thread.start()

    def close(self) -> None:
        """Stop watching."""
        self._done.set()

    def _known(self, name: str) -> dict[str, str | None]:
        """Return the hashes of the files that the running version, and the last one tried, were made of."""
        host = self._plane.hosts.get(name)
        running = {} if host is None else dict(host.version.sources)
        return {**running, **dict(self._loader.tried.get(name, {}))}

    def _watched(self, name: str) -> set[str]:
        files = {self._own[name], *self._known(name)}
        return {file for file in files if not file.startswith("<")}  # a text came without one

    def _look(self) -> dict[str, dict[str, Stamp]]:
        """Return the stamps of all files of each algorithm."""
        watched = {name: self._watched(name) for name in self._own}
        stamps = self._loader.files.stamps(set().union(*watched.values()))
        return {name: {file: stamps.get(file) for file in files} for name, files in watched.items()}

    def _watch(self) -> None:
        before = dict(self._reloaded)
        while not self._done.wait(self._look_s):
            now = self._look()
            for name, stamps in now.items():
                changed = self._changed(name, stamps)
                if changed and stamps == before[name] and self._is_written(name, stamps):
                    self._reloaded[name] = stamps
                    self._loader.submit(partial(self._reload, name))
            before = now

    def _changed(self, name: str, stamps: dict[str, Stamp]) -> bool:
        """Return whether files are others than those of the last reload."""
        reloaded, known = self._reloaded[name], self._known(name)
        for file in stamps.keys() - reloaded.keys():  # imported since; as it is now, or was it saved again?
            with suppress(OSError, SyntaxError):
                if self._loader.hash_of(file) == known.get(file):
                    reloaded[file] = stamps[file]
        return any(file not in reloaded or reloaded[file] != stamp for file, stamp in stamps.items())

    def _is_written(self, name: str, stamps: dict[str, Stamp]) -> bool:
        """Return whether no file is in the middle of being saved: taken away, or emptied to be written."""
        reloaded = self._reloaded[name]
        emptied = any(
            stamp is not None and stamp.size == 0 and stamp != reloaded.get(file)
            for file, stamp in stamps.items()
        )
        return stamps[self._own[name]] is not None and not emptied

    def _reload(self, name: str) -> None:
        try:
            done = self._loader.reload(name, self._own[name])
        except CcpError as error:
            self._told(name, error)
        else:
            if done.old_sha256 != done.new_sha256:
                self._told(name, done)
