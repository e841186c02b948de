"""Changes while flows run: parameters, fold programs, versions of algorithms, other algorithms.

All of it runs on the agent's thread, between two batches. Each change is made as a whole or not at all, and
told as an event.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ccp_algs import set_params
from ccp_algs.params import Settings
from ccplane.agent import params, swap
from ccplane.agent.algorithms import Running
from ccplane.agent.blame import blamed
from ccplane.agent.candidate import cannot_take_over
from ccplane.agent.flow import FlowControl
from ccplane.agent.hosts import Host, Live, SingleHost, VectorHost
from ccplane.agent.names import duplicate_algorithm, unknown_algorithm
from ccplane.agent.params import Setting
from ccplane.agent.rules import Rule, Which
from ccplane.agent.source import Version
from ccplane.agent.swap import Successor
from ccplane.base.errors import CcpError, Collector, FlowGone, UsageError
from ccplane.datapath.protocol import Program

if TYPE_CHECKING:
    from ccplane.agent.plane import Plane
    from ccplane.agent.programs import Installed

log = logging.getLogger("ccplane.agent")


@dataclass(frozen=True, slots=True)
class Reloaded:
    """What a reload did.

    Attributes:
        algorithm: Name of the algorithm.
        old_sha256: Hash of the source before; empty if it is not known.
        new_sha256: Hash of the source now.
        flows: How many flows went over.
        programs: What became of each fold program: `kept`, `replaced`, `new` or `removed`.
        notes: What does not take effect at once.
        took_us: How long the agent's thread was busy with it [us].
    """

    algorithm: str
    old_sha256: str
    new_sha256: str
    flows: int
    programs: dict[str, str]
    notes: list[str]
    took_us: int = 0


class Changes:
    """The changes of one plane."""

    def __init__(self, plane: Plane) -> None:
        """Take the plane whose flows and algorithms are changed."""
        self._plane = plane
        self._settings: dict[tuple[str, str, str], tuple[Rule, object]] = {}
        self._set = Settings()

    # Parameters

    def tell_params(self) -> None:
        """Tell algorithms of parameters that were set since this was last called, by whomever."""
        if not self._set:
            return
        plane = self._plane
        changed: dict[int, tuple[object, dict[str, int]]] = {}
        for change, target, name in self._set.take():
            changed.setdefault(id(target), (target, {}))[1][name] = change
        host: Host
        of_hosts: dict[Host, dict[str, int]] = {}
        for host in plane.hosts.values():
            for target, theirs in changed.values():
                if issubclass(host.algorithm, target) if isinstance(target, type) else host.owns(target):
                    of_hosts.setdefault(host, {}).update(theirs)
        alone = {
            live: theirs
            for target, theirs in changed.values()
            if not isinstance(target, type) and (live := self._live_of(target)) is not None
        }
        for live, theirs in alone.items():
            both = {**of_hosts.get(live.host, {}), **theirs}
            live.host.tell_params([live], both, plane, plane.breath)
        for host, theirs in of_hosts.items():
            lives = [
                live
                for live in plane.flows.values()
                if live.host is host and not live.failed and live not in alone
            ]
            host.tell_params(lives, theirs, plane, plane.breath)

    def _live_of(self, instance: object) -> Live | None:
        """Return the flow that an instance steers alone."""
        flow = getattr(instance, "flow", None)
        live = self._plane.flows.get(flow.info.flow_id) if isinstance(flow, FlowControl) else None
        return live if live is not None and live.instance is instance and not live.failed else None

    def set_params(self, values: Mapping[str, object], which: Which) -> int:
        """Set parameters.

        Args:
            values: Value, or text that spells it, by `PARAMETER` or `ALGORITHM.PARAMETER`.
            which: For which flows. Without `flow_id` it holds for flows to come, too.

        Returns:
            How many running flows it reached.

        Raises:
            ParamError: If no running algorithm has it, it refuses the value, or the flow is one of many of a
                vectorised algorithm. Nothing has changed then.
            FlowGone: If there is no such flow.
            UsageError: What is wrong with algorithm or rule.
        """
        hosts = {host.name: host for host in self._hosts(which)}
        lives = self.flows(which)
        resolved = params.resolve(values, {name: host.algorithm for name, host in hosts.items()})
        alone = which.flow_id is not None or which.rule is not None
        if alone:
            self._set_alone(resolved, values, which, lives)
        else:
            for settings in resolved.values():
                for one in settings:
                    one.parameter.put(hosts[one.algorithm].algorithm, one.value)
        flow = lives[0].flow.info if which.flow_id is not None else None
        detail = {} if which.rule is None else {"rule": which.rule}
        for name, settings in resolved.items():
            for one in settings:
                self._plane.events.tell(
                    "param:set",
                    one.algorithm,
                    flow,
                    name=one.parameter.name,
                    value=values[name],
                    **detail,
                )
        reached = {one.algorithm for settings in resolved.values() for one in settings}
        return sum(live.host.name in reached for live in lives)

    def _set_alone(
        self,
        resolved: Mapping[str, Sequence[Setting]],
        values: Mapping[str, object],
        which: Which,
        lives: Sequence[Live],
    ) -> None:
        found: list[tuple[Live, Setting]] = []
        problems = Collector()
        for name, settings in resolved.items():
            of = {one.algorithm: one for one in settings}
            with problems.check():
                for live in lives:
                    if live.host.name not in of:
                        continue
                    if live.instance is None:
                        raise params.shared(name, live.host.name)
                    found.append((live, of[live.host.name]))
        problems.finish()
        for live, one in found:
            one.parameter.put(live.instance, one.value)
        rule = which.parsed()
        if rule is None:
            return
        for name, settings in resolved.items():
            for one in settings:
                self._settings[rule.text, one.algorithm, one.parameter.name] = (rule, values[name])
                self._plane.hosts[one.algorithm].settle = self.settle

    def settle(self, live: Live) -> None:
        """Give a new flow, after its instance was made, what was set by rules that it matches."""
        assert live.instance is not None, "rules set nothing for flows that share an instance"
        for (_, algorithm, parameter), (rule, value) in self._settings.items():
            if algorithm == live.host.name and rule.matches(live.flow.info):
                try:
                    set_params(live.instance, {parameter: value})
                except CcpError as error:  # the algorithm was edited since
                    log.warning("a parameter that was set by rule `%s` is not used: %s", rule.text, error)

    # Programs

    def replace_program(self, algorithm: str, name: str, program: Program) -> int:
        """Replace a fold program under the live flows that run it; registers start at their initial values.

        Args:
            algorithm: A running algorithm.
            name: Which of its programs; a new name adds one.
            program: The compiled successor.

        Returns:
            How many flows went over.

        Raises:
            UsageError: If no such algorithm runs.
            VerifierError: If the kernel refuses the successor; the flows keep the program that they run.
        """
        before, after = self.host(algorithm).programs.replace(name, program)
        moved = 0 if before is None else self._move(before, after)
        self._plane.events.tell("program:replaced", algorithm, program=name, flows=moved, uid=program.uid)
        return moved

    def _move(self, before: Installed, after: Installed) -> int:
        theirs = [live.flow for live in self._plane.flows.values() if live.flow.runs(before)]
        return sum(flow.move(after) for flow in theirs)

    # Versions

    def reload(self, name: str, after: Successor, *, fresh: bool = False) -> Reloaded:
        """Let a new version of an algorithm take over all its flows.

        Args:
            name: A running algorithm.
            after: The new version, its programs installed.
            fresh: Flows start afresh instead of going on where the version before was.

        Returns:
            What was done.

        Raises:
            UsageError: If no such algorithm runs.
            CcpError: What the new version raises; the version before goes on with all flows then.
        """
        host = self.host(name)
        before, programs_before = host.version, {one.name: one for one in host.programs.all()}
        lives = [live for live in self._plane.flows.values() if live.host is host]
        notes = []
        if after.algorithm.needs_ecn != host.algorithm.needs_ecn:
            notes.append("needs_ecn takes effect with the next start of the agent")
        begun_ns = time.monotonic_ns()
        flows = swap.reload(host, lives, after, self._plane.breath, fresh=fresh)
        took_us = (time.monotonic_ns() - begun_ns) // 1000
        programs_after = {one.name: one for one in host.programs.all()}
        fates = {
            one: "removed"
            if one not in programs_after
            else "new"
            if one not in programs_before
            else "kept"
            if programs_before[one] is programs_after[one]
            else "replaced"
            for one in {**programs_before, **programs_after}
        }
        done = Reloaded(name, before.sha256, after.version.sha256, flows, fates, notes, took_us)
        self._plane.events.tell(
            "algorithm:reloaded",
            name,
            old_sha256=done.old_sha256,
            new_sha256=done.new_sha256,
            file=after.version.file,
            flows=flows,
            programs=fates,
            notes=notes,
            took_us=took_us,
        )
        return done

    # Algorithms

    def add(self, running: Running, version: Version) -> None:
        """Run one more algorithm; its congestion-control name is to be registered afterwards.

        Raises:
            UsageError: `algorithm.duplicate` or `name.duplicate`.
            VerifierError: If the kernel refuses a program.
        """
        plane = self._plane
        if running.name in plane.hosts:
            raise duplicate_algorithm(running.name)
        for host in plane.hosts.values():
            if running.cc_name and host.cc_name == running.cc_name:
                raise UsageError(
                    "name.duplicate",
                    f"`{host.name}` and `{running.name}` would both be registered as `{running.cc_name}`",
                    fix="load it under another name",
                )
        made = plane.add_host(running)
        made.version = version
        plane.events.tell(
            "algorithm:loaded",
            running.name,
            cc_name=running.cc_name,
            file=made.version.file,
            new_sha256=made.version.sha256,
        )

    def add_beside(self, name: str, running: Running, version: Version) -> None:
        """Run a new version of an algorithm beside it, with what was set for that; no flow gets it by itself.

        Args:
            name: The running algorithm.
            running: The new version, under another name and no congestion-control name.
            version: What it was made of.

        Raises:
            CcpError: As `add`, or if the new version refuses what was set.
        """
        with blamed(version.file, cannot_take_over):
            swap.carry_params(self.host(name).algorithm, running.algorithm)
        self.add(running, version)
        for (text, algorithm, parameter), setting in list(self._settings.items()):
            if algorithm == name:
                self._settings[text, running.name, parameter] = setting
                self._plane.hosts[running.name].settle = self.settle

    def merge(self, name: str, into: str) -> int:
        """Give all flows of an algorithm to another one, as if that had just found them, and end it.

        Where the other one raises, the flows go to the fallback law.

        Returns:
            How many flows it had.
        """
        plane = self._plane
        which = Which(algorithm=name)
        lives = self.flows(which, failed=True)
        try:
            self.switch(into, which)
        except CcpError as error:
            for live in lives:
                live.host = self.host(into)
                plane.fail(live, error, "on_create")
        self.remove(name)
        return len(lives)

    def remove(self, name: str) -> None:
        """Run an algorithm that has no flows no longer."""
        self._plane.remove_host(name)
        self._settings = {key: setting for key, setting in self._settings.items() if key[1] != name}

    def switch(self, algorithm: str, which: Which) -> int:
        """Give flows another running algorithm.

        Args:
            algorithm: The algorithm to be.
            which: Which flows. All of them means those of plain `ccp` to come, too, and a rule holds for
                those to come that it matches.

        Returns:
            How many running flows went over.

        Raises:
            UsageError: If no such algorithm runs, or the rule is wrong.
            FlowGone: If there is no such flow.
            CcpError: What the algorithm raises; nothing has changed then.
        """
        plane = self._plane
        target = self.host(algorithm)
        rule = which.parsed(algorithm)
        lives = [live for live in self.flows(which, failed=True) if live.host is not target]
        former = swap.switch(target, lives, plane.breath)
        for live, host, instance in plane.breath.between(former):
            self._farewell(live, host, instance)
        if rule is not None:
            plane.rules[:] = [rule, *(one for one in plane.rules if one.text != rule.text)]
        elif which.flow_id is None and which.algorithm in (None, plane.default):
            plane.default = algorithm
        plane.events.tell(
            "algorithm:switched",
            algorithm,
            lives[0].flow.info if which.flow_id is not None and lives else None,
            flows=len(lives),
            before=which.algorithm,
            rule=which.rule,
        )
        return len(lives)

    def _farewell(self, live: Live, host: Host, instance: Any) -> None:
        """Tell the algorithm before that the flow is no longer its own."""
        flow_id = live.flow.info.flow_id
        try:
            host.give_away(flow_id, instance, self._plane.datapath.stats(flow_id))
        except BaseException as error:
            self._plane.log_failure(host, live, error, "on_close")

    # What there is

    def host(self, name: str) -> SingleHost | VectorHost:
        """Return a running algorithm.

        Raises:
            UsageError: `algorithm.unknown`.
        """
        try:
            return self._plane.hosts[name]
        except KeyError:
            raise unknown_algorithm(name, list(self._plane.hosts), "") from None

    def flows(self, which: Which, *, failed: bool = False) -> list[Live]:
        """Return the running flows that are meant.

        Args:
            which: Which flows.
            failed: Also those whose algorithm raised.

        Raises:
            FlowGone: If it is one, and there is no such flow.
        """
        if which.flow_id is not None:
            live = self._plane.flows.get(which.flow_id)
            if live is None or (live.failed and not failed):
                raise FlowGone(
                    "flow.gone",
                    f"no algorithm steers a flow {which.flow_id}",
                    why="it closed, it was never here, or its algorithm failed",
                    fix="see `ccp flows`",
                )
            return [live]
        rule = which.parsed()
        return [
            live
            for live in self._plane.flows.values()
            if (failed or not live.failed)
            and (which.algorithm is None or live.host.name == which.algorithm)
            and (rule is None or rule.matches(live.flow.info))
        ]

    def _hosts(self, which: Which) -> Sequence[Host]:
        if which.flow_id is not None:
            return [self.flows(which)[0].host]
        return list(self._plane.hosts.values()) if which.algorithm is None else [self.host(which.algorithm)]
