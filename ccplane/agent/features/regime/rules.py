"""Rules that assign sockets to decisions, and the kernel's table made from them.

A rule has the syntax of `ccplane.agent.rules`, with `destination` or a receiver's address on the right:

    dst=10.0.0.0/8 dport=5001-5010 -> destination
    cgroup=/sys/fs/cgroup/web.slice -> 192.0.2.7

Sockets that match the first rule follow the decisions about their own paths. Sockets that match the second
rule follow the decisions of the receiver 192.0.2.7, regardless of their destination. Without a decision the
regime is SHARED. Sockets that match no rule are not changed. If there are no rules at all, every socket whose
path has a decision follows that decision. The kernel keeps at most 4,096 pairs of rule and path.
"""

from __future__ import annotations

import functools
import ipaddress
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path as File
from typing import Final

from msgspec import Struct

from ccplane.agent.conditions import Conditions, conditions_by_key, fields_of
from ccplane.agent.features.regime.actuator import Regimes
from ccplane.agent.names import PREFIX
from ccplane.agent.rules import Network, Value, parse_address, split_rule
from ccplane.base.errors import UsageError
from telemetry.regime.detector import SHARED, Regime
from telemetry.regime.follow import Path, Standing

MAX_ENTRIES: Final = 4096
"""Entries of the kernel's table: SWITCH_MAX_RULES of native/ccp-switch."""

DESTINATION: Final = "destination"
"""Outcome of a rule whose sockets follow the decisions about their own paths."""

MAX_RATE_BYTES_PER_S: Final = 2**32 - 2
"""fq and sockets store rates in 32 bits; the largest number means no limit."""

UNDECIDED: Final = Standing(regime=SHARED, reason="no decision about this path yet")

_NEED_ECN: Final = frozenset({"dctcp", "prague"})


@dataclass(frozen=True, slots=True)
class SocketRule:
    """A rule.

    Attributes:
        conditions: Value by key; all must hold.
        receiver: Address of the receiver whose decisions apply; None for each socket's own destination.
    """

    conditions: Mapping[str, Value]
    receiver: str | None = None


class Treatment(Struct, frozen=True, kw_only=True):
    """Settings of sockets in a regime.

    Attributes:
        congestion: Congestion control.
        rate_bytes_per_s: Maximum pacing rate [bytes/s]; None: unchanged.
    """

    congestion: str
    rate_bytes_per_s: int | None = None

    @property
    def needs_ecn(self) -> bool:
        """Whether the congestion control needs a connection with ECN."""
        return self.congestion.removeprefix(PREFIX) in _NEED_ECN


class Entry(Conditions, frozen=True, kw_only=True):
    """An entry of the kernel's table; fields as in `Rule` of native/ccp-switch."""

    congestion: str
    needs_ecn: bool = False
    asks_ecn: bool = False
    rate_bytes_per_s: int | None = None
    emit: bool = False


def parse_socket_rule(text: str) -> SocketRule:
    """Parse a rule.

    Args:
        text: `CONDITIONS -> destination` or `CONDITIONS -> ADDRESS`.

    Raises:
        UsageError: `rule.syntax`, `rule.unknown_key` or `rule.bad_value`.
        Several: If several conditions are wrong.
    """
    left, right = split_rule(text, "dst=10.0.0.0/8 -> destination")
    values = conditions_by_key(left, text)
    try:
        return SocketRule(values, None if right == DESTINATION else str(parse_address(right)))
    except ValueError as error:
        raise UsageError(
            "rule.bad_value",
            f"`{right}` is neither `{DESTINATION}` nor the address of a receiver",
            where=f"rule `{text}`",
            why=str(error),
            fix="write the address that the receiver publishes; `ccp telemetry receive` shows it",
        ) from error


def max_paths(rules: Sequence[SocketRule]) -> int:
    """Return the maximum number of paths for which the kernel's table has room."""
    own = sum(rule.receiver is None for rule in rules)
    return max(1, (MAX_ENTRIES - len(rules)) // max(1, own))


def entries(
    rules: Sequence[SocketRule],
    treatments: Mapping[Regime, Treatment],
    regimes: Regimes,
    emit: Collection[Path] = (),
    cgroup: File | None = None,
) -> list[tuple[Entry, Standing]]:
    """Return the kernel's table, each entry with its regime.

    Args:
        rules: In order of precedence; if there are none, all paths in `regimes` apply.
        treatments: Settings of sockets in each regime.
        regimes: Current regime of each path.
        emit: Paths whose sockets are reported even if they are not switched.
        cgroup: Cgroup of sockets, unless a rule names another; None for any.
    """
    asks_ecn = any(treatment.needs_ecn for treatment in treatments.values())
    made: list[tuple[Entry, Standing]] = []
    for rule in rules or [SocketRule({})]:
        conditions = {**({} if cgroup is None else {"cgroup": cgroup}), **rule.conditions}
        for ends, standing, reported in _standings(rule, regimes, emit, bool(rules)):
            treatment = treatments[standing.regime]
            entry = Entry(
                **fields_of({**conditions, **ends}),
                congestion=treatment.congestion,
                needs_ecn=treatment.needs_ecn,
                asks_ecn=asks_ecn,
                rate_bytes_per_s=treatment.rate_bytes_per_s,
                emit=reported,
            )
            made.append((entry, standing))
    return made


Ends = Mapping[str, Network]
"""Local and peer address by key of a condition; a missing key means any address."""


def _standings(
    rule: SocketRule, regimes: Regimes, emit: Collection[Path], everywhere: bool
) -> Iterator[tuple[Ends, Standing, bool]]:
    """Yield the endpoints of the paths of a rule, their regime, and whether to report their sockets."""
    if rule.receiver is not None:
        selected = [path for path in regimes if path.address == rule.receiver]
        yield {}, _safest([regimes[path] for path in selected]), any(path in emit for path in selected)
        return
    for path in sorted(regimes, key=lambda path: path.address is None):  # the most specific paths first
        ends = {"src": _host(path.peer)}
        if path.address is not None:
            ends["dst"] = _host(path.address)
        if all(_within(end, rule.conditions.get(key)) for key, end in ends.items()):
            yield ends, regimes[path], path in emit
    if everywhere:
        yield {}, UNDECIDED, False


def _safest(standings: Sequence[Standing]) -> Standing:
    return next((one for one in standings if one.regime == SHARED), next(iter(standings), UNDECIDED))


@functools.lru_cache(2 * MAX_ENTRIES)  # each change rebuilds the table for thousands of paths
def _host(address: str) -> Network:
    return ipaddress.ip_network(address)


def _within(end: Network, condition: Value | None) -> bool:
    if not isinstance(condition, Network):
        return True
    return end.version == condition.version and end.network_address in condition
