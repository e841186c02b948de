"""A broker that needs no installation: rumqttd, compiled into the native module, in a process of its own.

    with EmbeddedBroker() as broker:
        bus = Bus(broker.options, sender="host-a")

`python -m broker.embedded` is that process; it may also be started by hand. It ends with the process that
started it, however that ended: its standard input is a pipe, and the pipe closes.

It speaks MQTT 5 on one port, plain or TLS, and reads Mosquitto's password files. It has no access lists: who
may connect may publish anything. Where that matters, use Mosquitto (`broker/mosquitto/`).
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Annotated, Any, Final, Self

import typer

from broker.errors import BusError
from broker.options import BusOptions, Tls

LOOPBACK: Final = "127.0.0.1"
START_S: Final = 30.0
"""How long a broker may take to listen [s]; a busy machine takes a second."""

_STOP_S: Final = 5.0
_PACKAGES: Final = Path(__file__).parents[1]
"""Where this package was imported from: the process is to come from there, too."""


class EmbeddedBroker:
    """A broker in a process of its own, for as long as it is wanted.

    Attributes:
        options: How to reach it, once it is started.
    """

    def __init__(
        self,
        port: int = 0,
        *,
        host: str = LOOPBACK,
        users: Path | None = None,
        certificate: Path | None = None,
        key: Path | None = None,
    ) -> None:
        """Prepare; `start`, or `with`, starts it.

        Args:
            port: TCP port; 0 takes a free one.
            host: Address to listen on.
            users: Password file of Mosquitto; None lets everybody in.
            certificate: PEM file with the certificate for TLS; None for plain TCP.
            key: PEM file with its key.
        """
        self.options = BusOptions(host=host, port=port, tls=None if certificate is None else Tls())
        self._arguments = ["--with-parent", "--host", host, "--port", str(port)]
        for name, file in (("--users", users), ("--certificate", certificate), ("--key", key)):
            if file is not None:
                self._arguments += [name, str(file)]
        self._process: subprocess.Popen[str] | None = None

    @property
    def pid(self) -> int | None:
        """Its process; None if it does not run."""
        return None if self._process is None else self._process.pid

    def start(self) -> Self:
        """Start it and wait until it listens.

        Raises:
            BusError: What keeps it from listening, such as `bus.port_taken`.
        """
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "broker.embedded", *self._arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(_PACKAGES)},
        )
        self._process = process
        line = process.stdout.readline() if process.stdout is not None else ""
        said: dict[str, Any] = json.loads(line) if line else {}
        if "listening" not in said:
            self.stop()
            raise BusError(*said["error"]) if "error" in said else _died(process.returncode)
        self.options = BusOptions(host=self.options.host, port=said["listening"], tls=self.options.tls)
        return self

    def stop(self) -> None:
        """End it; nothing happens if it does not run."""
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()

    def __enter__(self) -> Self:
        """Start it."""
        return self.start()

    def __exit__(self, *_: object) -> None:
        """End it."""
        self.stop()


def _died(code: int | None) -> BusError:
    return BusError(
        "bus.broker_died",
        "the embedded broker ended before it listened",
        why=f"its process ended with code {code}; its messages on stderr say more",
        fix="try `python -m broker.embedded` by hand, or use another broker",
    )


# The process


def _serve(listen: str, tls: tuple[str, str] | None, users: str | None, ended: list[BaseException]) -> None:
    """Run the broker on this thread; what ends it is kept in `ended`."""
    try:
        from ccp_base import _native

        _native.serve_broker(listen, tls, users)
    except ImportError as error:
        ended.append(
            BusError(
                "bus.not_built",
                "the native module is missing",
                why=str(error),
                fix="run `make build`, or use another broker",
            )
        )
    except ValueError as error:
        ended.append(
            BusError(
                "bus.no_password_file",
                f"cannot use the password file: {error}",
                fix="write it with `mosquitto_passwd` of Mosquitto 2",
            )
        )
    except RuntimeError as error:
        ended.append(BusError("bus.broker_died", f"the embedded broker broke: {error}"))


def _free(host: str, port: int) -> int:
    """Return the port to listen on, which is free; rumqttd itself would not say that it is not.

    Raises:
        BusError: `bus.port_taken`.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.create_server((host, port), family=family) as server:
            return int(server.getsockname()[1])
    except OSError as error:
        raise BusError(
            "bus.port_taken",
            f"cannot listen on {host}, port {port}: {error.strerror}",
            fix="stop what listens there, perhaps a Mosquitto, or choose another port",
        ) from error


def _check_files(certificate: Path | None, key: Path | None) -> tuple[str, str] | None:
    if certificate is None:
        return None
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        raise BusError(
            "bus.tls_files",
            f"cannot use the certificate or its key: {error}",
            where=f"{certificate}, {key}",
            fix="give both as PEM files; broker/mosquitto/make-secrets.sh makes a pair",
        ) from error
    return str(certificate), str(key or certificate)


def _read_users(users: Path | None) -> str | None:
    try:
        return None if users is None else users.read_text()
    except (OSError, ValueError) as error:
        raise BusError("bus.no_password_file", f"cannot read the password file: {error}") from error


def _without_delay(host: str, port: int) -> None:
    """Set TCP_NODELAY on the listening socket, from which connections inherit it: rumqttd does not."""
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(int(name))) as found:
            listens = found.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
            if listens and found.getsockname()[:2] == (host, port):
                found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def _wait_listening(host: str, port: int, thread: threading.Thread, ended: list[BaseException]) -> None:
    end_s = time.monotonic() + START_S
    while thread.is_alive() and time.monotonic() < end_s:
        try:
            socket.create_connection((host, port), 1).close()
            return
        except OSError:
            time.sleep(0.01)
    raise ended[0] if ended else BusError("bus.broker_died", "the embedded broker does not listen")


def main(
    host: Annotated[str, typer.Option(help="Address to listen on.")] = LOOPBACK,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = 1883,
    users: Annotated[Path | None, typer.Option(help="Password file of Mosquitto.")] = None,
    certificate: Annotated[Path | None, typer.Option(help="Certificate for TLS, PEM.")] = None,
    key: Annotated[Path | None, typer.Option(help="Its key, PEM.")] = None,
    with_parent: Annotated[bool, typer.Option(help="End when standard input does.")] = False,
) -> None:
    """Run an MQTT 5 broker until it is told to stop; it says in JSON on stdout on which port it listens."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        tls, known = _check_files(certificate, key), _read_users(users)
        port = _free(host, port)
        shown = f"[{host}]" if ":" in host else host
        ended: list[BaseException] = []
        thread = threading.Thread(target=_serve, args=(f"{shown}:{port}", tls, known, ended), daemon=True)
        thread.start()
        _wait_listening(host, port, thread, ended)
    except BusError as error:
        print(json.dumps({"error": error.args}), flush=True)
        raise typer.Exit(1) from error
    _without_delay(host, port)
    print(json.dumps({"listening": port}), flush=True)
    if with_parent:
        sys.stdin.read()
    else:
        thread.join()
    os._exit(1 if ended else 0)


if __name__ == "__main__":
    typer.run(main)
