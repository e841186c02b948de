"""Installs systemd services: units, their users and their settings, for `ccp service install`.

The files next to this module are templates; this module replaces `@CCP@` and other placeholders.
"""

from __future__ import annotations

import os
import stat
import subprocess
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from broker.embedded import mosquitto_program
from ccplane.agent.service.protected import check_protected
from ccplane.base.errors import UsageError

CONFIGURATION: Final = Path("/etc/ccplane")
"""Directory of settings and secrets."""

_UNITS: Final = Path("/etc/systemd/system")
_PINS: Final = _UNITS / "ccplane-pins.service"
_FAILED: Final = _UNITS / "ccplane-failed@.service"
_HERE: Final = Path(__file__).parent
_PACKAGES: Final = _HERE.parents[2]
_BUS: Final = _PACKAGES / "broker" / "mosquitto"
_BUS_CREDENTIALS: Final = "/run/credentials/ccplane-mosquitto.service/"
_BUS_HEAD: Final = "# Written once by `ccp service install mosquitto`, which does not overwrite it.\n\n"
_INSTALL: Final = (
    "install ccplane: python3 -m venv /opt/ccplane; /opt/ccplane/bin/pip install ccplane; "
    "/opt/ccplane/bin/ccp service install"
)
_AS_ROOT: Final = "run as root; --dry-run shows the files, --root DIR writes them elsewhere"
_HOMES: Final = tuple(map(Path, ("/home", "/root", "/run/user")))


class Service(StrEnum):
    """A service with a unit."""

    AGENT = "agent"
    RECEIVER = "receiver"
    RTCP = "rtcp"
    MOSQUITTO = "mosquitto"


_PINNING: Final = (Service.AGENT, Service.RTCP)
"""Services with pins in the kernel."""


@dataclass(frozen=True, slots=True)
class File:
    """A file of a service.

    Attributes:
        path: Its path.
        text: Its contents.
        mode: Its permissions.
        kept: Whether it belongs to the administrator: it is never overwritten or removed.
    """

    path: Path
    text: str
    mode: int = 0o644
    kept: bool = False


def unit_name(service: Service) -> str:
    """Return the name of a service's unit."""
    return f"ccplane-{service}.service"


def files(service: Service) -> Iterator[File]:
    """Yield the files of a service.

    Raises:
        UsageError: `service.no_program`, if `ccp` is not installed.
        BusError: `bus.no_mosquitto`.
    """
    program = mosquitto_program() if service is Service.MOSQUITTO else _ccp()
    text = (_HERE / unit_name(service)).read_text()
    for name, value in {
        "CCP": program,
        "MOSQUITTO": program,
        "PROTECT_HOME": "read-only" if any(_PACKAGES.is_relative_to(home) for home in _HOMES) else "yes",
    }.items():
        text = text.replace(f"@{name}@", str(value))
    yield File(_UNITS / unit_name(service), text)
    yield File(_FAILED, (_HERE / _FAILED.name).read_text())
    if service is Service.MOSQUITTO:
        yield from _bus_files()
        return
    yield File(Path("/etc/sysusers.d/ccplane.conf"), (_HERE / "sysusers.conf").read_text())
    yield File(CONFIGURATION / f"{service}.env", (_HERE / f"{service}.env").read_text(), kept=True)
    if service is not Service.RTCP:
        yield File(CONFIGURATION / f"{service}.password", "", 0o600, kept=True)
    if service in _PINNING:
        yield File(_PINS, (_HERE / _PINS.name).read_text())
        yield File(Path("/etc/tmpfiles.d/ccplane.conf"), (_HERE / "tmpfiles.conf").read_text())


def _bus_files() -> Iterator[File]:
    folder = CONFIGURATION / "mosquitto"
    _, _, settings = (_BUS / "mosquitto.conf").read_text().partition("\n\n")  # drop the head comment
    text = _BUS_HEAD + settings.replace(" secrets/", f" {_BUS_CREDENTIALS}")
    text = text.replace("acl_file acl\n", f"acl_file {folder}/acl\n")
    yield File(folder / "mosquitto.conf", text, kept=True)
    yield File(folder / "acl", (_BUS / "acl").read_text(), kept=True)
    yield File(folder / "make-secrets.sh", (_BUS / "make-secrets.sh").read_text(), 0o755)


def _ccp() -> Path:
    path = Path(sysconfig.get_path("scripts"), "ccp")
    if not path.exists():
        raise UsageError("service.no_program", "`ccp` is not installed", where=str(path), fix=_INSTALL)
    return path


def _check_reach(ccp: Path) -> None:
    """Refuse a `ccp` that the services' users cannot execute."""
    for place in (ccp, _PACKAGES / "ccplane"):
        for folder in (*place.parents, *place.resolve().parents):
            if not folder.stat().st_mode & stat.S_IXOTH:
                raise UsageError(
                    "service.out_of_reach",
                    "the services' users cannot execute this `ccp`",
                    where=str(place),
                    why=f"only the owner and group can enter {folder}",
                    fix=f"in a directory that all users can read, {_INSTALL}",
                )


def install(services: tuple[Service, ...], root: Path) -> list[str]:
    """Write the files of services, and reload systemd; return one line for each action.

    Args:
        services: The services.
        root: Replaces `/`, for images; then no program is run.

    Raises:
        UsageError: `service.no_program`, `service.out_of_reach`, `service.not_protected`,
            `service.not_written`.
    """
    wanted = {file.path: file for service in services for file in files(service)}
    is_here = root == Path("/")
    if is_here and set(services) - {Service.MOSQUITTO}:
        _check_reach(_ccp())
        check_protected(_ccp(), _INSTALL)
    done = []
    for file in wanted.values():
        path = _below(root, file.path)
        if file.kept and path.exists():
            done.append(f"kept {path}")
            continue
        try:
            path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
            new = path.with_name(f".{path.name}.new")
            with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, file.mode), "w") as out:
                os.fchmod(out.fileno(), file.mode)
                out.write(file.text)
            new.replace(path)
        except OSError as error:
            raise _not_written(path, error) from error
        done.append(f"wrote {path}")
    if is_here:
        if set(services) - {Service.MOSQUITTO}:
            _run("systemd-sysusers", "ccplane.conf")
        _take_note()
    return done


def remove(services: tuple[Service, ...], root: Path) -> list[str]:
    """Stop services and remove their files; settings, secrets and users stay.

    Args:
        services: The services.
        root: Replaces `/`; then nothing is stopped.

    Returns:
        One line for each action.

    Raises:
        UsageError: `service.not_written`, `service.refused`.
    """
    done = []
    for service in services:
        unit = _below(root, _UNITS / unit_name(service))
        if unit.exists():
            if root == Path("/"):
                _run("systemctl", "disable", "--now", unit.name)
            done.append(_unlinked(unit))
    left = {one: _below(root, _UNITS / unit_name(one)) for one in Service}
    pinning = [left[one] for one in _PINNING]
    shared = {
        _PINS: pinning,
        Path("/etc/tmpfiles.d/ccplane.conf"): pinning,
        Path("/etc/sysusers.d/ccplane.conf"): [*pinning, left[Service.RECEIVER]],
        _FAILED: [*left.values()],
    }
    for file, users in shared.items():
        path = _below(root, file)
        if path.exists() and not any(unit.exists() for unit in users):
            done.append(_unlinked(path))
    if root == Path("/"):
        _take_note()
    return done


def _below(root: Path, path: Path) -> Path:
    return root / path.relative_to("/")


def _unlinked(path: Path) -> str:
    try:
        path.unlink()
    except OSError as error:
        raise _not_written(path, error) from error
    return f"removed {path}"


def _take_note() -> None:
    if Path("/run/systemd/system").is_dir():  # sd_booted(3)
        _run("systemctl", "daemon-reload")


def _run(*command: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        failed, why = done.returncode != 0, done.stderr.strip()
    except OSError as error:
        failed, why = True, str(error)
    if failed:
        raise UsageError(
            "service.refused",
            f"`{' '.join(command)}` failed",
            why=why,
            fix=f"on a machine with systemd, {_AS_ROOT}",
        )


def _not_written(path: Path, error: OSError) -> UsageError:
    return UsageError(
        "service.not_written",
        f"cannot change {path}",
        why=error.strerror or str(error),
        fix=_AS_ROOT,
    )
