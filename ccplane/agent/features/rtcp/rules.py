"""Rules that select the sockets that R-TCP limits.

A rule is `CONDITION...` or `CONDITION... -> except`, with the conditions of `ccplane.agent.rules`:

    cgroup=/sys/fs/cgroup/system.slice/nginx.service sport=443
    dst=10.0.0.0/8 -> except

Sockets that match the first rule are limited, sockets that match the second are not; the first match decides.
A socket that matches no rule is not limited, unless all rules are exceptions.
"""

from __future__ import annotations

from typing import Final

from ccplane.agent.conditions import Conditions, conditions_by_key, fields_of
from ccplane.base.errors import UsageError
from ccplane.base.names import close_names

BOUNDED: Final = "limit"
EXCEPTED: Final = "except"

_FIX: Final = (
    "write CONDITION... or CONDITION... -> except, in quotes, such as --rule 'dst=10.0.0.0/8 -> except'"
)


class BoundRule(Conditions, frozen=True, kw_only=True):
    """A rule of the kernel's table: `Rule` of native/ccp-rtcp.

    Attributes:
        bounded: Whether its sockets are limited; else they use the kernel's congestion control.
    """

    bounded: bool


def parse_bound_rule(text: str) -> BoundRule:
    """Parse a rule.

    Args:
        text: `CONDITION...`, optionally with `-> except` or `-> limit`; blanks or commas between conditions.

    Raises:
        UsageError: `rule.syntax`, `rule.unknown_key`, `rule.bad_value` or `rule.bad_outcome`.
        Several: If several conditions are wrong.
    """
    left, arrow, right = (part.strip() for part in text.partition("->"))
    if not left or (arrow and not right):
        raise UsageError("rule.syntax", f"cannot parse the rule `{text}`", where=f"rule `{text}`", fix=_FIX)
    values = conditions_by_key(left, text)
    if arrow and right not in (BOUNDED, EXCEPTED):
        raise UsageError(
            "rule.bad_outcome",
            f"`{right}` is not a valid outcome of a rule",
            where=f"rule `{text}`",
            why="a rule limits its sockets (`limit`, the default) or excludes them (`except`)",
            fix=close_names(right, (BOUNDED, EXCEPTED), "outcome"),
        )
    return BoundRule(**fields_of(values), bounded=right != EXCEPTED)
