"""Players: what a display shows and controls, on any datapath."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial
from queue import SimpleQueue
from typing import Any, Final, Protocol

from ccplane.agent.changes import Reloaded
from ccplane.agent.deadline import deadline
from ccplane.agent.reload import Loader
from ccplane.agent.source import Source
from ccplane.agent.watch import Watcher
from ccplane.base.errors import CcpError
from ccplane.datapath import ebpf
from experiments.play import messages
from experiments.play.messages import Message
from experiments.play.series import INTERVAL_US
from experiments.play.session import Session

CALLBACKS_S: Final = 2.0
"""Time limit for the simulation of one interval, callbacks included [s]."""

MAX_BEHIND_S: Final = 2.0
"""Maximum real time that a simulation makes up for [s]; if it is slower than real time, the rest is lost."""

TURN_S: Final = 0.2
"""Maximum time of one call of `poll` [s], so that keys are answered."""


class Player(Protocol):
    """A running path with flows. All methods belong to one thread."""

    @property
    def over(self) -> bool:
        """Whether the duration has passed."""
        ...

    def state(self) -> Message:
        """Return the state, as `Session.state`."""
        ...

    def source(self) -> str:
        """Return the source text of the algorithm's current version."""
        ...

    def poll(self) -> list[Message]:
        """Return what happened since the last call; do not wait."""
        ...

    def handle(self, message: Mapping[str, Any]) -> list[Message]:
        """Do what a message asks, as `Session.handle`; an edit may be answered by a later `poll`."""
        ...

    def close(self) -> None:
        """End the flows."""
        ...


class SimPlayer:
    """A session in real time, which takes the saved versions of its file."""

    def __init__(self, session: Session) -> None:
        """Begin; the file of the session's algorithm is watched if it has one."""
        self._session = session
        self._arrived: SimpleQueue[Mapping[str, Any] | CcpError] = SimpleQueue()
        self._at_s = time.monotonic()
        self._owed_s = 0.0
        self._watch()

    @property
    def over(self) -> bool:
        """Whether the duration has passed."""
        return self._session.over

    def state(self) -> Message:
        """Return the state."""
        return self._session.state()

    def source(self) -> str:
        """Return the source text of the current version."""
        return self._session.agent_loop.hosts[self._session.name].version.text

    def poll(self) -> list[Message]:
        """Let the time since the last call pass; take versions that were saved."""
        said: list[Message] = []
        while not self._arrived.empty():
            match self._arrived.get():
                case CcpError() as error:
                    said += messages.failure(self._session.t_s, str(error))
                case message:
                    said += self._now(message)
        now_s = time.monotonic()
        self._owed_s = min(self._owed_s + now_s - self._at_s, MAX_BEHIND_S)
        self._at_s = now_s
        step_s = INTERVAL_US / 1e6 / self._session.speed
        while self._owed_s >= step_s and time.monotonic() - now_s < TURN_S:
            self._owed_s -= step_s
            with deadline(CALLBACKS_S):
                said += self._session.advance(step_s)
        return said

    def handle(self, message: Mapping[str, Any]) -> list[Message]:
        """Do what a message asks; sources are first checked in another process."""
        if not isinstance(message.get("source"), str):
            return self._now(message)
        self._loader.submit(partial(self._check, message))
        return []

    def close(self) -> None:
        """End the simulation."""
        self._stop_watching()
        self._session.close()

    def _now(self, message: Mapping[str, Any]) -> list[Message]:
        begins = message.get("type") == "restart"
        if begins:
            self._stop_watching()
        said = self._session.handle(message)
        if begins:
            self._owed_s = 0.0
            self._watch()
        return said

    def _watch(self) -> None:
        agent_loop = self._session.agent_loop
        self._loader = _Checking(self._session, self._arrived)
        self._loader.start()
        self._watcher: Watcher | None = None
        if any(
            host.version.has_file for host in agent_loop.hosts.values() if host.name == self._session.name
        ):
            self._watcher = Watcher(agent_loop, self._loader, self._reported)
            self._watcher.start()

    def _stop_watching(self) -> None:
        self._loader.close()
        if self._watcher is not None:
            self._watcher.close()

    def _reported(self, _name: str, outcome: Reloaded | CcpError) -> None:
        if isinstance(outcome, CcpError):
            self._arrived.put(outcome)

    def _check(self, message: Mapping[str, Any]) -> None:
        version = self._session.agent_loop.hosts[self._session.name].version
        begins = message.get("type") == "restart"
        try:
            source = Source(message["source"], version.file)
            self._loader.try_out(source, "" if begins else self._session.name, version.class_name)
        except CcpError as error:
            self._arrived.put(error)
        else:
            self._arrived.put(message)


class _Checking(Loader):
    """Checks saved versions in a process that can be killed; the session then takes them."""

    def __init__(self, session: Session, arrived: SimpleQueue[Mapping[str, Any] | CcpError]) -> None:
        super().__init__(session.agent_loop, ebpf.compile_program)
        self._arrived = arrived

    def reload(self, name: str, file: str = "") -> Reloaded:
        """Check the saved version; a version that runs already is queued, because it ends an error."""
        done = super().reload(name, file)
        if done.notes:
            self._arrived.put({"type": "edit", "source": self.source_of(name, file).text})
        return done

    def load(self, source: Source, name: str = "", class_name: str = "") -> Reloaded:
        """Check a version, and queue it for the session; raises what is wrong with it."""
        self.try_out(source, name, class_name)
        self._arrived.put({"type": "edit", "source": source.text})
        return Reloaded(name, "", "", 0, {}, [])
