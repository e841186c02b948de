"""The example `files` of `native/ccp-quic`, files over QUIC, in hosts of the lab."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from experiments import examples
from experiments.netlab import process
from experiments.netlab.errors import LabError
from experiments.netlab.host import Host
from experiments.netlab.spec import Family
from experiments.traffic.scratch import make_folder

CRATE: Final = "ccp-quic"
EXAMPLE: Final = "files"
PROGRAM: Final = examples.FOLDER / EXAMPLE

QUINN_MOST_BYTES: Final = 1452
"""Largest UDP payload that quinn looks for by itself [bytes]."""
HEADERS_BYTES: Final = 48
"""Of IPv6 and UDP [bytes]."""

_READY_TIMEOUT_S: Final = 10.0
_JOIN_TIMEOUT_S: Final = 5.0
_KEPT_LINES: Final = 20
_ORDINARY: Final = ("serves ", "sent ")


def must_be_built() -> None:
    """See that the checkout has the example.

    Raises:
        LabError: `lab.no_command`.
    """
    if not examples.is_built(PROGRAM):
        raise LabError(
            "lab.no_command",
            f"there is no example of {CRATE}",
            str(PROGRAM),
            "QUIC flows are carried by it, and `make build` does not build it",
            f"{examples.build(CRATE, EXAMPLE)}, in a checkout of ccplane",
        )


class Running:
    """A program of it that runs, and the thread that reads what it says.

    Attributes:
        process: The program.
        where: The host and the command, for errors.
        rows: The lines of JSON among what it said so far.
    """

    def __init__(
        self,
        host: Host,
        arguments: Sequence[str],
        *,
        sample_interval_us: int = 0,
        program: Path = PROGRAM,
        **env: str,
    ) -> None:
        """Start it.

        Args:
            host: Where.
            arguments: Its own.
            sample_interval_us: How often it says how connections fare [us]; 0 for never.
            program: The example, built.
            **env: Environment variables of its own.

        Raises:
            LabError: `lab.no_command` or `lab.closed`.
        """
        mtu_bytes = min(QUINN_MOST_BYTES, host.mtu_bytes - HEADERS_BYTES)
        known = {"FILES_MTU": str(mtu_bytes), "FILES_SAMPLE_US": str(sample_interval_us)}
        self.where = f"host {host.name}: {program.name} {' '.join(arguments)}"
        self.rows: list[dict[str, Any]] = []
        self._lines: list[str] = []
        self._news = threading.Condition()
        self._ended = False
        self.process = host.popen(
            [str(program), *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, **known, **env},
        )
        self._thread = threading.Thread(target=self._follow, name=self.where, daemon=True)
        self._thread.start()

    def line(self, containing: str, timeout_s: float) -> str | None:
        """Return the first line that is no JSON and has a text in it, when it comes.

        Args:
            containing: The text.
            timeout_s: How long to wait for it [s].

        Returns:
            The line; None, if the time is over, or the program.
        """

        def found() -> list[str]:
            return [line for line in self._lines if containing in line]

        with self._news:
            self._news.wait_for(lambda: found() or self._ended, timeout_s)
            return next(iter(found()), None)

    def log(self) -> str:
        """Return the end of what it complained of."""
        complaints = [line for line in self._lines if not line.startswith(_ORDINARY)]
        return "\n".join(complaints[-_KEPT_LINES:])

    def join(self, timeout_s: float) -> None:
        """Return when it has ended and all that it said is read, or after the time."""
        self._thread.join(timeout_s)
        if not self._thread.is_alive():  # it closed its output: its last act
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(_JOIN_TIMEOUT_S)

    def stop(self) -> None:
        """End it; may be called again."""
        process.end([self.process])
        self._thread.join(_JOIN_TIMEOUT_S)

    def _follow(self) -> None:
        assert self.process.stdout is not None
        try:
            for line in self.process.stdout:
                with self._news:
                    if line.startswith("{"):
                        self.rows.append(json.loads(line))
                    else:
                        self._lines.append(line.strip())
                        self._news.notify_all()
        except (ValueError, OSError):  # the lab closed it, or it was killed within a line: everything is over
            pass
        finally:
            with self._news:
                self._ended = True
                self._news.notify_all()


class FileServer(Running):
    """It as a server, whose connections send.

    Attributes:
        port: Where it listens.
        url: Where clients find it.
        folder: Its temporary folder.
        certificate: What clients trust.
    """

    def __init__(
        self,
        host: Host,
        *,
        agent: Path | None = None,
        algorithm: str = "",
        port: int | None = None,
        family: Family = "ipv4",
        sample_interval_us: int = 0,
        program: Path = PROGRAM,
    ) -> None:
        """Start it, and wait until it serves.

        Args:
            host: Where.
            agent: Socket of the agent that has its connections; None: quinn's own CUBIC has.
            algorithm: Which of the agent's; empty for its default.
            port: To listen at; by default one that the host gave to nobody else.
            family: Of addresses.
            sample_interval_us: As of `Running`.
            program: As of `Running`.

        Raises:
            LabError: `lab.no_command`, `lab.not_listening` or `lab.closed`.
        """
        self.port = host.new_port() if port is None else port
        address = host.address(family)
        self.url = f"[{address}]:{self.port}" if family == "ipv6" else f"{address}:{self.port}"
        self._temporary = make_folder(host)
        self.folder = Path(self._temporary.name)
        self.certificate = str(self.folder / "certificate")
        env = {} if agent is None else {"CCP_AGENT": str(agent), "CCP_ALGORITHM": algorithm}
        arguments = ["serve", self.url, str(self.folder), self.certificate]
        try:
            super().__init__(host, arguments, sample_interval_us=sample_interval_us, program=program, **env)
        except BaseException:
            self._temporary.cleanup()
            raise
        if self.line("serves", _READY_TIMEOUT_S) is None:
            self.stop()
            raise LabError(
                "lab.not_listening",
                f"nothing serves files at UDP port {self.port}",
                self.where,
                self.log() or "it did not say why",
                "choose another port if this one is taken",
            )

    def client(self, command: str, *arguments: str) -> list[str]:
        """Return the arguments of a client of this server.

        Args:
            command: `get` or `list`.
            *arguments: What comes after the certificate.
        """
        return [command, self.url, self.certificate, *arguments]

    def stop(self) -> None:
        """End it and remove its folder; may be called again."""
        super().stop()
        self._temporary.cleanup()
