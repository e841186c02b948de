"""Processes with the user, capabilities and mounts of the shipped agent unit, without systemd."""

from __future__ import annotations

import shlex
import sys
from collections import defaultdict
from pathlib import Path

from ccplane.agent import service

UID = 65534
"""In place of the unit's user, which `ccp service install` makes."""
_INSTALLED = {file.path.name: file.text for file in service.files(service.Service.AGENT)}
_READABLE = """
mount -t tmpfs tmpfs /run
n=0; for place in {places}; do mkdir /run/$((n += 1)); mount --bind $place /run/$n; done
for parent in {closed}; do mount -t tmpfs -o mode=0755 tmpfs $parent; done
n=0; for place in {places}; do mkdir -p $place; mount --bind /run/$((n += 1)) $place; done
"""
_MOUNTED = """
umask {umask}
mount -t bpf bpf /sys/fs/bpf
chmod 0711 /sys/fs/bpf
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


def _readable() -> str:
    """Return commands after which every user may read Python and ccplane, also in a closed home."""
    places = [Path(place).resolve() for place in (sys.base_prefix, sys.prefix, service.__file__)]
    places[-1] = places[-1].parents[3]
    closed = [
        next((one for one in reversed(p.parents) if not one.stat().st_mode & 0o001), None) for p in places
    ]
    hidden = [(str(place), str(parent)) for place, parent in zip(places, closed, strict=True) if parent]
    return _READABLE.format(
        places=shlex.join(place for place, _ in hidden),
        closed=shlex.join({parent for _, parent in hidden}),
    )


def run_dir() -> list[str]:
    """Return the command that starts another one with an empty run directory of the unit's user."""
    (name,) = _unit()["RuntimeDirectory"]
    script = f'{_readable()}\ninstall -d -o {UID} -g {UID} /run/{name}; exec "$@"'
    return ["unshare", "--mount", "sh", "-ec", script, "-"]


def mounts() -> list[str]:
    """Return the command that starts another one with the unit's directories, and only those writable.

    Its BPF file system is its own: what is pinned there goes when the last process in it ends.
    """
    unit = _unit()
    assert unit["ProtectKernelTunables"] == ["yes"]  # /sys is read-only
    made = [line.split() for line in _INSTALLED["ccplane.conf"].splitlines() if line.startswith(("d ", "z "))]
    assert ["z", "/sys/fs/bpf", "0711", "root", "root", "-"] in made
    script = _readable() + _MOUNTED.format(
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
