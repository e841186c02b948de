"""The emulator's process as seen from the run, and the channel that controls it.

JSON lines travel in both directions over a pair of Unix sockets. When the run's process dies, its end of the
channel closes, and the emulator exits.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from experiments.netlab import process
from experiments.netlab.errors import LabError
from experiments.netlab.host import Host

START_TIMEOUT_S: Final = 30.0
ANSWER_TIMEOUT_S: Final = 10.0

_WHERE: Final = "network emulator"
_PROGRAM: Final = Path(__file__).with_name("emulator.py")
_ROOT: Final = Path(__file__).parents[2]
_PYTHONPATH: Final = [path for path in [os.environ.get("PYTHONPATH")] if path]
_REAP_TIMEOUT_S: Final = 2.0


class Control:
    """The run's end of the channel; several threads may use it."""

    def __init__(self, sock: socket.socket, died: Callable[[], LabError]) -> None:
        """Use a socket as the channel.

        Args:
            sock: The socket; `close` closes it.
            died: Returns the error to raise when the other end is closed.
        """
        self._sock = sock
        self._died = died
        self._received = b""
        self._last_id = 0
        self._lock = threading.Lock()

    def wait_ready(self, timeout_s: float = START_TIMEOUT_S) -> None:
        """Wait until the emulator carries packets.

        Raises:
            LabError: `lab.emulator_died` or `lab.timeout`.
        """
        with self._lock:
            while "ready" not in self._line(time.monotonic() + timeout_s, "start"):
                pass

    def request(self, do: str, *, timeout_s: float = ANSWER_TIMEOUT_S, **fields: Any) -> Any:
        """Send a request, and return the emulator's answer.

        Raises:
            LabError: `lab.emulator_refused`, `lab.emulator_died`, `lab.timeout`, or `lab.closed` after
                `close`.
        """
        with self._lock:
            if self._sock.fileno() < 0:
                raise LabError(
                    "lab.closed", "the network is closed", _WHERE, "", "use the network in its `with` block"
                )
            self._last_id += 1
            deadline_s = time.monotonic() + timeout_s
            line = json.dumps({"id": self._last_id, "do": do, **fields}).encode() + b"\n"
            try:
                self._sock.settimeout(timeout_s)
                self._sock.sendall(line)
            except TimeoutError as error:
                raise _late(do) from error
            except OSError as error:
                raise self._died() from error
            answer = self._line(deadline_s, do)
            while answer.get("id") != self._last_id:  # skip answers to requests that timed out
                answer = self._line(deadline_s, do)
        if "error" in answer:
            raise LabError("lab.emulator_refused", str(answer["error"]), _WHERE, f"the request was `{do}`")
        return answer.get("ok")

    def close(self) -> None:
        """Close this end; may be called again."""
        with self._lock:
            self._sock.close()

    def _line(self, deadline_s: float, doing: str) -> dict[str, Any]:
        while b"\n" not in self._received:
            try:
                self._sock.settimeout(max(0.001, deadline_s - time.monotonic()))
                more = self._sock.recv(65536)
            except TimeoutError as error:
                raise _late(doing) from error
            except ConnectionResetError:
                more = b""
            if not more:
                raise self._died()
            self._received += more
        line, _, self._received = self._received.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        return answer


def _late(doing: str) -> LabError:
    return LabError(
        "lab.timeout",
        f"no answer to `{doing}`",
        _WHERE,
        "the emulator is suspended, or the machine is overloaded",
        "check `ccp lab list`, and what else runs on the machine",
    )


class EmulatorProcess:
    """The process that emulates a network.

    Attributes:
        control: Channel that controls it.
    """

    def __init__(
        self, host: Host, spec_json: bytes, tun_fds: Sequence[int], more_fds: Sequence[int] = ()
    ) -> None:
        """Start the process, and wait until it carries packets.

        Args:
            host: Host whose namespace it runs in; it uses no network there, but the lab finds and ends the
                processes of its namespaces, even after a run was killed.
            spec_json: The network.
            tun_fds: The hosts' TUN devices; the process gets copies.
            more_fds: Other open files that the network refers to by number; the process gets copies.

        Raises:
            LabError: `lab.emulator_died` or `lab.timeout`.
        """
        with contextlib.ExitStack() as undo:
            self._log = undo.enter_context(tempfile.TemporaryFile())
            own, other = map(undo.enter_context, socket.socketpair())
            self.control = Control(own, self.died)
            with other, tempfile.TemporaryFile() as spec:
                spec.write(spec_json)
                spec.seek(0)
                fds = [other.fileno(), *tun_fds]
                self._process = host.popen(
                    # As a file, not with -m: importing the package would take longer than everything else.
                    # -P: do not import modules from the script's folder or the current one.
                    [sys.executable, "-P", str(_PROGRAM), *map(str, fds)],
                    stdin=spec,
                    stderr=self._log,
                    env={**os.environ, "PYTHONPATH": os.pathsep.join([str(_ROOT), *_PYTHONPATH])},
                    pass_fds=[*fds, *more_fds],
                )
            undo.callback(process.end, [self._process])
            self.control.wait_ready()
            self._owned = undo.pop_all()

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether the process is running."""
        return self._process.poll() is None

    def died(self) -> LabError:
        """Return the error that explains why the process exited by itself."""
        try:
            returncode: int | None = self._process.wait(_REAP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            returncode = None
        how = "closed its channel" if returncode is None else f"exited with {process.status(returncode)}"
        return LabError(
            "lab.emulator_died",
            f"the emulator {how}",
            f"{_WHERE}, process {self.pid}",
            self._last_words(),
            "the emulated network no longer works: start the run again",
        )

    def stop(self) -> LabError | None:
        """End the process; may be called again.

        Returns:
            The error, if the process had exited by itself before, or failed at its end.
        """
        if self._log.closed:
            return None
        with self._owned:
            if not self.running:
                return self.died()
            try:
                self.control.request("stop")
                returncode = self._process.wait(ANSWER_TIMEOUT_S)
            except LabError as error:
                return error
            except subprocess.TimeoutExpired:
                return _late("stop")
            return None if returncode == 0 else self.died()

    def _last_words(self) -> str:
        self._log.seek(0)
        return (
            self._log.read().decode(errors="replace").strip()[-process.TAIL_CHARACTERS :]
            or "it wrote nothing"
        )
