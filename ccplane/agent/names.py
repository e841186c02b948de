"""Congestion-control names, which applications pass to setsockopt(TCP_CONGESTION)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from ccplane.base.errors import Collector, UsageError
from ccplane.base.names import close_names

MAX_LENGTH: Final = 15
"""Maximum length of a name: the kernel's TCP_CA_NAME_MAX (include/net/tcp.h) less the final zero."""

PREFIX: Final = "ccp."
"""Prefix of all names except `ccp`, so that no name can shadow a congestion control of the kernel."""


def cc_names(algorithms: Sequence[str], explicit: Mapping[str, str]) -> dict[str, str]:
    """Return the congestion-control name of each running algorithm.

    An algorithm NAME gets `ccp.NAME`, in lower case, with characters other than a-z, 0-9, `.` and `_`
    replaced by `_`, cut to 15 characters.

    Args:
        algorithms: Names of the running algorithms, all different.
        explicit: Congestion-control name by algorithm, to override the default.

    Returns:
        Congestion-control name by algorithm, in the order of `algorithms`.

    Raises:
        UsageError: `name.invalid`, `name.duplicate`, or `algorithm.unknown` in `explicit`.
        Several: If there are several problems.
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
                    why=f"the kernel limits names to {MAX_LENGTH} characters",
                    fix=f"set one of the names, such as --cc-name {algorithm}={name[: MAX_LENGTH - 1]}2",
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
    """Return the error for two algorithms with the same name."""
    return UsageError(
        "algorithm.duplicate",
        f"two algorithms of this run are called `{name}`",
        where=where,
        fix="rename one of them with @register(...), or run only one of them",
    )


def derived(algorithm: str) -> str:
    """Return an algorithm's default congestion-control name."""
    return (PREFIX + re.sub(r"[^a-z0-9._]", "_", algorithm.lower()))[:MAX_LENGTH]


def check(name: str, where: str) -> None:
    """Check a congestion-control name.

    Raises:
        UsageError: `name.invalid`.
    """
    if len(name) > MAX_LENGTH:
        why = f"it has {len(name)} characters; the kernel allows {MAX_LENGTH}"
    elif not name.startswith(PREFIX) or name == PREFIX:
        why = f"it does not start with `{PREFIX}`, so it could shadow a congestion control of the kernel"
    elif re.fullmatch(r"[a-z0-9._]+", name) is None:
        why = "it has characters other than a-z, 0-9, `.` and `_`"
    else:
        return
    raise UsageError(
        "name.invalid",
        f"`{name}` is not a valid congestion-control name",
        where=where,
        why=why,
        fix=f"write {PREFIX}NAME with at most {MAX_LENGTH} characters, such as --cc-name "
        f"example_aimd=ccp.aimd",
    )
