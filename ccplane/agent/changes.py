"""Changes while flows run: parameters, fold programs, versions of algorithms, other algorithms.

Runs on the agent's thread, between two batches. Each change is made completely or not at all, and emits an
event.
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
from ccplane.base.loglimit import LogLimit
from ccplane.datapath.protocol import Program

if TYPE_CHECKING:
    from ccplane.agent.agent_loop import AgentLoop
    from ccplane.agent.programs import Installed

log = logging.getLogger("ccplane.agent")


@dataclass(frozen=True, slots=True)
class Reloaded:
    """The result of a reload.

    Attributes:
        algorithm: Name of the algorithm.
        old_sha256: Hash of the previous source; empty if unknown.
        new_sha256: Hash of the new source.
        flows: Number of flows that switched to the new version.
        programs: Outcome for each fold program: `kept`, `replaced`, `new` or `removed`.
        notes: Changes that do not take effect immediately.
        took_us: Time that the agent's thread was busy [us].
    """

    algorithm: str
    old_sha256: str
    new_sha256: str
    flows: int
    programs: dict[str, str]
    notes: list[str]
    took_us: int = 0


class Changes:
    """The changes of one agent loop."""

    def __init__(self, agent_loop: AgentLoop) -> None:
        self._loop = agent_loop
        self._log_limit = LogLimit()
        self._settings: dict[tuple[str, str, str], tuple[Rule, object]] = {}
        self._set = Settings()

    # Parameters

    def report_params(self) -> None:
        """Notify algorithms of all parameters that were set since the last call."""
        if not self._set:
            return
        agent_loop = self._loop
        changed: dict[int, tuple[object, dict[str, int]]] = {}
        for change, target, name in self._set.take():
            changed.setdefault(id(target), (target, {}))[1][name] = change
        host: Host
        of_hosts: dict[Host, dict[str, int]] = {}
        for host in agent_loop.hosts.values():
            for target, selected in changed.values():
                if issubclass(host.algorithm, target) if isinstance(target, type) else host.owns(target):
                    of_hosts.setdefault(host, {}).update(selected)
        alone = {
            live: selected
            for target, selected in changed.values()
            if not isinstance(target, type) and (live := self._live_of(target)) is not None
        }
        for live, selected in alone.items():
            both = {**of_hosts.get(live.host, {}), **selected}
            live.host.report_params([live], both, agent_loop, agent_loop.keepalive)
        for host, selected in of_hosts.items():
            lives = [
                live
                for live in agent_loop.flows.values()
                if live.host is host and not live.failed and live not in alone
            ]
            host.report_params(lives, selected, agent_loop, agent_loop.keepalive)

    def _live_of(self, instance: object) -> Live | None:
        """Return the flow of an instance that has only one flow."""
        flow = getattr(instance, "flow", None)
        live = self._loop.flows.get(flow.info.flow_id) if isinstance(flow, FlowControl) else None
        return live if live is not None and live.instance is instance and not live.failed else None

    def set_params(self, values: Mapping[str, object], which: Which) -> int:
        """Set parameters; return the number of running flows affected.

        Args:
            values: Values (or their text) by `PARAMETER` or `ALGORITHM.PARAMETER`.
            which: The flows. Without `flow_id`, the values also apply to future flows.

        Raises:
            ParamError: If no running algorithm has the parameter, it does not accept the value, or a single
                flow of a vectorised algorithm is selected. Nothing has changed then.
            FlowGone: If the flow does not exist.
            UsageError: If the algorithm or the rule is not valid.
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
                self._loop.events.emit(
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
                self._loop.hosts[one.algorithm].settle = self.settle

    def settle(self, live: Live) -> None:
        """Set the parameters of all matching rules on a new flow's instance."""
        assert live.instance is not None, "rules cannot set parameters of a shared instance"
        for (_, algorithm, parameter), (rule, value) in self._settings.items():
            if algorithm == live.host.name and rule.matches(live.flow.info):
                try:
                    set_params(live.instance, {parameter: value})
                except CcpError as error:  # the algorithm was edited since
                    if admitted := self._log_limit.admit((rule.text, algorithm, parameter)):
                        log.warning(
                            "ignored a parameter set with rule `%s`: %s%s", rule.text, error, admitted
                        )

    # Programs

    def replace_program(self, algorithm: str, name: str, program: Program) -> int:
        """Replace a fold program of the live flows that run it; registers start at their initial values.

        Args:
            algorithm: A running algorithm.
            name: Name of the program; a new name adds a program.
            program: The new program, compiled.

        Returns:
            Number of flows that switched.

        Raises:
            UsageError: If the algorithm does not run.
            VerifierError: If the kernel refuses the new program; the flows keep their current program.
        """
        before, after = self.host(algorithm).programs.replace(name, program)
        moved = 0 if before is None else self._move(before, after)
        self._loop.events.emit("program:replaced", algorithm, program=name, flows=moved, uid=program.uid)
        return moved

    def _move(self, before: Installed, after: Installed) -> int:
        selected = [live.flow for live in self._loop.flows.values() if live.flow.runs(before)]
        return sum(flow.move(after) for flow in selected)

    # Versions

    def reload(self, name: str, after: Successor, *, fresh: bool = False) -> Reloaded:
        """Switch all flows of an algorithm to a new version.

        Args:
            name: A running algorithm.
            after: The new version, its programs installed.
            fresh: Whether flows start afresh instead of continuing from the previous version's state.

        Raises:
            UsageError: If the algorithm does not run.
            CcpError: What the new version raises; the previous version then keeps all flows.
        """
        host = self.host(name)
        before, programs_before = host.version, {one.name: one for one in host.programs.all()}
        lives = [live for live in self._loop.flows.values() if live.host is host]
        notes = []
        if after.algorithm.needs_ecn != host.algorithm.needs_ecn:
            notes.append("the change of needs_ecn takes effect when the agent restarts")
        begun_ns = time.monotonic_ns()
        flows = swap.reload(host, lives, after, self._loop.keepalive, fresh=fresh)
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
        self._loop.events.emit(
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
        """Run another algorithm; the caller then registers its congestion-control name.

        Raises:
            UsageError: `algorithm.duplicate` or `name.duplicate`.
            VerifierError: If the kernel refuses a program.
        """
        agent_loop = self._loop
        if running.name in agent_loop.hosts:
            raise duplicate_algorithm(running.name)
        for host in agent_loop.hosts.values():
            if running.cc_name and host.cc_name == running.cc_name:
                raise UsageError(
                    "name.duplicate",
                    f"`{host.name}` and `{running.name}` would both be registered as `{running.cc_name}`",
                    fix="load the algorithm under another name",
                )
        made = agent_loop.add_host(running)
        made.version = version
        agent_loop.events.emit(
            "algorithm:loaded",
            running.name,
            cc_name=running.cc_name,
            file=made.version.file,
            new_sha256=made.version.sha256,
        )

    def add_alongside(self, name: str, running: Running, version: Version) -> None:
        """Run a new version alongside a running algorithm, with the same parameters and without flows.

        Args:
            name: The running algorithm.
            running: The new version, under another name and without a congestion-control name.
            version: The source of the new version.

        Raises:
            CcpError: As `add`, or if the new version does not accept the parameters.
        """
        with blamed(version.file, cannot_take_over):
            swap.carry_params(self.host(name).algorithm, running.algorithm)
        self.add(running, version)
        for (text, algorithm, parameter), setting in list(self._settings.items()):
            if algorithm == name:
                self._settings[text, running.name, parameter] = setting
                self._loop.hosts[running.name].settle = self.settle

    def merge(self, name: str, into: str) -> int:
        """Move all flows of an algorithm to another, which starts them as new flows; stop the former.

        If the other algorithm raises, the flows go to the fallback.

        Returns:
            Number of flows.
        """
        agent_loop = self._loop
        which = Which(algorithm=name)
        lives = self.flows(which, failed=True)
        try:
            self.switch(into, which)
        except CcpError as error:
            for live in lives:
                live.host = self.host(into)
                agent_loop.fail(live, error, "on_create")
        self.remove(name)
        return len(lives)

    def remove(self, name: str) -> None:
        """Stop an algorithm that has no flows."""
        self._loop.remove_host(name)
        self._settings = {key: setting for key, setting in self._settings.items() if key[1] != name}

    def switch(self, algorithm: str, which: Which) -> int:
        """Move flows to another running algorithm; return the number of running flows that moved.

        Args:
            algorithm: The new algorithm.
            which: The flows. "All flows" includes future `ccp` flows; a rule also applies to future flows
                that match it.

        Raises:
            UsageError: If the algorithm does not run, or the rule is not valid.
            FlowGone: If the flow does not exist.
            CcpError: What the algorithm raises; nothing has changed then.
        """
        agent_loop = self._loop
        target = self.host(algorithm)
        rule = which.parsed(algorithm)
        lives = [live for live in self.flows(which, failed=True) if live.host is not target]
        former = swap.switch(target, lives, agent_loop.keepalive)
        for live, host, instance in agent_loop.keepalive.between(former):
            self._farewell(live, host, instance)
        if rule is not None:
            agent_loop.rules[:] = [rule, *(one for one in agent_loop.rules if one.text != rule.text)]
        elif which.flow_id is None and which.algorithm in (None, agent_loop.default):
            agent_loop.default = algorithm
        agent_loop.events.emit(
            "algorithm:switched",
            algorithm,
            lives[0].flow.info if which.flow_id is not None and lives else None,
            flows=len(lives),
            before=which.algorithm,
            rule=which.rule,
        )
        return len(lives)

    def _farewell(self, live: Live, host: Host, instance: Any) -> None:
        """Notify the previous algorithm that it lost the flow."""
        flow_id = live.flow.info.flow_id
        try:
            host.give_away(flow_id, instance, self._loop.datapath.stats(flow_id))
        except BaseException as error:
            self._loop.log_failure(host, live, error, "on_close")

    # Queries

    def host(self, name: str) -> SingleHost | VectorHost:
        """Return a running algorithm.

        Raises:
            UsageError: `algorithm.unknown`.
        """
        try:
            return self._loop.hosts[name]
        except KeyError:
            raise unknown_algorithm(name, list(self._loop.hosts), "") from None

    def flows(self, which: Which, *, failed: bool = False) -> list[Live]:
        """Return the selected running flows.

        Raises:
            FlowGone: If a single flow is selected and does not exist.
        """
        if which.flow_id is not None:
            live = self._loop.flows.get(which.flow_id)
            if live is None or (live.failed and not failed):
                raise FlowGone(
                    "flow.gone",
                    f"no algorithm controls flow {which.flow_id}",
                    why="the flow closed, never existed, or its algorithm raised an exception",
                    fix="list the flows with `ccp flows`",
                )
            return [live]
        rule = which.parsed()
        return [
            live
            for live in self._loop.flows.values()
            if (failed or not live.failed)
            and (which.algorithm is None or live.host.name == which.algorithm)
            and (rule is None or rule.matches(live.flow.info))
        ]

    def _hosts(self, which: Which) -> Sequence[Host]:
        if which.flow_id is not None:
            return [self.flows(which)[0].host]
        return list(self._loop.hosts.values()) if which.algorithm is None else [self.host(which.algorithm)]
