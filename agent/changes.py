"""Changes while flows run: parameters, fold programs, versions of algorithms, other algorithms.

All of it runs on the agent's thread, between two batches. Each change is made as a whole or not at all, and
told as an event.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from agent import params, swap
from agent.algorithms import Running
from agent.blame import blamed
from agent.candidate import cannot_take_over
from agent.hosts import Host, Live, SingleHost, VectorHost, host_for
from agent.names import duplicate_algorithm, unknown_algorithm
from agent.rules import Rule, parse_rule
from agent.source import Version
from agent.swap import Successor
from ccp_algs.params import changes
from ccp_base.errors import CcpError, Collector, FlowGone, UsageError
from ccp_base.flows import FlowStats
from datapath.protocol import Program

if TYPE_CHECKING:
    from agent.plane import Plane
    from agent.programs import Installed

log = logging.getLogger("ccplane.agent")

ANYTHING: Final = "-"
"""Stands for the algorithm in a rule that chooses flows only."""


@dataclass(frozen=True, slots=True)
class Which:
    """Which flows a change is for; all of them without a condition.

    Attributes:
        flow_id: This one only.
        algorithm: Those of this algorithm only.
        rule: Those that match these conditions only, as in rules: `dst=10.0.0.0/8 dport=5001`.
    """

    flow_id: int | None = None
    algorithm: str | None = None
    rule: str | None = None

    def parsed(self, chosen: str = ANYTHING) -> Rule | None:
        """Return the conditions as a rule that chooses an algorithm, None without conditions.

        Raises:
            UsageError: `rule.syntax`, `rule.unknown_key` or `rule.bad_value`.
        """
        return None if self.rule is None else parse_rule(f"{self.rule} -> {chosen}")


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
        self._params_at = changes()

    # Parameters

    def tell_params(self) -> None:
        """Tell algorithms of parameters that were set since this was last called, by whomever."""
        if self._params_at == changes():
            return
        self._params_at = changes()
        plane = self._plane
        for host in plane.hosts.values():
            if isinstance(host, VectorHost):
                try:
                    host.tell_params()
                except Exception as error:
                    plane.fail_all(host, error, "on_params")
        lives = [live for live in plane.flows.values() if not live.failed]
        for live in plane.breath.between(lives):
            try:
                live.tell_params()
            except FlowGone:
                pass  # its close event follows
            except Exception as error:
                plane.fail(live, error, "on_params")

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
        algorithms = {host.name: host.algorithm for host in self._hosts(which)}
        alone = which.flow_id is not None or which.rule is not None
        lives = self.flows(which)
        owners: dict[str, dict[str, str]] = {}
        problems = Collector()
        for name, value in values.items():
            with problems.check():
                owners[name] = dict(params.check(name, value, algorithms))
                for live in lives:
                    if alone and live.host.name in owners[name] and live.host.vectorised:
                        raise params.shared(name, live.host.name)
        problems.finish()
        if alone:
            self._set_alone(values, which, lives, owners)
        else:
            params.set_all(values, algorithms)
        flow = lives[0].flow.info if which.flow_id is not None else None
        detail = {} if which.rule is None else {"rule": which.rule}
        for name, value in values.items():
            for owner, parameter in owners[name].items():
                self._plane.events.tell("param:set", owner, flow, name=parameter, value=value, **detail)
        reached = {name for of_one in owners.values() for name in of_one}
        return sum(live.host.name in reached for live in lives)

    def _set_alone(
        self,
        values: Mapping[str, object],
        which: Which,
        lives: Sequence[Live],
        owners: Mapping[str, Mapping[str, str]],
    ) -> None:
        rule = which.parsed()
        for name, value in values.items():
            for live in lives:
                if live.host.name in owners[name]:
                    params.set_one(owners[name][live.host.name], value, live.host.name, live.instance)
            if rule is not None:
                for algorithm, parameter in owners[name].items():
                    self._settings[rule.text, algorithm, parameter] = (rule, value)
                    self._plane.hosts[algorithm].settle = self.settle

    def settle(self, live: Live) -> None:
        """Give a new flow, behind the making of its instance, what was set by rules that it matches."""
        for (_, algorithm, parameter), (rule, value) in self._settings.items():
            if algorithm == live.host.name and rule.matches(live.flow.info):
                try:
                    params.set_one(parameter, value, algorithm, live.instance)
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
        plane.hosts[running.name] = made = host_for(running, plane.datapath, plane.events)
        made.version = version
        plane.index()
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
        self._plane.hosts.pop(name).programs.uninstall()
        self._settings = {key: setting for key, setting in self._settings.items() if key[1] != name}
        self._plane.index()

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
            if isinstance(host, VectorHost):
                host.leave(flow_id)
            elif instance is not None:
                with suppress(FlowGone):
                    instance.on_close(self._plane.datapath.stats(flow_id) or FlowStats(flow_id))
        except Exception as error:
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
