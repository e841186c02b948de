"""Rules that select the sockets that R-TCP limits.

A rule has the syntax of `ccplane.agent.rules`, with `limit` or `except` on the right:

    cgroup=/sys/fs/cgroup/system.slice/nginx.service sport=443 -> limit
    dst=10.0.0.0/8 -> except

Sockets that match the first rule are limited, sockets that match the second are not; the first match decides.
A socket that matches no rule is not limited, unless all rules are exceptions.
"""

from __future__ import annotations

from typing import Final

from ccplane.agent.conditions import Conditions, conditions_by_key, fields_of
from ccplane.agent.rules import split_rule
from ccplane.base.errors import UsageError
from ccplane.base.names import close_names

BOUNDED: Final = "limit"
EXCEPTED: Final = "except"


class BoundRule(Conditions, frozen=True, kw_only=True):
    """A rule of the kernel's table: `Rule` of native/ccp-rtcp.

    Attributes:
        bounded: Whether its sockets are limited; else they use the kernel's congestion control.
    """

    bounded: bool


def parse_bound_rule(text: str) -> BoundRule:
    """Parse a rule.

    Args:
        text: `CONDITIONS -> limit` or `CONDITIONS -> except`.

    Raises:
        UsageError: `rule.syntax`, `rule.unknown_key`, `rule.bad_value` or `rule.bad_outcome`.
        Several: If several conditions are wrong.
    """
    left, right = split_rule(text, "dst=10.0.0.0/8 -> except")
    values = conditions_by_key(left, text)
    if right not in (BOUNDED, EXCEPTED):
        raise UsageError(
            "rule.bad_outcome",
            f"`{right}` is not a valid outcome of a rule",
            where=f"rule `{text}`",
            why="an outcome is `limit` (R-TCP limits the sockets) or `except` (it does not limit them)",
            fix=close_names(right, (BOUNDED, EXCEPTED), "outcome"),
        )
    return BoundRule(**fields_of(values), bounded=right != EXCEPTED)
