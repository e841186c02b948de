"""Watches files of algorithms and reloads changed ones: `ccp run --reload`.

The watcher polls the modification times ten times per second, which works with every editor and file system
and costs one system call per file. A changed file is read once it is unchanged between two polls.

The watcher checks the algorithm's file, the modules imported from its directory, and the paths where an
import found nothing. So if a version was refused because of an imported file, it is tried again when that
file is fixed.
Paths are watched as given: if one of their symbolic links is replaced, the files behind it are new.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final

from ccplane.agent.agent_loop import AgentLoop
from ccplane.agent.changes import Reloaded
from ccplane.agent.files import Stamp
from ccplane.agent.reload import Loader
from ccplane.agent.source import read
from ccplane.base.errors import CcpError, UsageError

log = logging.getLogger("ccplane.agent")

LOOK_S: Final = 0.1
"""Polling interval [s]."""

GONE_LOOKS: Final = 10
"""Consecutive polls without the file after which its absence is reported: editors that save by renaming are
faster."""

Reported = Callable[[str, Reloaded | CcpError], None]
"""Takes the outcome of a reload: name of the algorithm, and result or error."""


class Watcher:
    """Reloads algorithms when their files change."""

    def __init__(
        self, agent_loop: AgentLoop, loader: Loader, reported: Reported, look_s: float = LOOK_S
    ) -> None:
        """Collect the files to watch.

        Args:
            agent_loop: The agent loop.
            loader: Reloads algorithms, and reads their files.
            reported: Takes the outcome of each reload, on the loader's thread.
            look_s: Polling interval [s].

        Raises:
            UsageError: `reload.no_file`, if no algorithm has a file; `reload.not_readable`, if a file cannot
                be read.
        """
        self._loop = agent_loop
        self._loader = loader
        self._reported = reported
        self._look_s = look_s
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="ccp-watch", daemon=True)
        self._own: dict[str, str] = {}
        for host in agent_loop.hosts.values():
            if host.version.has_file:
                read(host.version.file, loader.files.read)
                self._own[host.name] = host.version.file
        if not self._own:
            raise UsageError(
                "reload.no_file",
                "no algorithm has a file to watch",
                where="--reload",
                fix="run an algorithm from a file",
            )
        self._gone = dict.fromkeys(self._own, 0)
        self._reloaded: dict[str, dict[str, Stamp]] = {name: {} for name in self._own}
        for name, stamps in self._look().items():
            self._changed(name, stamps)  # stores the stamps of files that are as imported

    @property
    def files(self) -> list[str]:
        """The watched files, including files that do not exist."""
        return sorted({file for name in self._own for file in self._watched(name)})

    def start(self) -> None:
        """Start watching."""
        self._thread.start()

    def close(self) -> None:
        """Stop watching."""
        self._done.set()

    def _known(self, name: str) -> dict[str, str | None]:
        """Return the hashes of the files of the running version and of the last candidate."""
        host = self._loop.hosts.get(name)
        running = {} if host is None else dict(host.version.sources)
        return {**running, **dict(self._loader.tried.get(name, {}))}

    def _watched(self, name: str) -> set[str]:
        files = {self._own[name], *self._known(name)}
        return {file for file in files if not file.startswith("<")}  # "<": text without a file

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
                self._report_gone(name, stamps)
                changed = self._changed(name, stamps)
                if changed and stamps == before[name] and self._is_written(name, stamps):
                    self._reloaded[name] = stamps
                    self._loader.submit(partial(self._reload, name))
            before = now

    def _changed(self, name: str, stamps: dict[str, Stamp]) -> bool:
        """Return whether files have changed since the last reload."""
        reloaded, known = self._reloaded[name], self._known(name)
        for file in stamps.keys() - reloaded.keys():  # imported since, but perhaps changed after the import
            with suppress(OSError, SyntaxError):
                if self._loader.hash_of(file) == known.get(file):
                    reloaded[file] = stamps[file]
        return any(file not in reloaded or reloaded[file] != stamp for file, stamp in stamps.items())

    def _report_gone(self, name: str, stamps: dict[str, Stamp]) -> None:
        """Report once that the algorithm's own file is missing, or that a file can no longer change."""
        own = self._own[name]
        nameless = next(
            (file for file, stamp in stamps.items() if stamp is not None and not stamp.has_name), ""
        )
        self._gone[name] = self._gone[name] + 1 if stamps[own] is None or nameless else 0
        if self._gone[name] != GONE_LOOKS:
            return
        why = "it was removed, or its directory cannot be read"
        fix = "put the file back: `--reload` then continues"
        if nameless:
            why = "it is bind-mounted, and was replaced in the directory from which it is mounted"
            fix = "mount its directory instead of the file, and restart the agent"
        gone = UsageError(
            "reload.file_gone",
            f"a watched file of `{name}` is gone; the running version stays",
            where=nameless or own,
            why=why,
            fix=fix,
        )
        self._loader.submit(partial(self._reported, name, gone))

    def _is_written(self, name: str, stamps: dict[str, Stamp]) -> bool:
        """Return whether no file is being saved, that is, missing or emptied by an editor."""
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
            self._reported(name, error)
        else:
            if done.old_sha256 != done.new_sha256:
                self._reported(name, done)
