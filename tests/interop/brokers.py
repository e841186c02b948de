"""Brokers for tests: embedded ones, and Mosquitto as a service has it, with the files of broker/mosquitto."""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from broker.embedded import SETTINGS, EmbeddedBroker, mosquitto_program
from broker.options import BusOptions, Tls
from experiments.netlab.sockets import free_port
from tests.waiting import wait_until as wait_until

USERS = {"anna": "secret", "ben": "p w ä$", "recv": "r", "host-a": "h"}
PATIENCE_S = 30.0


@dataclass(frozen=True)
class Secrets:
    """What `make-secrets.sh` made."""

    folder: Path

    @property
    def users(self) -> Path:
        return self.folder / "secrets/passwords"

    @property
    def ca(self) -> Path:
        return self.folder / "secrets/ca.crt"

    @property
    def certificate(self) -> Path:
        return self.folder / "secrets/server.crt"

    @property
    def key(self) -> Path:
        return self.folder / "secrets/server.key"


def make_secrets(folder: Path) -> Secrets:
    shutil.copytree(SETTINGS, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("secrets"))
    subprocess.run(
        [folder / "make-secrets.sh", "localhost,127.0.0.1", *USERS],
        input="".join(f"{password}\n" for password in USERS.values()),
        text=True,
        check=True,
        capture_output=True,
    )
    return Secrets(folder)


class Mosquitto:
    """A Mosquitto process with our configuration, on free ports."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.plain = BusOptions(port=free_port())
        self.tls = BusOptions(host="localhost", port=free_port(), tls=Tls(ca_file=folder / "secrets/ca.crt"))
        text = (folder / "mosquitto.conf").read_text()
        for own, port in (("listener 1883", self.plain.port), ("listener 8883", self.tls.port)):
            assert text.count(own) == 1
            text = text.replace(own, f"listener {port}")
        # As root it would become another user, who may not read the test's folder.
        self.configuration = folder / "test.conf"
        self.configuration.write_text(text + "user root\n")
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> Self:
        self._process = subprocess.Popen(
            [str(mosquitto_program()), "-c", str(self.configuration)],
            cwd=self.folder,
            stderr=subprocess.DEVNULL,
        )
        wait_until(lambda: listens(self.plain.port) and listens(self.tls.port), "Mosquitto's start")
        return self

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


def listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


class TestBroker:
    """An embedded broker with users that a test may stop and start again, on the same port."""

    __test__ = False

    def __init__(self, secrets: Secrets) -> None:
        self._secrets = secrets
        self._port = free_port()
        self._broker: EmbeddedBroker | None = None

    def options(self, user: str) -> BusOptions:
        return fast(BusOptions(port=self._port, user=user, password=USERS[user]))

    def start(self) -> None:
        self._broker = EmbeddedBroker(self._port, users=self._secrets.users).start()

    def stop(self) -> None:
        if self._broker is not None:
            self._broker.stop()


def fast(options: BusOptions) -> BusOptions:
    """Shorten the waits between connections."""
    return replace(options, backoff_min_s=0.02, backoff_max_s=0.1)


@contextlib.contextmanager
def running(secrets: Secrets) -> Iterator[TestBroker]:
    broker = TestBroker(secrets)
    broker.start()
    try:
        yield broker
    finally:
        broker.stop()
