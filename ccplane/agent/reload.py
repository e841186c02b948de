"""Live editing: a changed algorithm is prepared on a thread of its own and swapped in on the agent's.

While a candidate is imported, compiled, verified and checked, flows go on as if nothing happened. Only the
swap itself, tens of microseconds a flow, takes place on the agent's thread.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError, Future
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue
from typing import Final, TypeVar

from ccp_algs.beside import sha256
from ccplane.agent.algorithms import Running
from ccplane.agent.blame import is_from_outside
from ccplane.agent.candidate import Candidate, again, check_takeover, drop_module, package_for, prepare
from ccplane.agent.changes import Reloaded
from ccplane.agent.deadline import TooSlow, deadline
from ccplane.agent.files import Files
from ccplane.agent.hosts import Host
from ccplane.agent.locate import shown
from ccplane.agent.names import check as check_cc_name
from ccplane.agent.names import derived, unknown_algorithm
from ccplane.agent.plane import Plane
from ccplane.agent.programs import ProgramSet
from ccplane.agent.source import Past, Source, Version, read
from ccplane.agent.swap import Successor
from ccplane.base.errors import CcpError, UsageError
from ccplane.datapath.protocol import Compile, Program

log = logging.getLogger("ccplane.agent")

T = TypeVar("T")

PASTS: Final = 5
"""So many versions of an algorithm can be rolled back."""

Judged = Callable[[str, Past, str], None]
"""Told of an algorithm's version that is known to be good, and of the hash of one that is not, or nothing."""

PREPARE_S: Final = 10.0
"""How long a candidate may take to be imported and checked [s]."""


class Loader:
    """Loads and reloads algorithms of a running plane, one after the other.

    `start` and `close` are for its owner; everything else may be called from any thread, and what returns
    directly from none but the loader's own.

    Attributes:
        files: Reads files of algorithms.
        tried: Files that the last version of an algorithm was to be made of, by name, taken over or not; see
            `ccp_algs.beside.Package.seen`.
        pasts: Versions that ran before, by name, the last one last.
        judged: Is told of a version that is known to be good, and the hash of one that is not.
    """

    def __init__(
        self,
        plane: Plane,
        compile_program: Compile[Program],
        prepare_s: float = PREPARE_S,
        files: Files | None = None,
    ) -> None:
        """Take the plane; `start` starts the thread.

        Args:
            plane: Where algorithms run.
            compile_program: The compiler.
            prepare_s: How long a candidate may take to be imported and checked [s].
            files: Reads files of algorithms; None reads them as we may.
        """
        self.files = files or Files()
        self.tried: dict[str, Mapping[str, str | None]] = {}
        self.pasts: dict[str, list[Past]] = {}
        self.judged: Judged = lambda name, good, condemned: None
        self._plane = plane
        self._compile = compile_program
        self._prepare_s = prepare_s
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._work, name="ccp-loader", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def close(self) -> None:
        """Take no more jobs; those that wait are cancelled. Does not wait for the one at work."""
        self._closed.set()
        self._jobs.put(None)

    def submit(self, job: Callable[[], T]) -> Future[T]:
        """Have something done on the loader's thread; what it raises is in the future."""
        future: Future[T] = Future()

        def run() -> None:
            if self._closed.is_set() or not future.set_running_or_notify_cancel():
                future.cancel()
                return
            try:
                future.set_result(job())
            except BaseException as error:
                future.set_exception(error)

        self._jobs.put(run)
        return future

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()

    # On the loader's thread

    def reload(self, name: str, file: str = "") -> Reloaded:
        """Read the files of a running algorithm again, and let the new version take over.

        Args:
            name: Its name.
            file: Its file; by default the one that the running version came from.

        Returns:
            What was done; nothing, if neither its file nor one beside it that it imports has changed.

        Raises:
            CcpError: What is wrong; the version before goes on then.
        """
        version = self._plane.changes.host(name).version
        source = self.source_of(name, file)
        if version.file == source.file and self._is_unchanged(version, source):
            return Reloaded(name, version.sha256, version.sha256, 0, {}, ["the source has not changed"])
        return self.load(source, name, version.class_name)

    def source_of(self, name: str, file: str = "") -> Source:
        """Read the file of a running algorithm.

        Args:
            name: Its name.
            file: Its file; by default the one that the running version came from.

        Raises:
            UsageError: `algorithm.unknown`, `reload.no_file` or `reload.not_readable`.
        """
        file = file or self._plane.changes.host(name).version.file
        if not file or file.startswith("<"):
            raise UsageError(
                "reload.no_file",
                f"the source of `{name}` is in no file",
                where=file,
                fix="load its new source as text",
            )
        return read(file, self.files.read)

    def _is_unchanged(self, version: Version, source: Source) -> bool:
        others = {path: known for path, known in dict(version.sources).items() if path != source.file}
        try:
            return version.sources.get(source.file) == source.sha256 and all(
                self.hash_of(path) == known for path, known in others.items()
            )
        except (OSError, SyntaxError):
            return False  # the import will say it

    def hash_of(self, file: str) -> str | None:
        """Return the hash of what a file has now, None if it is not there; raises what reading raises."""
        text = self.files.read(Path(file))
        return None if text is None else sha256(text)

    def load(self, source: Source, name: str = "", class_name: str = "") -> Reloaded:
        """Load an algorithm: as the next version of the one that has its name, or beside the others.

        Args:
            source: Its text.
            name: Under which name; by default that of the running algorithm of the same file, else the one
                that it gives itself.
            class_name: Which class, if there are several.

        Returns:
            What was done.

        Raises:
            CcpError: What is wrong; nothing has changed then.
        """
        name, class_name = self._meant(source, name, class_name)
        try:
            return self._load(source, name, class_name)
        except CcpError as error:
            self._refused(source, name, error)
            raise

    def check(self, source: Source, name: str = "", class_name: str = "") -> Reloaded:
        """Do all that `load` does before anything changes; the datapath verifies programs, too.

        Returns:
            What would be done.

        Raises:
            CcpError: What is wrong.
        """
        name, class_name = self._meant(source, name, class_name)
        candidate, host = self._prepared(source, name, class_name)
        try:
            programs = self._installed(candidate, name or candidate.name, host)
            known = () if host is None else [one.name for one in host.programs.all()]
            fates = {
                one.name: "kept" if programs.shares(one.name) else "replaced" if one.name in known else "new"
                for one in programs.all()
            }
            programs.abandon()
        finally:
            candidate.drop()
        before = "" if host is None else host.version.sha256
        return Reloaded(name or candidate.name, before, candidate.version.sha256, 0, fates, [])

    def candidate(self, source: Source, name: str, class_name: str = "") -> tuple[str, Candidate]:
        """Import and check the next version of a running algorithm.

        Args:
            source: Its text.
            name: The algorithm; empty for the one that runs from the same file, or that the text names.
            class_name: Which class, if there are several.

        Returns:
            Name of the algorithm, and the version, which belongs to the caller from now on.

        Raises:
            CcpError: What is wrong; nothing has changed then.
        """
        name, class_name = self._meant(source, name, class_name)
        candidate, host = self._prepared(source, name, class_name)
        if host is None:
            candidate.drop()
            raise unknown_algorithm(name or candidate.name, list(self._plane.hosts), "")
        return host.name, candidate

    def _not_on_trial(self, name: str) -> None:
        if name in self._plane.trials:
            raise UsageError(
                "canary.runs",
                f"a new version of `{name}` is on trial",
                why="one is tried at a time",
                fix=f"wait for its end, or end it: ccp canary abort {name}, or ccp canary promote {name}",
            )

    def rollback(self, name: str) -> Reloaded:
        """Let the version before take over again; all flows start afresh.

        Args:
            name: A running algorithm.

        Returns:
            What was done.

        Raises:
            UsageError: `rollback.nothing`, if no other version ran before; `canary.runs`.
            CcpError: What is wrong with the version before; that of now goes on then.
        """
        host = self._plane.changes.host(name)
        self._not_on_trial(name)
        pasts = self.pasts.get(name, [])
        if not pasts:
            raise UsageError(
                "rollback.nothing",
                f"no other version of `{name}` ran before this one",
                why="an agent knows the versions that it replaced itself",
                fix="repair its source, and reload it",
            )
        condemned, past = host.version.sha256, pasts[-1]
        done = self.take_over(name, again(past, name, self._compile), fresh=True)
        pasts.pop()
        self.judged(name, past, condemned)
        return done

    def _meant(self, source: Source, name: str, class_name: str) -> tuple[str, str]:
        """Return under which name a source is to be loaded, and which class of it."""
        if not name:
            same_file = [one for one in self._plane.hosts.values() if one.version.file == source.file]
            if source.has_file and len(same_file) == 1:
                name, class_name = same_file[0].name, class_name or same_file[0].version.class_name
        return name, class_name

    def _load(self, source: Source, name: str, class_name: str) -> Reloaded:
        candidate, host = self._prepared(source, name, class_name)
        try:
            if host is None:
                return self._add(replace(candidate, name=name or candidate.name))
            return self.take_over(host.name, candidate)
        except BaseException:
            candidate.drop()
            raise

    def _prepared(self, source: Source, name: str, class_name: str) -> tuple[Candidate, Host | None]:
        """Return a candidate that was imported and checked, and what it would take over from."""
        try:
            with deadline(self._prepare_s):
                package = package_for(source, self.files.read)
                self.tried[name] = package.seen
                candidate = prepare(source, self._compile, class_name, package)
                host = self._plane.hosts.get(name or candidate.name)
                try:
                    if host is not None:
                        self._not_on_trial(host.name)
                        check_takeover(host.algorithm, candidate)
                except BaseException:
                    candidate.drop()
                    raise
                return candidate, host
        except TooSlow:
            raise UsageError(
                "reload.too_slow",
                f"{shown(source.file)} is not done with importing and checking after {self._prepare_s:g} s",
                where=shown(source.file),
                why="a loop without end, or work that does not belong into a module's body or a callback",
                fix="repair it; the version before goes on",
            ) from None

    def _installed(self, candidate: Candidate, name: str, host: Host | None) -> ProgramSet:
        """Return a candidate's programs, installed."""
        return ProgramSet(
            name,
            self._plane.datapath,
            candidate.programs,
            next(iter(candidate.programs)),
            None if host is None else host.programs,
            extensions=candidate.algorithm.extensions,
        )

    def take_over(self, name: str, candidate: Candidate, *, fresh: bool = False) -> Reloaded:
        """Let a version that was checked take over all flows of an algorithm.

        Args:
            name: A running algorithm.
            candidate: The version.
            fresh: Flows start afresh, and nobody goes back to the version before.

        Raises:
            CcpError: What the version raises; the version before goes on then.
        """
        host = self._plane.hosts[name]
        programs = self._installed(candidate, name, host)
        after = Successor(candidate.algorithm, programs, candidate.version)
        before, past = host.algorithm, host.past
        done = self.on_agent(lambda: self._plane.changes.reload(name, after, fresh=fresh))
        drop_module(before)
        if not fresh:
            pasts = self.pasts.setdefault(name, [])
            pasts.append(past)
            del pasts[:-PASTS]
        return done

    def _add(self, candidate: Candidate) -> Reloaded:
        name, changes = candidate.name, self._plane.changes
        cc_name = derived(name)
        check_cc_name(cc_name, f"algorithm {name}")
        running = Running(
            candidate.algorithm, name, candidate.programs, next(iter(candidate.programs)), cc_name
        )
        version = candidate.version
        self.on_agent(lambda: changes.add(running, version))
        try:
            # Not on the agent's thread: the kernel verifies all hooks of the new congestion control.
            self._plane.datapath.register(cc_name, running.needs_ecn)
        except BaseException:
            self.on_agent(lambda: changes.remove(name))
            raise
        return Reloaded(name, "", version.sha256, 0, dict.fromkeys(candidate.programs, "new"), [])

    def replace_program(self, algorithm: str, name: str, text: str) -> int:
        """Compile a fold program and replace one of a running algorithm.

        Returns:
            How many flows went over.

        Raises:
            CcpError: What is wrong; flows keep the program that they run then.
        """
        changes = self._plane.changes
        changes.host(algorithm)
        program = self._compile(text, name, f"<{algorithm}/{name}>", 1)
        return self.on_agent(lambda: changes.replace_program(algorithm, name, program))

    def on_agent(self, what: Callable[[], T]) -> T:
        """Have something done on the agent's thread, and wait for it.

        Raises:
            Exception: What it raises.
            CancelledError: If the agent stops meanwhile.
        """
        future: Future[T] = Future()

        def run() -> None:
            try:
                future.set_result(what())
            except BaseException as error:
                if is_from_outside(error):
                    raise
                future.set_exception(error)

        self._plane.call(run)
        while True:
            try:
                return future.result(timeout=0.2)
            except TimeoutError:
                if future.done() or not self._closed.is_set():
                    continue
                raise CancelledError from None

    def _refused(self, source: Source, name: str, error: CcpError) -> None:
        host = self._plane.hosts.get(name)
        old = "" if host is None else host.version.sha256
        if host is not None:
            self.judged(name, host.past, "")
        text = str(error)
        log.info("%s is not taken over: %s", shown(source.file), text)
        self._plane.call(
            lambda: self._plane.events.tell(
                "algorithm:refused",
                name,
                file=source.file,
                old_sha256=old,
                new_sha256=source.sha256,
                error=error.as_dict(),
            )
        )
