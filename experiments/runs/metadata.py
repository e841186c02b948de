"""The metadata of a result: code, machine and settings."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ccplane.base import _native
from experiments.runs import files
from experiments.runs.check import SIM, own_of

if TYPE_CHECKING:
    from experiments.scenario import Scenario

_ROOT: Final = Path(__file__).parents[2]
_SYSCTLS: Final = ("net/ipv4/tcp_*", "net/core/[rw]mem_*", "net/core/default_qdisc", "net/core/netdev_*")
_GIT_TIMEOUT_S: Final = 10.0


def gathered(scenario: Scenario) -> dict[str, Any]:
    """Return the metadata that is known before a run of a scenario.

    For simulations this omits the machine's kernel and its settings, because they have no influence.
    """
    about = {
        "scenario_sha256": scenario.content_hash(),
        "name": scenario.name,
        "seed": scenario.seed,
        "datapath": scenario.datapath,
        "ccplane": {
            "version": metadata.version("ccplane"),
            "git": git_revision(),
            "native_sha256": _hash(_native.__file__),
            "algorithms": {name: files.source_hash(name) for name in sorted(own_of(scenario))},
        },
    }
    machine = {
        "architecture": platform.machine(),
        "cpu": _cpu_model(),
        "python": platform.python_version(),
    }
    if scenario.datapath == SIM:
        return about | {"machine": machine}
    kernel = {
        "kernel": platform.release(),
        "system": platform.version(),
        "cores": len(os.sched_getaffinity(0)),
        "governor": _read(Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")),
    }
    return about | {"machine": kernel | machine, "sysctls": _sysctls()}


def git_revision() -> dict[str, Any] | None:
    """Return commit and state of the sources; None if they are not in a repository."""
    commit = _run_git("rev-parse", "HEAD")
    if commit is None:
        return None
    return {"commit": commit, "dirty": bool(_run_git("status", "--porcelain"))}


def _run_git(*arguments: str) -> str | None:
    # Without locks: a killed process would leave one in the repository.
    command = ["git", "--no-optional-locks", "-c", f"safe.directory={_ROOT}", "-C", str(_ROOT), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_GIT_TIMEOUT_S, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def _hash(file: str | None) -> str | None:
    return hashlib.sha256(Path(file).read_bytes()).hexdigest() if file else None


def _cpu_model() -> str | None:
    for line in (_read(Path("/proc/cpuinfo")) or "").splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return None


def _sysctls() -> dict[str, str]:
    root = Path("/proc/sys")
    found = {file for pattern in _SYSCTLS for file in root.glob(pattern)}
    values = {".".join(file.relative_to(root).parts): _read(file) for file in sorted(found)}
    return {name: value for name, value in values.items() if value is not None}


def _read(file: Path) -> str | None:
    try:
        return file.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return None
