"""A broker that needs no installation: `native/ccp-broker`, in a process that is started again if it dies.

    with EmbeddedBroker() as broker:
        bus = Bus(broker.options, sender="host-a")

`python -m broker.embedded` runs the process by hand (`broker.embedded_process`). It ends with the process
that started it, however that ended: its standard input is a pipe, and the pipe closes.

It speaks MQTT 5 on one port, plain or TLS, and reads Mosquitto's password files and access lists. On an
address that others reach it wants users; these may publish in their own name only, unless an access list says
otherwise.
"""

from __future__ import annotations

import contextlib
import ipaddress
import json
import logging
import os
import re
import secrets
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
OWN_NAMES: Final = Path(__file__).with_name("mosquitto") / "acl"
"""Access list where there are users and no other is given: all read everything, write in their own name."""

RESTART_MIN_S: Final = 0.1
"""Wait before a broker that died is started again [s]; it doubles with every death soon after a start."""
RESTART_MAX_S: Final = 10.0

_STOP_S: Final = 5.0
_PACKAGES: Final = Path(__file__).parents[1]
"""Where this package was imported from: the process is to come from there, too."""

_TEXT: Final = re.compile(
    r"embedded(?::(?:(?P<host>[^:?]+|\[[^\]]+\]):)?(?P<port>\d{1,5}))?(?:\?(?P<query>.*))?"
)
_FORM: Final = "embedded[:[ADDRESS:]PORT][?users=FILE[&acl=FILE][&cert=FILE&key=FILE[&ca=FILE]]]"


def check_open(host: str, *, has_users: bool) -> None:
    """Refuse to let everybody in on an address that others reach.

    Raises:
        BusError: `bus.users_required`, or `bus.bad_url` if the host is no address.
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
            f"a broker on {host} lets everybody in who reaches it",
            why="without users anybody could publish anything there, and algorithms act on it",
            fix="make users with `python -m broker.users FILE USER...`, and name their file: "
            f"`ccp run --broker 'embedded:{host}:{PORT}?users=FILE'`, or --users FILE of "
            "`python -m broker.embedded`; or listen on 127.0.0.1",
        )


class EmbeddedBroker:
    """A broker in a process of its own, for as long as it is wanted.

    Attributes:
        options: How to reach it, once it is started.
        restarts: How often it was started again.
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
    ) -> None:
        """Prepare; `start`, or `with`, starts it.

        Args:
            port: TCP port; 0 takes a free one.
            host: Address to listen on.
            users: Password file of Mosquitto; None lets everybody in, on a loopback address only.
            acl: Access list of Mosquitto; None for `OWN_NAMES` where there are users.
            certificate: PEM file with the certificate for TLS; None for plain TCP.
            key: PEM file with its key.
            ca: PEM file by which `options` trust the certificate; None for the system's.

        Raises:
            BusError: `bus.users_required`.
        """
        check_open(host, has_users=users is not None)
        address = ipaddress.ip_address(host)
        reached = host if not address.is_unspecified else LOOPBACK if address.version == 4 else "::1"
        self.options = BusOptions(host=reached, port=port, tls=None if certificate is None else Tls(ca))
        self.restarts = 0
        self._arguments = ["--with-parent", "--host", host]
        files = {"--users": users, "--acl": acl, "--certificate": certificate, "--key": key}
        for name, file in files.items():
            if file is not None:
                self._arguments += [name, str(file)]
        self._has_users = users is not None
        self._own_lines = ""
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._stopping = threading.Event()
        self._watcher: threading.Thread | None = None

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Return the broker that a command line asks for.

        Args:
            text: `embedded[:[ADDRESS:]PORT][?users=FILE[&acl=FILE][&cert=FILE&key=FILE[&ca=FILE]]]`.

        Raises:
            BusError: `bus.bad_url`, `bus.users_required`.
        """
        found = _TEXT.fullmatch(text)
        query = parse_qs(found["query"] or "", keep_blank_values=True) if found else {}
        if found is None or set(query) - {"users", "acl", "cert", "key", "ca"}:
            raise BusError("bus.bad_url", f"`{text}` names no broker", fix=f"write {_FORM}")
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
        """Let whoever starts the broker in, too, as a user with a password that nobody else knows.

        Without users there is nothing to do.
        """
        if self._has_users:
            password = secrets.token_urlsafe()
            self.options = self.options.as_user(name, password)
            self._own_lines = password_line(name, password)
        return self

    @property
    def pid(self) -> int | None:
        """Its process; None if it does not run."""
        process = self._process
        return None if process is None else process.pid

    def start(self) -> Self:
        """Start it and wait until it listens; from then on it is started again whenever it dies.

        Raises:
            BusError: What keeps it from listening, such as `bus.port_taken`.
        """
        self._stopping.clear()
        process = self._spawn()
        self._watcher = threading.Thread(target=self._watch, args=(process,), name="ccp-broker", daemon=True)
        self._watcher.start()
        return self

    def try_out(self, *, elsewhere: bool) -> None:
        """Start its process and end it again: its files can be read, and it can listen.

        Args:
            elsewhere: Let it listen on another port, because the one that it wants is not free yet.

        Raises:
            BusError: As `start`.
        """
        wanted = self.options
        if elsewhere:
            self.options = replace(wanted, port=0)
        try:
            _end(self._spawn())
        finally:
            self.options, self._process = wanted, None

    def _spawn(self) -> subprocess.Popen[str]:
        """Start the process, on the port that it had before, if it had one."""
        process = subprocess.Popen(
            [
                sys.executable,
                "-P",
                "-m",
                "broker.embedded",
                *self._arguments,
                "--port",
                str(self.options.port),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            env={**os.environ, "PYTHONPATH": str(_PACKAGES)},
        )
        with contextlib.suppress(BrokenPipeError):
            _pipe(process.stdin).write(json.dumps(self._own_lines) + "\n")
            _pipe(process.stdin).flush()
        with _pipe(process.stdout) as answers:
            line = answers.readline()
        said: dict[str, Any] = json.loads(line) if line else {}
        if "listening" not in said:
            tail = _end(process)
            raise BusError(*said["error"]) if "error" in said else _died(process.returncode, tail)
        with self._lock:
            self._process = process
            self.options = replace(self.options, port=said["listening"])
        return process

    def _watch(self, process: subprocess.Popen[str]) -> None:
        """Log what it tells; start it again when it ends, for as long as it is wanted."""
        wait_s = RESTART_MIN_S
        while True:
            started_s = time.monotonic()
            for line in _pipe(process.stderr):
                log.warning("embedded broker: %s", line.rstrip())
            code = process.wait()
            if self._stopping.is_set():
                return
            log.error("the embedded broker ended (%s); starting it again", _how(code))
            if time.monotonic() - started_s > RESTART_MAX_S:
                wait_s = RESTART_MIN_S
            while True:
                if self._stopping.wait(wait_s):
                    return
                wait_s = min(2 * wait_s, RESTART_MAX_S)
                _end(process)
                try:
                    process = self._spawn()
                    break
                except (BusError, OSError) as error:
                    log.error("the embedded broker cannot be started again; trying on: %s", error)
            if self._stopping.is_set():  # `stop` may have been too early to see it
                _end(process)
                return
            self.restarts += 1

    def stop(self) -> None:
        """End it; nothing happens if it does not run."""
        self._stopping.set()
        with self._lock:
            process, self._process = self._process, None
        if process is not None:
            # By its standard input: it may run as another user, whom we may not signal.
            _pipe(process.stdin).close()
            try:
                process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if self._watcher is not None:
            self._watcher.join(_STOP_S)
            self._watcher = None
        if process is not None:
            _pipe(process.stderr).close()

    def __enter__(self) -> Self:
        """Start it."""
        return self.start()

    def __exit__(self, *_: object) -> None:
        """End it."""
        self.stop()


def _pipe(stream: IO[str] | None) -> IO[str]:
    assert stream is not None  # all three are pipes
    return stream


def _end(process: subprocess.Popen[str]) -> str:
    """Reap a process that has nothing more to do, and return what it said last."""
    with contextlib.suppress(BrokenPipeError):
        _pipe(process.stdin).close()
    tail = "" if _pipe(process.stderr).closed else _pipe(process.stderr).read()
    process.wait()
    _pipe(process.stderr).close()
    return tail.strip()


def _how(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"code {code}"


def _died(code: int, tail: str) -> BusError:
    return BusError(
        "bus.broker_died",
        "the embedded broker ended before it listened",
        why=f"its process ended with {_how(code)}" + (f":\n{tail}" if tail else ""),
        fix="try `python -m broker.embedded` by hand, or use another broker",
    )


if __name__ == "__main__":
    from broker.embedded_process import run

    run()
