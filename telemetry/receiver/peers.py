"""Addresses of peers: how users give them, and how packets are sent to them."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Sequence
from typing import Any, Final

from telemetry.receiver.errors import ReceiverError
from telemetry.schema import canonical

_DISCARD_PORT: Final = 9


def resolve(peer: str) -> str:
    """Return the canonical address of a peer, given as address or name.

    A link-local address keeps its interface: `fe80::1%eth0`.

    Raises:
        ReceiverError: `receiver.bad_peer`.
    """
    try:
        return _with_interface(peer)
    except ValueError:
        pass
    try:
        found = socket.getaddrinfo(peer, None, type=socket.SOCK_DGRAM)[0][4]
        address, interface = str(found[0]).partition("%")[0], found[3] if len(found) == 4 else 0
        return _with_interface(f"{address}%{interface}" if interface else address)
    except OSError as error:
        raise _bad_peer(
            f"cannot resolve `{peer}`",
            error.strerror or str(error),
            "give an IPv4 or IPv6 address, or a name that resolves on this host",
        ) from error


def _with_interface(address: str) -> str:
    plain = canonical(address)
    interface = getattr(ipaddress.ip_address(address), "scope_id", None)
    return f"{plain}%{interface}" if interface and ":" in plain else plain


def by_address(peers: Sequence[str]) -> dict[str, str]:
    """Return peers, as returned by `resolve`, by their address without interface.

    Raises:
        ReceiverError: `receiver.bad_peer`, if it is unclear through which interface a peer is reached.
    """
    found: dict[str, str] = {}
    for peer in peers:
        plain = canonical(peer)
        if plain == peer and ":" in peer and ipaddress.ip_address(peer).is_link_local:
            raise _bad_peer(
                f"the link-local address `{peer}` needs an interface",
                "every interface of this host has a link with such addresses",
                f"give it as {peer}%INTERFACE, for example {peer}%eth0",
            )
        if plain in found:
            raise _bad_peer(
                f"the peer `{plain}` is given twice",
                "signals name peers without their interface",
                "run one receiver per interface, or use global addresses",
            )
        try:
            socket_address(peer, 0)
        except OSError as error:
            raise _bad_peer(
                f"cannot send to `{peer}`",
                error.strerror or str(error),
                "after %, give an interface of this network namespace, as listed by `ip link`",
            ) from error
        found[plain] = peer
    return found


def socket_address(peer: str, port: int) -> Any:
    """Return the address for `sendto` and `connect`, whose last part is the interface; raises OSError."""
    return socket.getaddrinfo(peer, port, type=socket.SOCK_DGRAM, flags=socket.AI_NUMERICHOST)[0][4]


def own_address(peer: str) -> str | None:
    """Return the source address of packets to a peer; None without a route. Sends nothing."""
    family = socket.AF_INET6 if ":" in peer else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as sock:
            sock.connect(socket_address(peer, _DISCARD_PORT))
            return canonical(sock.getsockname()[0])
    except OSError:
        return None


def _bad_peer(what: str, why: str, fix: str) -> ReceiverError:
    return ReceiverError("receiver.bad_peer", what, "--peer", why, fix)
