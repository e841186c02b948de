"""The tables of clients of attached congestion controls and of the agent."""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct

from ccp_algs.rtcp.limit import LIMIT_STATES
from ccp_algs.rtcp.remote import Remote
from ccplane.agent.features.rtcp import native
from ccplane.datapath import ebpf
from telemetry.bus import mono_us

KEPT_IN: Final = "/sys/fs/bpf/ccplane-rtcp"
"""Location of the table of `ccp rtcp attach`, which is kept across restarts."""


class Clients(Struct, frozen=True, kw_only=True):
    """A table of clients.

    Attributes:
        by: Its owner: `attach` (the current or next `ccp rtcp attach`), `agent` (`ccp run r_tcp_cubic`), or
            `earlier` (sockets still use it from an earlier `ccp rtcp attach`).
        max_clients: Maximum clients.
        no_room: Connections that are not limited, because the table was full.
        clients: The clients; None if the table has another version and cannot be read.
    """

    by: str
    max_clients: int
    no_room: int
    clients: list[dict[str, Any]] | None


def known_tables(pin_dir: str = ebpf.DEFAULT_PIN_DIR, kept_in: str = KEPT_IN) -> list[Clients]:
    """Return all tables of clients.

    Raises:
        LoadError: `load.no_native_module`.
        CcpError: `rtcp.not_attached`, `rtcp.not_permitted` or `rtcp.refused`.
    """
    return [
        Clients(
            by=whose,
            max_clients=max_clients,
            no_room=no_room,
            clients=None if clients is None else list(map(_client, clients)),
        )
        for whose, max_clients, no_room, clients in native.client_tables(mono_us(), pin_dir, kept_in)
    ]


def known_clients() -> list[dict[str, Any]]:
    """Return the clients in all tables except `earlier` ones.

    Raises:
        LoadError: `load.no_native_module`.
        CcpError: `rtcp.not_attached`, `rtcp.not_permitted` or `rtcp.refused`.
    """
    tables = (table for table in known_tables() if table.by != "earlier")
    return [client for table in tables for client in table.clients or ()]


def _client(reported: dict[str, Any]) -> dict[str, Any]:
    return {
        "netns": reported.pop("netns"),
        "client": Remote.from_bytes(reported.pop("remote")).name,
        "state": LIMIT_STATES[reported.pop("verdict")],
        **reported,
    }
