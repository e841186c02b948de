"""Names of the lab's network namespaces; they identify the owning process, and whether it still lives.

A name is `ccp-<pid>-<start>-<lab>-<host>`: the process that created it, its start time (clock ticks since
boot, in case the pid is reused), the number of the lab in that process, and the host. With such names runs
never clash, and leftovers of killed runs can be recognised.
"""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from experiments.netlab.errors import bad_value

PREFIX: Final = "ccp-"
_NAME: Final = re.compile(r"ccp-(?P<pid>\d+)-(?P<start>\d+)-(?P<lab>\d+)-(?P<host>[a-z0-9-]+)")
_HOST: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?")
_START_FIELD: Final = 19
"""Index of `starttime` in /proc/PID/stat, counted after the command name (proc(5): fields 22 and 2)."""


@dataclass(frozen=True)
class Owner:
    """A process, distinguishable from later processes with the same pid.

    Attributes:
        pid: Process id.
        start_ticks: Start time, in clock ticks since boot.
    """

    pid: int
    start_ticks: int

    def is_alive(self) -> bool:
        """Return whether this process still runs."""
        return _start_ticks(self.pid) == self.start_ticks


def _start_ticks(pid: int) -> int | None:
    if sys.platform != "linux":
        # Without /proc, the pid alone identifies a process: enough for files of simulated runs.
        return 0 if _runs(pid) else None
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # The command name is in parentheses, and may contain spaces and parentheses.
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[_START_FIELD])  # a zombie owns nothing


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def this_process() -> Owner:
    """Return the owner for this process."""
    start_ticks = _start_ticks(os.getpid())
    if start_ticks is None:
        raise bad_value("cannot read /proc/self/stat", "/proc", "mount /proc in this container")
    return Owner(os.getpid(), start_ticks)


def is_host_name(host: str) -> bool:
    """Return whether this is a valid name of a host."""
    return _HOST.fullmatch(host) is not None


def namespace_name(owner: Owner, lab_number: int, host: str) -> str:
    """Return the namespace's name for a host of a lab.

    Raises:
        LabError: `lab.bad_value`, if the host's name has characters other than a-z, 0-9 and inner `-`.
    """
    if not is_host_name(host):
        raise bad_value(f"invalid host name: `{host}`", "host", "use 1 to 32 of a-z, 0-9 and inner `-`")
    return f"{PREFIX}{owner.pid}-{owner.start_ticks}-{lab_number}-{host}"


def owner_of(namespace: str) -> Owner | None:
    """Return the owner of a namespace; None if the namespace is not a lab's."""
    match = _NAME.fullmatch(namespace)
    return Owner(int(match["pid"]), int(match["start"])) if match else None


def host_of(namespace: str) -> str:
    """Return the host name in a lab namespace's name; for other namespaces, the whole name."""
    match = _NAME.fullmatch(namespace)
    return match["host"] if match else namespace
