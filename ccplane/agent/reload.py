"""Live editing: a changed algorithm is prepared on the loader's thread and swapped in on the agent's thread.

Importing, compiling, verifying and checking a candidate does not affect flows. Only the swap itself, tens of
microseconds per flow, runs on the agent's thread. A rollback has a thread of its own: it does not wait for
candidates, and candidates of the same algorithm that were submitted before it change nothing.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import CancelledError, Future
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue
from typing import Final, TypeVar

from ccp_algs.siblings import sha256
from ccplane.agent.agent_loop import AgentLoop
from ccplane.agent.algorithms import Running
from ccplane.agent.blame import is_from_outside
from ccplane.agent.candidate import Candidate, again, check_takeover, drop_module, package_for, prepare
from ccplane.agent.candidate_process import too_slow, try_out
from ccplane.agent.changes import Reloaded
from ccplane.agent.deadline import TooSlow, within
from ccplane.agent.files import Files
from ccplane.agent.hosts import Host
from ccplane.agent.locate import shown
from ccplane.agent.names import check as check_cc_name
from ccplane.agent.names import derived, unknown_algorithm
from ccplane.agent.source import Past, Source, Version, read
from ccplane.agent.swap import successor
from ccplane.base.errors import CcpError, UsageError
from ccplane.datapath.protocol import Compile, Program

log = logging.getLogger("ccplane.agent")

T = TypeVar("T")

PASTS: Final = 5
"""Maximum earlier versions of an algorithm that are kept for rollback."""

Judged = Callable[[str, Past, str], None]
"""Takes an algorithm's name, a version known to be good, and the hash of a condemned version or `""`."""

PREPARE_S: Final = 10.0
"""Time limit for importing and checking a candidate [s]."""


def _work(jobs: SimpleQueue[Callable[[], None] | None]) -> None:
    while (job := jobs.get()) is not None:
        job()


class _Submitted(threading.local):
    """The job of this thread.

    Attributes:
        rollbacks: Number of rollbacks by algorithm when the job was submitted; None without a job.
    """

    rollbacks: Counter[str] | None = None


class Loader:
    """Loads and reloads algorithms of a running agent loop, one at a time.

    `submit` may be called from any thread; `start` and `close` belong to the owner, and all other methods run
    on the loader's threads.

    Attributes:
        files: Reads files of algorithms.
        tried: Files of the last candidate of an algorithm, by name, whether it took over or not; see
            `ccp_algs.siblings.Package.seen`.
        pasts: Earlier versions by algorithm, the latest last.
        judged: Called with good and condemned versions.
    """

    def __init__(
        self,
        agent_loop: AgentLoop,
        compile_program: Compile[Program],
        prepare_s: float = PREPARE_S,
        files: Files | None = None,
    ) -> None:
        """Prepare; `start` starts the thread.

        Args:
            agent_loop: The agent loop.
            compile_program: The compiler.
            prepare_s: Time limit for importing and checking a candidate [s].
            files: Reads files of algorithms; None reads them with the process's permissions.
        """
        self.files = files or Files()
        self.tried: dict[str, Mapping[str, str | None]] = {}
        self.pasts: dict[str, list[Past]] = {}
        self.judged: Judged = lambda name, good, condemned: None
        self._loop = agent_loop
        self._compile = compile_program
        self._prepare_s = prepare_s
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._overtaking: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._closed = threading.Event()
        # Both threads exist from the start, so that they have the agent's capabilities.
        self._threads = [
            threading.Thread(target=_work, args=[self._jobs], name="ccp-loader", daemon=True),
            threading.Thread(target=_work, args=[self._overtaking], name="ccp-rollback", daemon=True),
        ]
        self._lock = threading.RLock()  # of takeovers
        self._rollbacks: Counter[str] = Counter()
        self._submitted = _Submitted()

    def start(self) -> None:
        """Start the threads."""
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Cancel waiting jobs and accept no more; does not wait for current jobs."""
        self._closed.set()
        self._jobs.put(None)
        self._overtaking.put(None)

    def submit(self, job: Callable[[], T], *, overtakes: bool = False) -> Future[T]:
        """Run a job on a thread of the loader; the future has its result or exception.

        Args:
            job: The job.
            overtakes: Whether it does not wait for other jobs; only `rollback` may do so.
        """
        future: Future[T] = Future()
        rollbacks = self._rollbacks.copy()

        def run() -> None:
            if self._closed.is_set() or not future.set_running_or_notify_cancel():
                future.cancel()
                return
            self._submitted.rollbacks = rollbacks
            try:
                future.set_result(job())
            except BaseException as error:
                future.set_exception(error)

        (self._overtaking if overtakes else self._jobs).put(run)
        return future

    # On the loader's threads

    def reload(self, name: str, file: str = "") -> Reloaded:
        """Read the files of a running algorithm again, and switch to the new version.

        Args:
            name: Name of the algorithm.
            file: Its file; by default the file of the running version.

        Returns:
            What was done: nothing, if neither the file nor a module imported from its directory changed.

        Raises:
            CcpError: What is wrong; the previous version then keeps running.
        """
        version = self._loop.changes.host(name).version
        source = self.source_of(name, file)
        if version.file == source.file and self._is_unchanged(version, source):
            return Reloaded(name, version.sha256, version.sha256, 0, {}, ["the source has not changed"])
        return self.load(source, name, version.class_name)

    def source_of(self, name: str, file: str = "") -> Source:
        """Read the file of a running algorithm.

        Raises:
            UsageError: `algorithm.unknown`, `reload.no_file` or `reload.not_readable`.
        """
        file = file or self._loop.changes.host(name).version.file
        if not file or file.startswith("<"):
            raise UsageError(
                "reload.no_file",
                f"the source of `{name}` is not in a file",
                where=file,
                fix="load the new source as text, with Client.load",
            )
        return read(file, self.files.read)

    def _is_unchanged(self, version: Version, source: Source) -> bool:
        others = {path: known for path, known in dict(version.sources).items() if path != source.file}
        try:
            return version.sources.get(source.file) == source.sha256 and all(
                self.hash_of(path) == known for path, known in others.items()
            )
        except (OSError, SyntaxError):
            return False  # the import reports the error

    def hash_of(self, file: str) -> str | None:
        """Return the current hash of a file, None if it does not exist; raises what reading raises."""
        text = self.files.read(Path(file))
        return None if text is None else sha256(text)

    def load(self, source: Source, name: str = "", class_name: str = "") -> Reloaded:
        """Load an algorithm: as the new version of the running algorithm with its name, or in addition.

        Args:
            source: Its source.
            name: Its name; by default the name of the algorithm from the same file, else the name in the
                source.
            class_name: Its class, if the source defines several algorithms.

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
        """Do all checks of `load`, including verification by the datapath, without changing anything.

        Returns:
            What `load` would do.

        Raises:
            CcpError: What is wrong.
        """
        name, class_name = self._meant(source, name, class_name)
        candidate, host = self._prepared(source, name, class_name)
        try:
            programs = successor(candidate, name or candidate.name, self._loop.datapath, host).programs
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
        """Import and check a new version of a running algorithm.

        Args:
            source: Its source.
            name: The algorithm; by default as in `load`.
            class_name: Its class, if the source defines several algorithms.

        Returns:
            Name of the algorithm, and the version, which the caller then owns.

        Raises:
            CcpError: What is wrong; nothing has changed then.
        """
        name, class_name = self._meant(source, name, class_name)
        candidate, host = self._prepared(source, name, class_name)
        if host is None:
            candidate.drop()
            raise unknown_algorithm(name or candidate.name, list(self._loop.hosts), "")
        return host.name, candidate

    def _not_on_trial(self, name: str) -> None:
        if name in self._loop.trials:
            raise UsageError(
                "canary.runs",
                f"a new version of `{name}` is already on trial",
                why="an algorithm can have only one trial at a time",
                fix=f"wait until the trial ends, or run ccp canary abort {name} or ccp canary promote {name}",
            )

    def rollback(self, name: str) -> Reloaded:
        """Return a running algorithm to its previous version; all its flows start afresh.

        Raises:
            UsageError: `rollback.nothing`, if there is no earlier version; `canary.runs`.
            CcpError: What is wrong with the earlier version; the current one then keeps running.
        """
        with self._lock:
            host = self._loop.changes.host(name)
            self._not_on_trial(name)
            pasts = self.pasts.get(name, [])
            if not pasts:
                raise UsageError(
                    "rollback.nothing",
                    f"`{name}` has no earlier version",
                    why="the agent can only return to versions that it replaced since its start",
                    fix="fix the source, and reload it",
                )
            condemned, past = host.version.sha256, pasts[-1]
            try:
                candidate = within(self._prepare_s, lambda: again(past, name, self._compile))
            except TooSlow:
                raise too_slow(Source("", past.file), self._prepare_s) from None
            done = self.take_over(name, candidate, fresh=True)
            pasts.pop()
            self._rollbacks[name] += 1
            self.judged(name, past, condemned)
            return done

    @contextmanager
    def changing(self, name: str) -> Iterator[None]:
        """Keep rollbacks out while a new version of an algorithm takes over.

        Raises:
            UsageError: `reload.rolled_back`, if there was one since the current job was submitted.
        """
        with self._lock:
            submitted = self._submitted.rollbacks
            if submitted is not None and submitted[name] != self._rollbacks[name]:
                raise UsageError(
                    "reload.rolled_back",
                    f"`{name}` was rolled back while this version was loaded",
                    why="a rollback cancels the loading of versions that were submitted before it",
                    fix="load the version again, if it should run",
                )
            yield

    def _meant(self, source: Source, name: str, class_name: str) -> tuple[str, str]:
        """Return the name and the class for loading a source."""
        if not name:
            same_file = [one for one in self._loop.hosts.values() if one.version.file == source.file]
            if source.has_file and len(same_file) == 1:
                name, class_name = same_file[0].name, class_name or same_file[0].version.class_name
        return name, class_name

    def _load(self, source: Source, name: str, class_name: str) -> Reloaded:
        candidate, host = self._prepared(source, name, class_name)
        try:
            if host is None:
                return self._add(replace(candidate, name=name or candidate.name))
            with self.changing(host.name):
                return self.take_over(host.name, candidate)
        except BaseException:
            candidate.drop()
            raise

    def _prepared(self, source: Source, name: str, class_name: str) -> tuple[Candidate, Host | None]:
        """Return an imported and checked candidate, and the algorithm that it would replace."""
        self.try_out(source, name, class_name)
        package = package_for(source, self.files.read)
        self.tried[name] = package.seen

        def prepared() -> tuple[Candidate, Host | None]:
            candidate = prepare(source, self._compile, class_name, package)
            host = self._loop.hosts.get(name or candidate.name)
            try:
                if host is not None:
                    self._not_on_trial(host.name)
                    check_takeover(host.algorithm, candidate)
            except BaseException:
                candidate.drop()
                raise
            return candidate, host

        try:
            return within(self._prepare_s, prepared)
        except TooSlow:
            raise too_slow(source, self._prepare_s) from None

    def try_out(self, source: Source, name: str, class_name: str) -> None:
        """Check a candidate in a process that can be killed, before its code runs in this process.

        Args:
            source: Its source.
            name: The running algorithm that it may replace; by default the one with its own name.
            class_name: Its class, if the source defines several algorithms.

        Raises:
            CcpError: What is wrong with the candidate, or `reload.too_slow`.
        """
        seen: dict[str, str | None] = {source.file: source.sha256}
        self.tried[name] = seen

        def read_text(path: Path) -> str | None:
            text = self.files.read(path)
            seen[str(path)] = None if text is None else sha256(text)
            return text

        def running(own_name: str) -> Past | None:
            host = self._loop.hosts.get(name or own_name)
            return None if host is None else host.past

        try_out(source, class_name, self._prepare_s, read_text, running)

    def take_over(self, name: str, candidate: Candidate, *, fresh: bool = False) -> Reloaded:
        """Switch all flows of an algorithm to a checked version.

        Args:
            name: A running algorithm.
            candidate: The version.
            fresh: Whether flows start afresh; the replaced version is then not kept for rollback.

        Raises:
            CcpError: What the version raises; the previous version then keeps running.
        """
        with self._lock:
            host = self._loop.hosts[name]
            after = successor(candidate, name, self._loop.datapath, host)
            before, past = host.algorithm, host.past
            done = self.on_agent(lambda: self._loop.changes.reload(name, after, fresh=fresh))
            drop_module(before)
            if not fresh:
                pasts = self.pasts.setdefault(name, [])
                pasts.append(past)
                del pasts[:-PASTS]
            return done

    def _add(self, candidate: Candidate) -> Reloaded:
        name, changes = candidate.name, self._loop.changes
        cc_name = derived(name)
        check_cc_name(cc_name, f"algorithm {name}")
        running = Running(
            candidate.algorithm, name, candidate.programs, next(iter(candidate.programs)), cc_name
        )
        version = candidate.version
        self.on_agent(lambda: changes.add(running, version))
        try:
            # Not on the agent's thread: verification of the congestion control's hooks takes long.
            self._loop.datapath.register(cc_name, running.needs_ecn)
        except BaseException:
            self.on_agent(lambda: changes.remove(name))
            raise
        return Reloaded(name, "", version.sha256, 0, dict.fromkeys(candidate.programs, "new"), [])

    def replace_program(self, algorithm: str, name: str, text: str) -> int:
        """Compile a fold program, and replace one of a running algorithm; return the number of flows.

        Raises:
            CcpError: What is wrong; flows then keep their current program.
        """
        changes = self._loop.changes
        changes.host(algorithm)
        program = self._compile(text, name, f"<{algorithm}/{name}>", 1)
        return self.on_agent(lambda: changes.replace_program(algorithm, name, program))

    def on_agent(self, what: Callable[[], T]) -> T:
        """Call a function on the agent's thread, and wait for its result.

        Raises:
            Exception: What the function raises.
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

        self._loop.call(run)
        while True:
            try:
                return future.result(timeout=0.2)
            except TimeoutError:
                if future.done() or not self._closed.is_set():
                    continue
                raise CancelledError from None

    def _refused(self, source: Source, name: str, error: CcpError) -> None:
        host = self._loop.hosts.get(name)
        old = "" if host is None else host.version.sha256
        if host is not None:
            with self._lock:
                self.judged(name, host.past, "")
        text = str(error)
        log.info("refused the new version of %s: %s", shown(source.file), text)
        self._loop.call(
            lambda: self._loop.events.emit(
                "algorithm:refused",
                name,
                file=source.file,
                old_sha256=old,
                new_sha256=source.sha256,
                error=error.as_dict(),
            )
        )
