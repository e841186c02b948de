"""Processes with the user, capabilities and mounts of the shipped agent unit, without systemd."""

from __future__ import annotations

import shlex
from collections import defaultdict
from pathlib import Path

from agent import service

UID = 65534
"""In place of the unit's user, which `ccp install-service` makes."""
_INSTALLED = {file.path.name: file.text for file in service.files(service.Service.AGENT)}
_MOUNTED = """
umask {umask}
mount -t bpf bpf /sys/fs/bpf
chmod 0711 /sys/fs/bpf
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /var/lib
install -d -m 0700 -o {uid} -g {uid} {pins} /var/lib/{state}
install -d -m 0755 -o {uid} -g {uid} /run/{run}
for writable in {writable}; do mount --bind $writable $writable; done
mount -o remount,bind,ro /sys/fs/bpf
exec "$@"
"""


def _unit() -> dict[str, list[str]]:
    """Return the words of each setting of the unit."""
    settings = defaultdict(list)
    for line in _INSTALLED["ccplane-agent.service"].splitlines():
        name, is_setting, value = line.partition("=")
        if is_setting and not line.startswith("#"):
            settings[name] += value.split()
    return settings


def rights() -> list[str]:
    """Return the command that starts another one with the unit's user and capabilities."""
    unit = _unit()
    words = ["env", *unit["Environment"], "setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups"]
    for option, setting in (
        ("inh-caps", "AmbientCapabilities"),
        ("ambient-caps", "AmbientCapabilities"),
        ("bounding-set", "CapabilityBoundingSet"),
    ):
        kept = [f"+{name.removeprefix('CAP_').lower()}" for name in unit[setting]]
        words.append(f"--{option}={','.join(['-all', *kept])}")
    assert unit["NoNewPrivileges"] == ["yes"]
    return [*words, "--no-new-privs"]


def run_dir() -> list[str]:
    """Return the command that starts another one with an empty run directory of the unit's user."""
    (name,) = _unit()["RuntimeDirectory"]
    script = f'mount -t tmpfs tmpfs /run; install -d -o {UID} -g {UID} /run/{name}; exec "$@"'
    return ["unshare", "--mount", "sh", "-ec", script, "-"]


def mounts() -> list[str]:
    """Return the command that starts another one with the unit's directories, and only those writable.

    Its BPF file system is its own: what is pinned there goes when the last process in it ends.
    """
    unit = _unit()
    assert unit["ProtectKernelTunables"] == ["yes"]  # /sys is read-only
    made = [line.split() for line in _INSTALLED["ccplane.conf"].splitlines() if line.startswith(("d ", "z "))]
    assert ["z", "/sys/fs/bpf", "0711", "root", "root", "-"] in made
    script = _MOUNTED.format(
        umask=unit["UMask"][0],
        uid=UID,
        pins=shlex.join(path for kind, path, *_ in made if kind == "d"),
        run=unit["RuntimeDirectory"][0],
        state=unit["StateDirectory"][0],
        writable=shlex.join(unit["ReadWritePaths"]),
    )
    return ["unshare", "--mount", "sh", "-ec", script, "-"]


def arguments() -> list[str]:
    """Return the arguments of `ccp run` that the unit gives before those of the administrator."""
    _, run, *words, settings = _unit()["ExecStart"]
    assert (run, settings) == ("run", "$CCP_RUN")
    return words


def reachable() -> None:
    """Raise what `ccp install-service` says where another user than root cannot start this ccplane."""
    service._check_reach(Path(_unit()["ExecStart"][0]))
