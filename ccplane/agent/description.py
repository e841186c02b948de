"""A description of what an agent runs, as plain data, and the agent made from it.

    ready = plan(Description(["cubic", Mine], params={"cubic.beta": 0.8}, rules=["dport=5001 -> Mine"]))
    plane = assembled(ready, datapath)

`ccp run`, the lab, the simulator, benchmarks and tests all create their agents here.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from ccp_algs.api import AnyAlgorithm
from ccplane.agent import params
from ccplane.agent.agent_loop import AgentLoop
from ccplane.agent.algorithms import Find, Running, check_contract, find, prepare
from ccplane.agent.names import cc_names, unknown_algorithm
from ccplane.agent.rules import Rule, parse_rules
from ccplane.base.errors import Collector
from ccplane.datapath import ebpf
from ccplane.datapath.protocol import Datapath

log = logging.getLogger("ccplane.agent")

PLAIN: Final = "ccp"
"""Congestion-control name whose flows get an algorithm by the rules, or else the default algorithm."""


@dataclass(frozen=True, slots=True)
class Description:
    """Description of what an agent runs.

    Attributes:
        algorithms: Names, files, `FILE.py:Class`, `module:Class`, or classes; the first is the default.
        params: Values (or their text) by `PARAMETER`, for all algorithms that have it, or by
            `ALGORITHM.PARAMETER`.
        rules: `CONDITION... -> ALGORITHM`; the first match decides.
        names: Congestion-control names by algorithm, instead of `ccp.ALGORITHM`.
        default: Algorithm of `ccp` flows that match no rule; None for the first.
    """

    algorithms: Sequence[str | AnyAlgorithm]
    params: Mapping[str, object] = field(default_factory=dict)
    rules: Sequence[str] = ()
    names: Mapping[str, str] = field(default_factory=dict)
    default: str | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """A checked and compiled description; no datapath has been touched yet.

    Attributes:
        running: The algorithms, with their congestion-control names.
        rules: The rules.
        default: The default algorithm.
    """

    running: Sequence[Running]
    rules: Sequence[Rule]
    default: Running

    @property
    def registrations(self) -> dict[str, bool]:
        """Whether sockets request ECN, by congestion-control name; `ccp` follows its default algorithm."""
        names = {PLAIN: self.default.needs_ecn}
        names.update((running.cc_name, running.needs_ecn) for running in self.running if running.cc_name)
        return names

    def without_ecn(self) -> list[Rule]:
        """Return the rules that assign `ccp` flows, which do not request ECN, to algorithms that need ECN."""
        if self.default.needs_ecn:
            return []
        needy = {running.name for running in self.running if running.needs_ecn}
        return [rule for rule in self.rules if rule.algorithm in needy]


def plan(
    described: Description, *, tries: bool = True, finds: Find = find, also: Sequence[Running] = ()
) -> Plan:
    """Check everything that can be checked without a datapath, and set the parameters.

    Args:
        described: The description.
        tries: Run the callbacks on simulated flows. False for stand-ins that measure: they read clocks, and
            keep state outside their instances.
        finds: Finds an algorithm by name.
        also: Algorithms that are ready already, without congestion-control names; they come first.

    Raises:
        CcpError: The only problem.
        Several: All problems, if there are at least two.
    """
    found = prepare(described.algorithms, ebpf.compile_program, finds)
    by_name = {running.name: running for running in (*also, *found)}
    names: dict[str, str] = {}
    rules: list[Rule] = []
    problems = Collector()
    for one in found if tries else ():
        with problems.check():
            check_contract(one.algorithm)
    with problems.check():
        names = cc_names([one.name for one in found], described.names)
    with problems.check():
        rules = parse_rules(described.rules, list(by_name))
    with problems.check():
        if described.default is not None and described.default not in by_name:
            raise unknown_algorithm(described.default, list(by_name), "--default")
    with problems.check():
        params.set_all(described.params, {name: one.algorithm for name, one in by_name.items()})
    problems.finish()
    running = [*also, *(one.called(names[one.name]) for one in found)]
    default = next((one for one in running if one.name == described.default), running[0])
    return Plan(running, rules, default)


def assembled(ready: Plan, datapath: Datapath, *, clock: Callable[[], float] = time.monotonic) -> AgentLoop:
    """Return an agent loop that runs a plan; register the plan's congestion-control names and no others.

    Raises:
        VerifierError: If the kernel refuses a program.
        LoadError: `load.extension`, if the datapath lacks an extension that an algorithm uses.
    """
    agent_loop = AgentLoop(datapath, ready.running, ready.rules, default=ready.default.name, clock=clock)
    for cc_name, needs_ecn in ready.registrations.items():
        datapath.register(cc_name, needs_ecn)
    for cc_name in datapath.registered():
        if cc_name not in ready.registrations:
            log.info("unregistered `%s` of an earlier agent; its flows now follow the rules", cc_name)
            datapath.unregister(cc_name)
    for rule in ready.without_ecn():
        log.warning(
            "rule `%s`: %s needs ECN, which sockets that use `ccp` do not request; let these sockets use "
            "`%s` instead",
            rule.text,
            rule.algorithm,
            agent_loop.hosts[rule.algorithm].cc_name,
        )
    return agent_loop
