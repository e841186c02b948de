"""The process of the embedded broker: reads its files, listens, gives up its rights, serves."""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import ssl
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from broker.embedded import LOOPBACK, OWN_NAMES, check_open
from broker.errors import BusError
from broker.options import PORT
from ccp_base.errors import CcpError

if TYPE_CHECKING:
    from ccp_base._native import MqttBroker

DESCRIPTORS: Final = 4096
"""How many it may have open: more than there may be connections."""

_NOBODY: Final = 65534
_PR_SET_NO_NEW_PRIVS: Final = 38


def _read(file: Path | None, slug: str, what: str) -> str | None:
    try:
        return None if file is None else file.read_text()
    except (OSError, ValueError) as error:
        raise BusError(slug, f"cannot read {what}: {error}", where=str(file)) from error


def _read_tls(certificate: Path | None, key: Path | None) -> tuple[bytes, bytes] | None:
    if certificate is None:
        return None
    key = key or certificate
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key)
        return certificate.read_bytes(), key.read_bytes()
    except (OSError, ssl.SSLError) as error:
        raise BusError(
            "bus.tls_files",
            f"cannot use the certificate or its key: {error}",
            where=f"{certificate}, {key}",
            fix="give both as PEM files; broker/mosquitto/make-secrets.sh makes a pair",
        ) from error


def _listen(address: str, tls: tuple[bytes, bytes] | None, users: str | None, acl: str | None) -> MqttBroker:
    try:
        from ccp_base._native import MqttBroker
    except ImportError as error:
        raise BusError(
            "bus.not_built",
            "the native module is missing",
            why=str(error),
            fix="run `make build`, or use another broker",
        ) from error
    return MqttBroker(address, tls, users, acl)


def give_up_rights() -> None:
    """Become nobody, if this is root, and let no program that is started from here get rights back.

    Started again by an agent that gave up its own rights, root cannot become nobody, and has none to lose.
    """
    if os.geteuid() == 0:
        try:
            os.setgroups([])
            os.setresgid(_NOBODY, _NOBODY, _NOBODY)
            os.setresuid(_NOBODY, _NOBODY, _NOBODY)
        except PermissionError:
            pass
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def _allow_descriptors() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, DESCRIPTORS)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))


def main(
    host: Annotated[str, typer.Option(help="Address to listen on.")] = LOOPBACK,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = PORT,
    users: Annotated[Path | None, typer.Option(help="Password file of Mosquitto.")] = None,
    acl: Annotated[
        Path | None, typer.Option(help="Access list of Mosquitto; else users publish in their own name only.")
    ] = None,
    certificate: Annotated[Path | None, typer.Option(help="Certificate for TLS, PEM.")] = None,
    key: Annotated[Path | None, typer.Option(help="Its key, PEM.")] = None,
    anonymous: Annotated[
        bool,
        typer.Option("--anonymous", help="Let everybody in: for networks that are closed, such as a lab."),
    ] = False,
    with_parent: Annotated[bool, typer.Option(hidden=True, help="Started by EmbeddedBroker.")] = False,
) -> None:
    """Run an MQTT 5 broker until it is told to stop; it says in JSON on stdout on which port it listens."""
    # Ctrl-C reaches parent and child; the parent then ends the child when it does not need it any more.
    signal.signal(signal.SIGINT, signal.SIG_IGN if with_parent else signal.SIG_DFL)
    try:
        own_lines = json.loads(sys.stdin.readline()) if with_parent else ""
        check_open(host, has_users=users is not None or anonymous)
        tls = _read_tls(certificate, key)
        passwords = _read(users, "bus.no_password_file", "the password file")
        if passwords is not None:
            passwords += f"\n{own_lines}"
        rules = _read(acl or (OWN_NAMES if users is not None else None), "bus.bad_acl", "the access list")
        shown = f"[{host}]" if ":" in host else host
        broker = _listen(f"{shown}:{port}", tls, passwords, rules)
    except CcpError as error:
        if with_parent:
            print(json.dumps({"error": error.args}), flush=True)
        else:
            typer.echo(str(error), err=True)
        raise typer.Exit(1) from error
    _allow_descriptors()
    give_up_rights()
    print(json.dumps({"listening": broker.port}), flush=True)
    if not with_parent:
        broker.serve()
        return
    # Served on a thread, so that this one sees the end of standard input; if serving ends, all ends.
    threading.Thread(target=_serve, args=(broker,), daemon=True).start()
    sys.stdin.read()
    os._exit(0)


def _serve(broker: MqttBroker) -> None:
    try:
        broker.serve()
    finally:
        os._exit(1)


def run() -> None:
    """Run `main` for the command line."""
    typer.run(main)
