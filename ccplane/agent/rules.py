"""The syntax of rules about flows, and the rules that choose an algorithm for flows that use `ccp`.

A rule is `CONDITIONS -> OUTCOME`, here with an algorithm as outcome. All conditions of a rule must hold, and
the first rule that matches decides:

    dst=10.0.0.0/8 -> cubic
    dport=5001-5010 src=2001:db8::/32 -> const
    cgroup=/sys/fs/cgroup/video.slice -> dctcp

Conditions are separated by blanks or commas: `src`, `dst` (address or prefix, IPv4 or IPv6), `sport`, `dport`
(port or range) and `cgroup` (a cgroup v2 directory; sockets created in it or in a cgroup below it match).
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ccplane.agent.cgroups import cgroup_tree
from ccplane.base.errors import UsageError, collected
from ccplane.base.flows import FlowInfo
from ccplane.base.names import close_names

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def parse_address(text: str) -> Address:
    """Parse an address; an IPv4-mapped IPv6 address (`::ffff:10.0.0.1`) becomes the IPv4 address.

    Raises:
        ValueError: If `text` is not an address.
    """
    address = ipaddress.ip_address(text)
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


@dataclass(frozen=True, slots=True)
class Ports:
    """A range of ports.

    Attributes:
        low: The first one.
        high: The last one.
    """

    low: int
    high: int


Value = Network | Ports | Path
"""Value of a condition: an address prefix, ports, or the directory of a cgroup."""

Test = Callable[[FlowInfo], bool]


def _prefix(value: str) -> Network:
    return ipaddress.ip_network(value, strict=True)


def _ports(value: str) -> Ports:
    found = re.fullmatch(r"(\d{1,5})(?:-(\d{1,5}))?", value)
    if found is None:
        raise ValueError(f"{value!r} is neither a port nor a range of ports such as 5001-5010")
    low = int(found[1])
    high = int(found[2] or low)
    if not 1 <= low <= high <= 65_535:
        raise ValueError("ports are 1 to 65535, and a range starts with the smaller one")
    return Ports(low, high)


def _cgroup(value: str) -> Path:
    path = Path(value)
    if not (path / "cgroup.procs").exists():
        raise ValueError(f"{value!r} is not a cgroup directory on this machine")
    return path


_CONDITIONS: Final[dict[str, tuple[Callable[[str], Value], str, str]]] = {
    "src": (_prefix, "src_addr", "src=10.0.0.0/8"),
    "dst": (_prefix, "dst_addr", "dst=10.0.0.0/8"),
    "sport": (_ports, "src_port", "sport=5001 or sport=5001-5010"),
    "dport": (_ports, "dst_port", "dport=5001 or dport=5001-5010"),
    "cgroup": (_cgroup, "cgroup_id", "cgroup=/sys/fs/cgroup/NAME"),
}


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition of a rule.

    Attributes:
        key: Property of the flow: `src`, `dst`, `sport`, `dport` or `cgroup`.
        value: Required value.
    """

    key: str
    value: Value

    def test(self) -> Test:
        """Return the condition as a test of flows; raises OSError if a cgroup cannot be watched."""
        attribute, value = _CONDITIONS[self.key][1], self.value
        if isinstance(value, Ports):
            return lambda info: value.low <= int(getattr(info, attribute)) <= value.high
        if isinstance(value, Path):
            tree = cgroup_tree(value)
            return lambda info: getattr(info, attribute) in tree
        return lambda info: parse_address(getattr(info, attribute)) in value


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule.

    Attributes:
        text: The rule's text.
        algorithm: Name of the algorithm that it chooses.
        tests: Conditions; all must hold.
    """

    text: str
    algorithm: str
    tests: tuple[Test, ...]

    def matches(self, info: FlowInfo) -> bool:
        """Return whether the rule matches this flow."""
        return all(test(info) for test in self.tests)


def split_rule(text: str, example: str) -> tuple[str, str]:
    """Return the conditions and the outcome of a rule, as texts.

    Args:
        text: `CONDITIONS -> OUTCOME`.
        example: A rule, for the error.

    Raises:
        UsageError: `rule.syntax`.
    """
    left, _, right = (part.strip() for part in text.partition("->"))
    if not left or re.fullmatch(r"[^\s>=]+", right) is None:
        raise UsageError(
            "rule.syntax",
            f"cannot parse the rule `{text}`",
            where=f"rule `{text}`",
            why="a rule is CONDITIONS -> OUTCOME",
            fix=f"write the rule in quotes, such as --rule '{example}'",
        )
    return left, right


def parse_rule(text: str) -> Rule:
    """Parse a rule.

    Args:
        text: `CONDITIONS -> ALGORITHM`.

    Returns:
        The rule; whether its algorithm runs is not checked here.

    Raises:
        UsageError: `rule.syntax`, `rule.unknown_key` or `rule.bad_value`.
    """
    left, algorithm = split_rule(text, "dst=10.0.0.0/8 -> cubic")
    conditions = parse_conditions(left, text)
    try:
        tests = tuple(condition.test() for condition in conditions)
    except OSError as error:
        raise UsageError(
            "rule.bad_value",
            "the cgroups of the rule cannot be watched",
            where=f"rule `{text}`",
            why=str(error),
            fix="raise fs.inotify.max_user_watches and fs.inotify.max_user_instances with sysctl",
        ) from error
    return Rule(text=text.strip(), algorithm=algorithm, tests=tests)


def parse_conditions(words: str, text: str) -> list[Condition]:
    """Parse the conditions of a rule.

    Raises:
        UsageError: `rule.syntax`, `rule.unknown_key` or `rule.bad_value`.
        Several: If several conditions are wrong.
    """
    return collected(lambda word: _parse_condition(word, text), re.split(r"[\s,]+", words))


def _parse_condition(word: str, text: str) -> Condition:
    key, equals, value = word.partition("=")
    if not equals or not value:
        raise UsageError(
            "rule.syntax",
            f"the condition `{word}` has no value",
            where=f"rule `{text}`",
            fix="write KEY=VALUE, such as " + _CONDITIONS.get(key, _CONDITIONS["dst"])[2],
        )
    if key not in _CONDITIONS:
        raise UsageError(
            "rule.unknown_key",
            f"rules cannot test `{key}`",
            where=f"rule `{text}`",
            fix=close_names(key, _CONDITIONS, "condition"),
        )
    read, _, example = _CONDITIONS[key]
    try:
        return Condition(key, read(value))
    except ValueError as error:
        raise UsageError(
            "rule.bad_value",
            f"the value in `{word}` is not valid",
            where=f"rule `{text}`",
            why=str(error),
            fix=f"write, for example, {example}",
        ) from error


def parse_rules(texts: Sequence[str], algorithms: Sequence[str]) -> list[Rule]:
    """Parse all rules and check that their algorithms run.

    Raises:
        UsageError: If a rule is wrong.
        Several: If several rules are wrong.
    """

    def of_running(text: str) -> Rule:
        rule = parse_rule(text)
        if rule.algorithm not in algorithms:
            raise UsageError(
                "rule.unknown_algorithm",
                f"the rule's algorithm `{rule.algorithm}` is not running",
                where=f"rule `{text}`",
                fix=close_names(rule.algorithm, algorithms, "running algorithm"),
            )
        return rule

    return collected(of_running, texts)


def choose(rules: Sequence[Rule], info: FlowInfo) -> str | None:
    """Return the algorithm of the first rule that matches, or None."""
    for rule in rules:
        if rule.matches(info):
            return rule.algorithm
    return None


ANYTHING: Final = "-"
"""Placeholder for the algorithm in a rule that only selects flows."""


@dataclass(frozen=True, slots=True)
class Which:
    """Selects the flows for a change; without restrictions, all flows.

    Attributes:
        flow_id: Only this flow.
        algorithm: Only flows of this algorithm.
        rule: Only flows that match these conditions, as in rules: `dst=10.0.0.0/8 dport=5001`.
    """

    flow_id: int | None = None
    algorithm: str | None = None
    rule: str | None = None

    def parsed(self, chosen: str = ANYTHING) -> Rule | None:
        """Return the conditions as a rule that chooses an algorithm, or None without conditions.

        Raises:
            UsageError: `rule.syntax`, `rule.unknown_key` or `rule.bad_value`.
        """
        return None if self.rule is None else parse_rule(f"{self.rule} -> {chosen}")
