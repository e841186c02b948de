"""Disturbances of a plant and its network; after each, everything should recover."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from ccplane.agent.runfile import RUN_DIR
from ccplane.base.errors import CcpError, LoadError
from experiments.agent_process import PIN_DIR
from experiments.soak import algorithms, disk
from experiments.soak.draw import Disturbance, Kind
from experiments.soak.network import DEFAULTS, Network
from experiments.soak.plant import MAX_FLOWS, Plant, looks_like_another_build, wait_for

SHIFTS_S: Final = (3600.0, -3600.0, 0.5, -30.0, 86_400.0)


class BrokenError(Exception):
    """The expected effect of a disturbance did not occur."""


@dataclass(slots=True)
class Disturber:
    """Applies disturbances.

    Attributes:
        plant: The programs under test.
        network: Their network.
    """

    plant: Plant
    network: Network

    def do(self, what: Disturbance) -> str:
        """Apply a disturbance; return a short description of its effect.

        Raises:
            BrokenError: If the expected effect did not occur.
        """
        ways: dict[Kind, Callable[[Disturbance], str]] = {
            "agent killed": self._agent_killed,
            "agent stopped": self._agent_stopped,
            "agent stands still": lambda what: self._still("agent", what),
            "upgrade, same build": lambda what: self._upgrade(),
            "upgrade, other programs": lambda what: self._other_build(layout=False),
            "upgrade, other layout": lambda what: self._other_build(layout=True),
            "upgrade, other room": self._other_room,
            "upgrade that fails": self._upgrade_that_fails,
            "broker killed": self._broker_killed,
            "broker stands still": lambda what: self._still("broker", what),
            "receiver killed": self._receiver_killed,
            "receiver stands still": lambda what: self._still("receiver", what),
            "good reload": lambda what: self._good_reload(),
            "bad reload": self._bad_reload,
            "reload that raises": self._reload_that_raises,
            "disk full": self._disk_full,
            "clock steps": self._clock_steps,
            "namespaces vanish": self._vanish,
            "default changes": self._default_changes,
        }
        return ways[what.kind](what)

    # The agent

    def _agent_killed(self, what: Disturbance) -> str:
        self.plant.kill_agent()
        time.sleep(what.lasts_s)
        self.plant.start_agent()
        return self.plant.agent.greeting.partition("; use")[0]

    def _agent_stopped(self, what: Disturbance) -> str:
        words = self.plant.stop_agent()
        time.sleep(what.lasts_s)
        self.plant.start_agent()
        return words.strip()

    def _upgrade(self) -> str:
        old = self.plant.agent
        try:
            self.plant.start_agent(take_over=True)
        except LoadError as error:
            raise BrokenError(f"hand-over failed: {error}") from error
        if old.running:
            raise BrokenError("the old agent keeps running")
        return self.plant.agent.greeting.partition("; use")[0]

    def _other_build(self, *, layout: bool) -> str:
        looks_like_another_build(PIN_DIR, layout=layout)
        return self._upgrade()

    def _other_room(self, what: Disturbance) -> str:
        self.plant.max_flows = MAX_FLOWS[self.plant.max_flows == MAX_FLOWS[0]]
        return f"{self._upgrade()}, max flows {self.plant.max_flows}"

    def _upgrade_that_fails(self, what: Disturbance) -> str:
        """Start a successor that cannot write its files; the old agent must keep its flows."""
        with disk.full([RUN_DIR, self.plant.disk]):
            try:
                self.plant.start_agent(take_over=True)
            except LoadError as error:
                if not self.plant.agent.running:
                    raise BrokenError(f"both the old and the new agent exited: {error}") from error
                return f"refused: {' '.join(str(error).split())[-150:]}"
        return "the new agent started nevertheless"

    def _still(self, who: str, what: Disturbance) -> str:
        pid = self.plant.pids().get(who)
        if pid is None:
            raise BrokenError(f"no {who} is running")
        os.kill(pid, signal.SIGSTOP)
        try:
            time.sleep(what.lasts_s)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        return f"for {what.lasts_s:g} s"

    # The others

    def _broker_killed(self, what: Disturbance) -> str:
        before = self.plant.broker_pid
        self.plant.kill_broker()
        time.sleep(what.lasts_s)
        self._wait("another broker", lambda: self.plant.broker_pid not in (None, before))
        return f"pid {before}, now {self.plant.broker_pid}"

    def _receiver_killed(self, what: Disturbance) -> str:
        self.plant.kill_receiver()
        time.sleep(what.lasts_s)
        self.start_receiver()
        return "another receiver runs"

    def start_receiver(self) -> None:
        """Start a receiver where the first pair's traffic arrives."""
        self.plant.start_receiver(self.network.pairs[0].path.receiver.namespace)

    def _clock_steps(self, what: Disturbance) -> str:
        shift_s = SHIFTS_S[what.which % len(SHIFTS_S)]
        with _stepped(shift_s):
            time.sleep(what.lasts_s)
        return f"by {shift_s:g} s for {what.lasts_s:g} s, and back"

    # Reloads

    def _good_reload(self) -> str:
        self.plant.version += 1
        done = self._load("a good reload", algorithms.good(self.plant.version))
        return f"version {self.plant.version}, {done} flows"

    def _bad_reload(self, what: Disturbance) -> str:
        name, text = algorithms.bad(self.plant.version, what.which)
        try:
            with self.plant.client() as client:
                client.load(text, algorithms.NAME)
        except CcpError as error:
            slugs = [getattr(one, "slug", "") for one in getattr(error, "errors", [error])]
            if any(slug.startswith("control.") for slug in slugs):
                raise BrokenError(f"{name}: the agent did not answer: {error}") from error
            return f"{name}: {', '.join(slugs)}"
        raise BrokenError(f"{name}: the agent accepted it")

    def _reload_that_raises(self, what: Disturbance) -> str:
        self._load("a reload that passes the check", algorithms.raising(self.plant.version))
        time.sleep(max(what.lasts_s, 2.0))
        with self.plant.client() as client:
            failed = client.status()["counters"]["flows_failed"]
        return f"{failed} flows failed so far; {self._good_reload()}"

    def _load(self, what: str, text: str) -> int:
        """Reload; return the number of flows that switched."""
        try:
            with self.plant.client() as client:
                return int(client.load(text, algorithms.NAME)["flows"])
        except CcpError as error:
            raise BrokenError(f"{what} was refused: {error}") from error

    # The machine

    def _disk_full(self, what: Disturbance) -> str:
        with disk.full([RUN_DIR, self.plant.disk]):
            reported = self._good_reload()
            time.sleep(what.lasts_s)
        return f"for {what.lasts_s:g} s; {reported}"

    def _vanish(self, what: Disturbance) -> str:
        cut = bool(what.which % 2)
        reported = self.network.vanish(2.0 + what.lasts_s, what.which, cut=cut)
        if reported["failed"]:
            raise BrokenError(f"connections failed before their namespace vanished: {reported['failures']}")
        how = "link first" if cut else "processes first"
        return f"{reported['open']} connections were open, {how}"

    def _default_changes(self, what: Disturbance) -> str:
        hosts = self.network.hosts()
        host, name = hosts[what.which % len(hosts)], DEFAULTS[what.which // 7 % len(DEFAULTS)]
        host.set_default_congestion(name)
        return f"{host.namespace}: {name}"

    def _wait(self, what: str, look: Callable[[], object]) -> None:
        try:
            wait_for(what, look)
        except TimeoutError as error:
            raise BrokenError(str(error)) from error


@contextlib.contextmanager
def _stepped(seconds: float) -> Iterator[None]:
    began_s, wall_s = time.monotonic(), time.time()
    time.clock_settime(time.CLOCK_REALTIME, wall_s + seconds)
    try:
        yield
    finally:
        time.clock_settime(time.CLOCK_REALTIME, wall_s + time.monotonic() - began_s)
