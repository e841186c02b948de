"""Errors of the bus."""

from __future__ import annotations

from typing import Final

from ccplane.base.errors import CcpError

SLUGS: Final[dict[str, str]] = {
    "bus.bad_acl": "the access list of the embedded broker cannot be used",
    "bus.bad_name": "a sender or peer cannot be a level of a topic",
    "bus.bad_url": "the address of a broker cannot be read",
    "bus.broker_died": "the embedded broker ended before it was told to",
    "bus.no_mosquitto": "Mosquitto, which an embedded broker is, is not installed",
    "bus.no_password_file": "the file with users and passwords cannot be read",
    "bus.not_connected": "the broker did not take the connection in time",
    "bus.port_taken": "the port of the embedded broker cannot be listened on",
    "bus.tls_files": "a certificate or key for TLS cannot be used",
    "bus.unknown_kind": "there is no topic for such a message",
    "bus.unknown_user": "a password file has no such user",
    "bus.users_required": "a broker that others reach would let everybody in",
}
"""Slug -> what it means; each has a test that names it."""


class BusError(CcpError):
    """The bus cannot do what it was asked for."""
