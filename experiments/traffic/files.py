"""The example `files` of `native/ccp-quic`, which serves files over QUIC, on hosts of the lab."""

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

QUINN_MAX_BYTES: Final = 1452
"""Maximum UDP payload that quinn probes for by default [bytes]."""
HEADERS_BYTES: Final = 48
"""Headers of IPv6 and UDP [bytes]."""

_READY_TIMEOUT_S: Final = 10.0
_JOIN_TIMEOUT_S: Final = 5.0
_KEPT_LINES: Final = 20
_ORDINARY: Final = ("serves ", "sent ")


def must_be_built() -> None:
    """Check that the example is built.

    Raises:
        LabError: `lab.no_command`.
    """
    if not examples.is_built(PROGRAM):
        raise LabError(
            "lab.no_command",
            f"the example {EXAMPLE} of {CRATE} is not built",
            str(PROGRAM),
            "the example carries QUIC flows, and `make build` does not build it",
            f"{examples.build(CRATE, EXAMPLE)}, in a checkout of ccplane",
        )


class Running:
    """A running instance of the example, and the thread that reads its output.

    Attributes:
        process: The process.
        where: Host and command, for errors.
        rows: Lines of JSON in its output so far.
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
        """Start the program.

        Args:
            host: Its host.
            arguments: Its arguments.
            sample_interval_us: Time between its samples of connections [us]; 0 for none.
            program: The built example.
            **env: Additional environment variables.

        Raises:
            LabError: `lab.no_command` or `lab.closed`.
        """
        mtu_bytes = min(QUINN_MAX_BYTES, host.mtu_bytes - HEADERS_BYTES)
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
        """Wait for a line of its output that is not JSON and contains a text.

        Returns:
            The line; None after the time limit, or when the program has exited.
        """

        def found() -> list[str]:
            return [line for line in self._lines if containing in line]

        with self._news:
            self._news.wait_for(lambda: found() or self._ended, timeout_s)
            return next(iter(found()), None)

    def log(self) -> str:
        """Return the end of the program's error output."""
        complaints = [line for line in self._lines if not line.startswith(_ORDINARY)]
        return "\n".join(complaints[-_KEPT_LINES:])

    def join(self, timeout_s: float) -> None:
        """Wait until the program has exited and its output is read, or until the time limit."""
        self._thread.join(timeout_s)
        if not self._thread.is_alive():  # it closed its output, so it is about to exit
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(_JOIN_TIMEOUT_S)

    def stop(self) -> None:
        """Stop the program; may be called again."""
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
        except (ValueError, OSError):  # closed by the lab, or killed within a line
            pass
        finally:
            with self._news:
                self._ended = True
                self._news.notify_all()


class FileServer(Running):
    """The example as a server, whose connections send.

    Attributes:
        port: Its port.
        url: URL for clients.
        folder: Its temporary folder.
        certificate: Certificate that clients trust.
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
        """Start the server, and wait until it serves.

        Args:
            host: Its host.
            agent: Socket of the agent that controls its connections; None for quinn's own CUBIC.
            algorithm: Algorithm of the agent; empty for its default.
            port: UDP port; an unused one by default.
            family: Address family.
            sample_interval_us: As in `Running`.
            program: As in `Running`.

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
                f"nothing serves files on UDP port {self.port}",
                self.where,
                self.log() or "the server gave no reason",
                "choose another port if this one is in use",
            )

    def client(self, command: str, *arguments: str) -> list[str]:
        """Return the arguments of a client of this server."""
        return [command, self.url, self.certificate, *arguments]

    def stop(self) -> None:
        """Stop the server and remove its folder; may be called again."""
        super().stop()
        self._temporary.cleanup()
