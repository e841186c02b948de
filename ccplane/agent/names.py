"""Congestion-control names: what an application passes to setsockopt(TCP_CONGESTION)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from ccplane.base.errors import Collector, UsageError
from ccplane.base.names import close_names

MAX_LENGTH: Final = 15
"""Characters that the kernel keeps of a name: TCP_CA_NAME_MAX (include/net/tcp.h) less the final zero."""

PREFIX: Final = "ccp."
"""All names but plain `ccp` start so: none can shadow a congestion control of the kernel."""


def cc_names(algorithms: Sequence[str], explicit: Mapping[str, str]) -> dict[str, str]:
    """Return the congestion-control name of each running algorithm.

    An algorithm NAME gets `ccp.NAME`, in lower case, other characters than a-z, 0-9, `.` and `_` turned into
    `_`, and cut to 15 characters. If two would get the same name, or the cut one is not wanted, `explicit`
    says another.

    Args:
        algorithms: Names of the running algorithms, all different.
        explicit: Congestion-control name by algorithm, for those that shall have another one.

    Returns:
        Congestion-control name by algorithm, in the order of `algorithms`.

    Raises:
        UsageError: `name.invalid`, `name.duplicate`, or `algorithm.unknown` in `explicit`.
        Several: If more than one thing is wrong.
    """
    problems = Collector()
    for algorithm in explicit:
        with problems.check():
            if algorithm not in algorithms:
                raise unknown_algorithm(algorithm, algorithms, "--cc-name")
    names: dict[str, str] = {}
    owner: dict[str, str] = {}
    for algorithm in algorithms:
        name = explicit.get(algorithm) or derived(algorithm)
        with problems.check():
            check(name, f"--cc-name {algorithm}={name}")
            if name in owner:
                raise UsageError(
                    "name.duplicate",
                    f"`{owner[name]}` and `{algorithm}` would both be registered as `{name}`",
                    why=f"the kernel keeps {MAX_LENGTH} characters of a name",
                    fix=f"choose another name, such as --cc-name {algorithm}={name[: MAX_LENGTH - 1]}2",
                )
        owner.setdefault(name, algorithm)
        names[algorithm] = name
    problems.finish()
    return names


def unknown_algorithm(name: str, running: Sequence[str], where: str) -> UsageError:
    """Return the error for an algorithm that does not run."""
    return UsageError(
        "algorithm.unknown",
        f"no running algorithm is called `{name}`",
        where=where,
        fix=close_names(name, running, "running algorithm"),
    )


def duplicate_algorithm(name: str, where: str = "") -> UsageError:
    """Return the error for two algorithms of one name."""
    return UsageError(
        "algorithm.duplicate",
        f"two algorithms of this run are called `{name}`",
        where=where,
        fix="give one of them another name with @register(...), or run one of them only",
    )


def derived(algorithm: str) -> str:
    """Return the congestion-control name that an algorithm gets if nobody says another."""
    return (PREFIX + re.sub(r"[^a-z0-9._]", "_", algorithm.lower()))[:MAX_LENGTH]


def check(name: str, where: str) -> None:
    """Check a congestion-control name.

    Raises:
        UsageError: `name.invalid`.
    """
    if len(name) > MAX_LENGTH:
        why = f"it has {len(name)} characters, the kernel keeps {MAX_LENGTH}"
    elif not name.startswith(PREFIX) or name == PREFIX:
        why = f"it does not start with `{PREFIX}`, so it could shadow a congestion control of the kernel"
    elif re.fullmatch(r"[a-z0-9._]+", name) is None:
        why = "it has other characters than a-z, 0-9, `.` and `_`"
    else:
        return
    raise UsageError(
        "name.invalid",
        f"`{name}` cannot be a congestion-control name",
        where=where,
        why=why,
        fix=f"write {PREFIX}NAME with at most {MAX_LENGTH} characters, such as --cc-name "
        f"example_aimd=ccp.aimd",
    )
