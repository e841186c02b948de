"""Trials of new versions: started on the loader's thread, evaluated and ended on the agent's thread."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from ccplane.agent.agent_loop import AgentLoop
from ccplane.agent.algorithms import Running
from ccplane.agent.canary.assignment import Share
from ccplane.agent.canary.trial import ENOUGH_FLOWS, Trial
from ccplane.agent.candidate import Candidate
from ccplane.agent.events import Event
from ccplane.agent.reload import Loader
from ccplane.agent.source import Past, Source
from ccplane.base.clock import now_s
from ccplane.base.errors import CcpError, UsageError

log = logging.getLogger("ccplane.agent")

Row = dict[str, Any]

WIDENED: Final = "widened"
TAKEN_BACK: Final = "taken back"
ENDS: Final = {WIDENED: "canary:widened", TAKEN_BACK: "canary:taken_back"}
"""Outcome of a trial -> its event."""

SECONDS: Final = 60.0
"""Default duration of a trial [s]."""


class Canaries:
    """The trials of an agent.

    Attributes:
        ended: Result of the last trial of each algorithm: the row of `Trial.as_row`, `outcome` (`widened` or
            `taken back`), and `why`.
    """

    def __init__(self, agent_loop: AgentLoop, loader: Loader, clock: Callable[[], float] = now_s) -> None:
        self.ended: dict[str, Row] = {}
        self._loop = agent_loop
        self._loader = loader
        self._clock = clock
        self._candidates: dict[str, Candidate] = {}
        self._widening: set[str] = set()
        agent_loop.each_turn.append(self.turn)
        agent_loop.events.listen(self._received)

    # On the loader's thread

    def start(
        self, source: Source, share: Share, seconds: float = SECONDS, name: str = "", class_name: str = ""
    ) -> Row:
        """Put a new version of a running algorithm on trial.

        Args:
            source: Its source.
            share: Share of new flows.
            seconds: Duration of the trial [s].
            name: The algorithm; by default as in `Loader.load`.
            class_name: Its class, if the source defines several algorithms.

        Returns:
            State of the trial, with `old_sha256` and `new_sha256`.

        Raises:
            CcpError: What is wrong; nothing has changed then.
        """
        name, candidate = self._loader.candidate(source, name, class_name)
        trial = Trial(name, share, seconds, self._clock())
        running = Running(candidate.algorithm, trial.name, candidate.programs, next(iter(candidate.programs)))
        try:
            with self._loader.changing(name):
                row = self._loader.on_agent(partial(self._begin, trial, running, candidate))
        except BaseException:
            candidate.drop()
            raise
        self._loader.judged(name, self._loop.hosts[name].past, "")
        return row

    def _widen(self, trial: Trial) -> None:
        candidate = self._candidates[trial.algorithm]
        try:
            self._loader.take_over(trial.algorithm, candidate)
        except CcpError as error:
            why = f"it could not take over: {error}"
            self._loader.on_agent(partial(self._take_back, trial, why))
        else:
            self._loader.on_agent(partial(self._widened, trial))
            self._loader.judged(trial.algorithm, Past.of(candidate.algorithm, candidate.version), "")

    # On the agent's thread

    def turn(self) -> None:
        """Evaluate trials that are due, and end trials that are decided."""
        if not self._loop.trials:
            return
        now_s = self._clock()
        for trial in [one for one in self._loop.trials.values() if one.due(now_s)]:
            if trial.algorithm in self._widening:
                continue
            self._loop.datapath.heartbeat()  # with many flows an evaluation takes a while
            look = trial.look(self._loop.datapath.stats, now_s)
            if look.worse:
                self._take_back(trial, look.worse)
            elif trial.over(now_s) and look.flows >= ENOUGH_FLOWS:
                self.widen(trial.algorithm)
            elif trial.over(now_s):
                self._take_back(
                    trial, f"undecided: {look.flows} flows compared, at least {ENOUGH_FLOWS} needed"
                )

    def rows(self) -> list[Row]:
        """Return the states of running trials, and for other algorithms the results of their last trials."""
        now_s = self._clock()
        running = [
            {**trial.as_row(now_s), "outcome": None, "why": ""} for trial in self._loop.trials.values()
        ]
        return running + [row for name, row in self.ended.items() if name not in self._loop.trials]

    def widen(self, name: str) -> Row:
        """Start moving all flows to the version on trial.

        Raises:
            UsageError: `canary.none`.
        """
        trial = self._trial(name)
        if name not in self._widening:
            self._widening.add(name)
            self._loader.submit(partial(self._widen, trial))
        return trial.as_row(self._clock())

    def take_back(self, name: str, why: str = "requested") -> Row:
        """Return the flows of the version on trial to the previous version.

        Raises:
            UsageError: `canary.none`.
        """
        trial = self._trial(name)
        self._take_back(trial, why)
        return self.ended[name]

    def _trial(self, name: str) -> Trial:
        try:
            return self._loop.trials[name]
        except KeyError:
            raise UsageError(
                "canary.none",
                f"no version of `{name}` is on trial",
                fix=f"start a trial: ccp canary start {name} --share 5%",
            ) from None

    def _begin(self, trial: Trial, running: Running, candidate: Candidate) -> Row:
        agent_loop, name = self._loop, trial.algorithm
        agent_loop.changes.add_alongside(name, running, candidate.version)
        agent_loop.trials[name] = trial
        self._candidates[name] = candidate
        hashes = {
            "old_sha256": agent_loop.hosts[name].version.sha256,
            "new_sha256": candidate.version.sha256,
        }
        row = {**trial.as_row(self._clock()), **hashes}
        agent_loop.events.emit("canary:started", name, **row)
        return row

    def _take_back(self, trial: Trial, why: str) -> None:
        if self._loop.trials.pop(trial.algorithm, None) is None:
            return
        moved = self._loop.changes.merge(trial.name, into=trial.algorithm)
        candidate = self._end(trial, TAKEN_BACK, why, moved)
        log.warning("took back the new version of %s: %s", trial.algorithm, why)
        good = self._loop.hosts[trial.algorithm].past
        self._loader.submit(
            lambda: self._loader.judged(trial.algorithm, good, candidate.version.sha256)
        ).add_done_callback(lambda _: candidate.drop())

    def _widened(self, trial: Trial) -> None:
        del self._loop.trials[trial.algorithm]
        moved = self._loop.changes.merge(trial.name, into=trial.algorithm)
        self._end(trial, WIDENED, "no worse than the previous version", moved)

    def _end(self, trial: Trial, outcome: str, why: str, moved: int) -> Candidate:
        name = trial.algorithm
        self._widening.discard(name)
        row = {**trial.as_row(self._clock()), "outcome": outcome, "why": why}
        self.ended[name] = row
        self._loop.events.emit(ENDS[outcome], name, **row, moved=moved)
        return self._candidates.pop(name)

    def _received(self, event: Event) -> None:
        if event.kind != "flow:failed":
            return
        for trial in self._loop.trials.values():
            if event.algorithm == trial.name and not trial.failed:
                where = f" ({event.detail['where']})" if event.detail["where"] else ""
                trial.failed = f"{event.detail['callback']} raised {event.detail['error']}{where}"
