"""Conditions of rules that the kernel's programs compare, as these take them.

They are those of `ccplane.agent.rules`, each at most once: `Conditions` of native/ccp-trace.
"""

from __future__ import annotations

import functools
import ipaddress
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from ccplane.agent.rules import Ports, Value, parse_conditions
from ccplane.base.errors import UsageError

_ANY: Final = ("::", 0)
_ALL_PORTS: Final = (0, 65_535)
_MAPPED: Final = "::ffff:"
_MAPPED_BITS: Final = 96
_PREFIXES: Final = 8192
"""How many are remembered: both ends of each entry of the regimes' table."""


class Conditions(Struct, frozen=True, kw_only=True):
    """What a rule asks of a socket: `Conditions` of native/ccp-trace, which says what each field means."""

    src: tuple[str, int] = _ANY
    dst: tuple[str, int] = _ANY
    sport: tuple[int, int] = _ALL_PORTS
    dport: tuple[int, int] = _ALL_PORTS
    cgroup: int | None = None


def conditions_by_key(words: str, text: str) -> dict[str, Value]:
    """Read the conditions of a rule of which each can be there once.

    Args:
        words: The conditions, separated by blanks or commas.
        text: The whole rule, for errors.

    Returns:
        What is wanted by key: `src`, `dst`, `sport`, `dport` or `cgroup`.

    Raises:
        UsageError: `rule.syntax`, `rule.unknown_key` or `rule.bad_value`.
        Several: If several conditions are wrong.
    """
    conditions = parse_conditions(words, text)
    values = {condition.key: condition.value for condition in conditions}
    if len(values) < len(conditions):
        raise UsageError(
            "rule.syntax",
            "a condition is given twice",
            where=f"rule `{text}`",
            why="all conditions of a rule must hold",
            fix="write one rule for each",
        )
    return values


def fields_of(values: Mapping[str, Value]) -> dict[str, Any]:
    """Return the fields of `Conditions` that stand for what is wanted by key."""
    return {
        "src": _prefix(values.get("src")),
        "dst": _prefix(values.get("dst")),
        "sport": _ports(values.get("sport")),
        "dport": _ports(values.get("dport")),
        "cgroup": _cgroup_id(values.get("cgroup")),
    }


@functools.lru_cache(_PREFIXES)
def _prefix(network: Value | None) -> tuple[str, int]:
    if isinstance(network, ipaddress.IPv4Network):
        return f"{_MAPPED}{network.network_address}", _MAPPED_BITS + network.prefixlen
    if isinstance(network, ipaddress.IPv6Network):
        return str(network.network_address), network.prefixlen
    return _ANY


def _ports(ports: Value | None) -> tuple[int, int]:
    return (ports.low, ports.high) if isinstance(ports, Ports) else _ALL_PORTS


def _cgroup_id(directory: Value | None) -> int | None:
    return directory.stat().st_ino if isinstance(directory, Path) else None
