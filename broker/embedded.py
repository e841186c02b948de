"""The embedded broker: Mosquitto with generated settings, restarted when it exits.

    with EmbeddedBroker() as broker:
        bus = Bus(broker.options, sender="host-a")

`ccp bus serve` runs one from the command line (`broker.embedded_command`). Mosquitto runs as user
nobody and ends when the process that started it ends, even if that process is killed
(`broker.embedded_process`).

Users are required on addresses other than loopback. A user may publish only under its own name, unless an
access list says otherwise. Limits come from `broker/mosquitto/mosquitto.conf`, as for a Mosquitto service.
"""

from __future__ import annotations

import contextlib
import ipaddress
import json
import logging
import os
import re
import secrets
import shutil
import socket
import ssl
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import IO, Any, Final, Self
from urllib.parse import parse_qs

from broker.errors import BusError
from broker.options import PORT, BusOptions, Tls
from broker.users import password_line

log = logging.getLogger("ccplane.bus")

LOOPBACK: Final = "127.0.0.1"
SETTINGS: Final = Path(__file__).with_name("mosquitto")
"""Files of the Mosquitto service: its configuration, and the access list for brokers with users."""
LIMITS: Final = "# Limits and log."
"""First line of the settings in `mosquitto.conf` that apply to every broker."""

RESTART_MIN_S: Final = 0.1
"""Delay before an exited broker is restarted [s]; doubled each time the broker exits soon after a start."""
RESTART_MAX_S: Final = 10.0

_STOP_S: Final = 5.0
_PORT_TRIES: Final = 5
_PROCESS: Final = Path(__file__).with_name("embedded_process.py")
_FOLDERS: Final = "/usr/sbin:/usr/local/sbin:/opt/homebrew/sbin"
_CONFIGURATION: Final = """\
listener {port} {host}
max_connections 1000
{tls}{rights}
user root
log_timestamp false
log_type information
{limits}"""
_TLS: Final = "certfile certificate\nkeyfile key\n"
_USERS: Final = "allow_anonymous false\npassword_file users\nacl_file acl"
_OPEN: Final = "allow_anonymous true"

_TEXT: Final = re.compile(
    r"embedded(?::(?:(?P<host>[^:?]+|\[[^\]]+\]):)?(?P<port>\d{1,5}))?(?:\?(?P<query>.*))?"
)
_FORM: Final = "embedded[:[ADDRESS:]PORT][?users=FILE[&acl=FILE][&cert=FILE&key=FILE[&ca=FILE]]]"


def mosquitto_program() -> Path:
    """Return the path of the Mosquitto program.

    Raises:
        BusError: `bus.no_mosquitto`.
    """
    found = shutil.which("mosquitto", path=f"{os.environ.get('PATH', os.defpath)}:{_FOLDERS}")
    if found is None:
        raise BusError(
            "bus.no_mosquitto",
            "cannot start a broker: no program `mosquitto`",
            where=f"PATH, {_FOLDERS.replace(':', ', ')}",
            why="embedded brokers are Eclipse Mosquitto, which is not installed here",
            fix="`apt-get install mosquitto`, `dnf install mosquitto` or `brew install mosquitto`; "
            "or use another machine's broker: --broker mqtt://HOST",
        )
    return Path(found)


def check_open(host: str, *, has_users: bool) -> None:
    """Refuse to run without users on an address that other machines can reach.

    Raises:
        BusError: `bus.users_required`, or `bus.bad_url` if the host is not an IP address.
    """
    try:
        is_loopback = ipaddress.ip_address(host).is_loopback
    except ValueError as error:
        raise BusError(
            "bus.bad_url",
            f"cannot listen on `{host}`",
            why=str(error),
            fix="give an IP address of this machine, such as 127.0.0.1",
        ) from None
    if not (is_loopback or has_users):
        raise BusError(
            "bus.users_required",
            f"refusing to start an unauthenticated broker on {host}, a non-loopback address",
            why="anyone who reaches the broker could publish telemetry, and algorithms act on it",
            fix="create users with `ccp bus user add FILE USER...` and pass the file: "
            f"`ccp run --broker 'embedded:{host}:{PORT}?users=FILE'`, or --users FILE of "
            "`ccp bus serve`; or listen on 127.0.0.1",
        )


class EmbeddedBroker:
    """A Mosquitto process that is restarted when it exits.

    Attributes:
        options: How clients connect, once the broker is started.
        restarts: Number of restarts.
        pid: Process id of Mosquitto; None while it is not running.
        waits: Whether another process still has the port: `start` then only checks that Mosquitto can use its
            files, and `proceed` starts it.
    """

    def __init__(
        self,
        port: int = 0,
        *,
        host: str = LOOPBACK,
        users: Path | None = None,
        acl: Path | None = None,
        certificate: Path | None = None,
        key: Path | None = None,
        ca: Path | None = None,
        anonymous: bool = False,
    ) -> None:
        """Prepare the broker; `start`, or `with`, starts it.

        Args:
            port: TCP port; 0 takes a free one.
            host: Address to listen on.
            users: Mosquitto password file; without one, all clients are accepted, on a loopback address only.
            acl: Mosquitto access list; None for the default list where users exist.
            certificate: PEM file with the certificate for TLS; None for plain TCP.
            key: PEM file with the certificate's key, if `certificate` does not contain it.
            ca: PEM file with the authority that clients trust; None for the system's.
            anonymous: Accept clients that give no user name, on any address.

        Raises:
            BusError: `bus.users_required`.
        """
        check_open(host, has_users=users is not None or anonymous)
        address = ipaddress.ip_address(host)
        reached = host if not address.is_unspecified else LOOPBACK if address.version == 4 else "::1"
        self.options = BusOptions(host=reached, port=port, tls=None if certificate is None else Tls(ca))
        self.restarts = 0
        self.pid: int | None = None
        self.waits = False
        self._host = host
        self._users, self._acl = users, acl or SETTINGS / "acl"
        self._certificate, self._key = certificate, key or certificate
        self._own_lines = ""
        self._files: dict[str, str] = {}
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._stopping = threading.Event()
        self._watcher: threading.Thread | None = None

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Return the embedded broker that an option of the command line describes.

        Args:
            text: `embedded[:[ADDRESS:]PORT][?users=FILE[&acl=FILE][&cert=FILE&key=FILE[&ca=FILE]]]`.

        Raises:
            BusError: `bus.bad_url`, `bus.users_required`, `bus.no_mosquitto`.
        """
        found = _TEXT.fullmatch(text)
        query = parse_qs(found["query"] or "", keep_blank_values=True) if found else {}
        if found is None or set(query) - {"users", "acl", "cert", "key", "ca"}:
            raise BusError("bus.bad_url", f"cannot parse broker `{text}`", fix=f"write {_FORM}")
        mosquitto_program()
        files = {name: Path(values[-1]) for name, values in query.items()}
        return cls(
            int(found["port"] or PORT),
            host=(found["host"] or LOOPBACK).strip("[]"),
            users=files.get("users"),
            acl=files.get("acl"),
            certificate=files.get("cert"),
            key=files.get("key"),
            ca=files.get("ca"),
        )

    def with_user(self, name: str) -> Self:
        """Add a user with a random password for this process; do nothing if the broker has no users."""
        if self._users is not None:
            password = secrets.token_urlsafe()
            self.options = self.options.as_user(name, password)
            self._own_lines = password_line(name, password)
        return self

    def start(self) -> Self:
        """Start Mosquitto and wait until it listens; from then on it is restarted whenever it exits.

        Raises:
            BusError: If it cannot listen: `bus.no_mosquitto`, `bus.port_taken` and others.
        """
        self._stopping.clear()
        self._files = self._read()  # now, before privileges are dropped
        if self.waits:
            self._try_out()
        else:
            self._watch_in_thread(self._spawn())
        return self

    def proceed(self) -> None:
        """Start Mosquitto if `start` did not, as soon as the port is free: until then it is tried again."""
        if self.waits:
            self.waits = False
            self._watch_in_thread(None)

    def _watch_in_thread(self, process: subprocess.Popen[str] | None) -> None:
        self._watcher = threading.Thread(target=self._watch, args=(process,), name="ccp-broker", daemon=True)
        self._watcher.start()

    def _read(self) -> dict[str, str]:
        """Return Mosquitto's files except its configuration."""
        files = {}
        if self._users is not None:
            files["users"] = _text(self._users, "bus.no_password_file", "the password file") + "\n"
            files["users"] += self._own_lines
            files["acl"] = _text(self._acl, "bus.bad_acl", "the access list")
        if self._certificate is not None and self._key is not None:
            try:
                ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(self._certificate, self._key)
                files["certificate"], files["key"] = self._certificate.read_text(), self._key.read_text()
            except (OSError, ValueError) as error:  # among them ssl.SSLError
                raise BusError(
                    "bus.tls_files",
                    f"cannot use the certificate or its key: {error}",
                    where=f"{self._certificate}, {self._key}",
                    fix="give certificate and key as PEM files; broker/mosquitto/make-secrets.sh creates a "
                    "pair",
                ) from error
        return files

    def _configuration(self, port: int) -> str:
        text = (SETTINGS / "mosquitto.conf").read_text()
        return _CONFIGURATION.format(
            host=self._host,
            port=port,
            tls=_TLS if self._certificate is not None else "",
            rights=_USERS if self._users is not None else _OPEN,
            limits=text[text.index(LIMITS) :],
        )

    def _try_out(self) -> None:
        """Start Mosquitto on another port, and stop it again."""
        wanted = self.options
        self.options = replace(wanted, port=0)
        try:
            _end(self._spawn())
        finally:
            self.options, self._process, self.pid = wanted, None, None

    def _spawn(self) -> subprocess.Popen[str]:
        """Start the process, on its previous port if it had one."""
        tries = 1 if self.options.port else _PORT_TRIES
        while True:
            port = self.options.port or _free_port(self._host)
            try:
                process, pid = self._start_process(port)
                break
            except BusError as error:
                tries -= 1
                if error.slug != "bus.port_taken" or not tries:
                    raise
        with self._lock:
            self._process, self.pid = process, pid
            self.options = replace(self.options, port=port)
        return process

    def _start_process(self, port: int) -> tuple[subprocess.Popen[str], int]:
        files = {**self._files, "mosquitto.conf": self._configuration(port)}
        program = mosquitto_program()
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(_PROCESS)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )
        with contextlib.suppress(BrokenPipeError):
            _pipe(process.stdin).write(json.dumps([str(program), files]) + "\n")
            _pipe(process.stdin).flush()
        with _pipe(process.stdout) as answers:
            line = answers.readline()
        if not line:
            tail = _end(process)
            raise self._not_started(port, process.returncode, tail)
        answer: dict[str, Any] = json.loads(line)
        return process, int(answer["pid"])

    def _not_started(self, port: int, code: int, log_text: str) -> BusError:
        shown = f"[{self._host}]" if ":" in self._host else self._host
        errors = [line for line in log_text.splitlines() if line.startswith("Error")]
        why = "; ".join(line.removeprefix("Error: ") for line in errors)
        lower = why.lower()
        if any(reason in lower for reason in ("in use", "assign requested", "permission denied")):
            return BusError(
                "bus.port_taken",
                f"cannot listen on {shown}, port {port}",
                why=why,
                fix="choose another port; if the system's Mosquitto uses this port, connect to that "
                "Mosquitto (--broker mqtt://127.0.0.1) or stop the service (`systemctl disable --now "
                "mosquitto`)",
            )
        if "acl" in lower:
            return BusError(
                "bus.bad_acl",
                f"Mosquitto cannot read the access list: {why}",
                where=str(self._acl),
                fix="write the access list as a Mosquitto acl_file; broker/mosquitto/acl is an example",
            )
        if "password" in lower:
            return BusError(
                "bus.no_password_file",
                f"Mosquitto cannot read the password file: {why}",
                where=str(self._users),
                fix="write the password file with `ccp bus user add` or `mosquitto_passwd` of Mosquitto 2",
            )
        return BusError(
            "bus.broker_died",
            "Mosquitto exited before it was listening",
            why=f"Mosquitto exited with {_how(code)}" + (f":\n{log_text}" if log_text else ""),
            fix="ccplane needs Mosquitto 2.0.11 or newer (`mosquitto -h` shows the version)",
        )

    def _watch(self, process: subprocess.Popen[str] | None) -> None:
        """Forward Mosquitto's log; restart Mosquitto when it exits, until `stop`.

        Args:
            process: The running process; None to start it, as soon as its port is free.
        """
        wait_s = RESTART_MIN_S
        while True:
            started_s = time.monotonic()
            if process is not None:
                for line in _pipe(process.stderr):
                    log.log(_level(line), "embedded broker: %s", line.rstrip())
                code = process.wait()
                if self._stopping.is_set():
                    return
                log.error("the embedded broker exited (%s); restarting it", _how(code))
                _end(process)
            restarts = process is not None
            if time.monotonic() - started_s > RESTART_MAX_S:
                wait_s = RESTART_MIN_S
            while True:
                if self._stopping.wait(wait_s):
                    return
                wait_s = min(2 * wait_s, RESTART_MAX_S)
                try:
                    process = self._spawn()
                    break
                except (BusError, OSError) as error:
                    log.error("cannot start the embedded broker, retrying: %s", error)
            if self._stopping.is_set():  # `stop` may have run before this process was known
                _end(process)
                return
            self.restarts += restarts

    def stop(self) -> None:
        """Stop Mosquitto, if it is running."""
        self._stopping.set()
        with self._lock:
            process, self._process, self.pid = self._process, None, None
        if process is not None:
            # Closing standard input also stops it where it runs as a user that this process may not signal.
            _pipe(process.stdin).close()
            try:
                process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                log.error("the embedded broker (process %d) does not exit", process.pid)
        if self._watcher is not None:
            self._watcher.join(_STOP_S)
            self._watcher = None
        if process is not None:
            _pipe(process.stderr).close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()


def _pipe(stream: IO[str] | None) -> IO[str]:
    assert stream is not None  # all three are pipes
    return stream


def _end(process: subprocess.Popen[str]) -> str:
    """Reap a process that is exiting, and return the rest of its log."""
    with contextlib.suppress(BrokenPipeError):
        _pipe(process.stdin).close()
    tail = "" if _pipe(process.stderr).closed else _pipe(process.stderr).read()
    process.wait()
    _pipe(process.stderr).close()
    return tail.strip()


def _how(code: int) -> str:
    signal = -code if code < 0 else code - 128
    return f"signal {signal}" if signal > 0 else f"code {code}"


def _level(line: str) -> int:
    if not line.startswith(("Error", "Warning")) or "does not contain '%c' or '%u'" in line:
        return logging.DEBUG
    return logging.WARNING


def _text(file: Path, slug: str, what: str) -> str:
    try:
        return file.read_text()
    except (OSError, ValueError) as error:
        raise BusError(slug, f"cannot read {what}: {error}", where=str(file)) from error


def _free_port(host: str) -> int:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.create_server((host, 0), family=family) as server:
            return int(server.getsockname()[1])
    except OSError as error:
        raise BusError(
            "bus.port_taken",
            f"cannot listen on {host}",
            why=str(error),
            fix="give an address of this machine",
        ) from error


if __name__ == "__main__":
    from broker.embedded_command import run

    run()
