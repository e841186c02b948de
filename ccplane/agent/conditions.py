"""Conditions of rules in the form that the BPF programs compare, `Conditions` of native/ccp-trace.

The conditions are those of `ccplane.agent.rules`, each at most once.
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
"""Size of the cache: both endpoints of each entry of the regime table."""


class Conditions(Struct, frozen=True, kw_only=True):
    """Requirements of a rule on a socket; fields as in `Conditions` of native/ccp-trace."""

    src: tuple[str, int] = _ANY
    dst: tuple[str, int] = _ANY
    sport: tuple[int, int] = _ALL_PORTS
    dport: tuple[int, int] = _ALL_PORTS
    cgroup: int | None = None


def conditions_by_key(words: str, text: str) -> dict[str, Value]:
    """Parse the conditions of a rule in which each key may occur only once.

    Returns:
        The required values by key: `src`, `dst`, `sport`, `dport` or `cgroup`.

    Raises:
        UsageError: `rule.syntax`, `rule.unknown_key` or `rule.bad_value`.
        Several: If several conditions are wrong.
    """
    conditions = parse_conditions(words, text)
    values = {condition.key: condition.value for condition in conditions}
    if len(values) < len(conditions):
        raise UsageError(
            "rule.syntax",
            "the same condition is given twice",
            where=f"rule `{text}`",
            why="a rule matches only if all of its conditions hold",
            fix="write a separate rule for each value",
        )
    return values


def fields_of(values: Mapping[str, Value]) -> dict[str, Any]:
    """Return the fields of `Conditions` for required values by key."""
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
