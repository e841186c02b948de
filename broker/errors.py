"""Errors of the bus."""

from __future__ import annotations

from typing import Final

from ccplane.base.errors import CcpError

SLUGS: Final[dict[str, str]] = {
    "bus.bad_acl": "the access list of the embedded broker cannot be used",
    "bus.bad_name": "the name of a sender or peer cannot be used in a topic",
    "bus.bad_url": "the URL of a broker cannot be parsed",
    "bus.broker_died": "the embedded broker exited unexpectedly",
    "bus.empty_password": "the password of a new user is empty",
    "bus.no_mosquitto": "Mosquitto, which runs as the embedded broker, is not installed",
    "bus.no_password_file": "the password file cannot be read or written",
    "bus.not_connected": "no connection to the broker within the time limit",
    "bus.port_taken": "the embedded broker cannot listen on its port",
    "bus.tls_files": "a certificate or key for TLS cannot be used",
    "bus.unknown_kind": "no topic exists for this kind of message",
    "bus.unknown_user": "a password file has no such user",
    "bus.users_required": "a broker on a non-loopback address would accept everyone",
}
"""Slug -> meaning; a test covers each."""


NO_ANSWER: Final = (
    "the broker closed the connection without an answer; check user and password, whether the port is for "
    "TLS, and that the broker speaks MQTT 5"
)
_UNSUPPORTED_VERSION: Final = 0x84


def refused_because(code: int, reason: str) -> str:
    """Return why a connection failed, from the reason code of MQTT."""
    needs = "; ccplane needs MQTT 5" if code == _UNSUPPORTED_VERSION else ""
    return f"the broker refused the connection: {reason}{needs}"


class BusError(CcpError):
    """An operation of the bus failed."""
