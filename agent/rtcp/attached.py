"""The congestion controls of R-TCP, registered, and the verdicts on clients that they come to."""

from __future__ import annotations

import logging
from typing import Any, Final

from msgspec import Struct

from agent.rtcp.acks import AckRecorder
from ccp_algs.rtcp import Options
from ccp_algs.rtcp.limit import LIMIT_STATES
from ccp_algs.rtcp.remote import Remote
from datapath import ebpf
from telemetry.bus import mono_us, wall_us

log = logging.getLogger("ccplane.rtcp")

MAX_CLIENTS: Final = 65_536
"""Clients there is room for, unless told otherwise: 512 bytes each, taken when they come."""


class Verdict(Struct, frozen=True, kw_only=True):
    """What is known of a client has become something else.

    Attributes:
        kind: `verdict`.
        t_mono_us: When, CLOCK_MONOTONIC [us].
        t_wall_us: The same by the wall clock [us].
        netns: Inode of the network namespace that the connections are in.
        client: Their other end, as `Remote.name` has it.
        state: `limited`: there is a limit, and tokens enough not to mind; `capped`, `probing`, `raised`:
            what is sent is bounded by the rate, by a little more, or by much more; `gone`.
        bucket_bytes: Estimated bucket size [bytes].
        rate_bytes_per_s: Estimated rate limit [bytes/s].
        tokens_bytes: Estimated level of the bucket [bytes].
        active_flows: Connections with something to send.
    """

    kind: str = "verdict"
    t_mono_us: int
    t_wall_us: int
    netns: int
    client: str
    state: str
    bucket_bytes: int
    rate_bytes_per_s: int
    tokens_bytes: int
    active_flows: int


class Clients(Struct, frozen=True, kw_only=True):
    """A table of clients.

    Attributes:
        by: Whose it is: `attach` (`ccp rtcp attach`) or `agent` (`ccp run r_tcp_cubic`).
        no_room: Connections that are not bounded, because there was no room for their client.
        clients: What is known of each.
    """

    by: str
    no_room: int
    clients: list[dict[str, Any]]


class Attachment:
    """R-TCP's congestion controls are there to be chosen while it is open."""

    def __init__(
        self,
        options: Options,
        *,
        max_clients: int = MAX_CLIENTS,
        recorder: AckRecorder | None = None,
    ) -> None:
        """Register them.

        Args:
            options: Parameters of detector and limiter.
            max_clients: Sockets of further clients are not bounded; a warning says so, once.
            recorder: Gets every ACK; None: ACKs are not recorded.

        Raises:
            LoadError: `load.no_native_module`.
            CcpError: `rtcp.not_permitted`, `rtcp.name_taken`, `rtcp.no_struct_ops`, `rtcp.no_original`,
                `rtcp.refused` or `trace.no_btf`.
        """
        self._recorder = recorder
        self._dropped = 0
        self._max_clients = max_clients
        self._was_full = False
        self._native = ebpf.rtcp_attached(
            options.to_bytes(), max_clients=max_clients, records=recorder is not None
        )
        self.names: Final = self._native.names
        """What sockets can choose: `rtcp_cubic` and `rtcp_bbr`, as far as the kernel has CUBIC and BBR."""

    def turn(self) -> list[Verdict]:
        """Return the verdicts since the last call, and warn of what was lost.

        Raises:
            CcpError: `rtcp.refused` or `trace.refused`.
        """
        if self._recorder is not None:
            self._recorder.take(self._native.drain_acks())
        verdicts = [_verdict(row) for row in self._native.drain()]
        dropped = self._native.dropped
        if dropped != self._dropped:
            log.warning("%d verdicts or recorded ACKs were lost: too many at once", dropped)
            self._dropped = dropped
        if not self._was_full and self._native.no_room:
            self._was_full = True
            log.warning(
                "connections to further clients are not bounded: there is room for %d (--max-clients); "
                "`ccp rtcp show` counts them",
                self._max_clients,
            )
        return verdicts

    def close(self) -> list[Verdict]:
        """Take the names away, and return the last verdicts. Sockets that have one keep it to their end."""
        try:
            return self.turn()
        finally:
            self._native.close()
            if self._recorder is not None:
                self._recorder.close()


def known_tables(pin_dir: str = ebpf.DEFAULT_PIN_DIR) -> list[Clients]:
    """Return what is known of each client, by whatever is attached and by the agent.

    Args:
        pin_dir: Directory of the agent's datapath.

    Raises:
        LoadError: `load.no_native_module`.
        CcpError: `rtcp.not_attached`, `rtcp.not_permitted` or `rtcp.refused`.
    """
    found = ebpf.rtcp_tables(mono_us(), pin_dir)
    return [
        Clients(by="agent" if of_agent else "attach", no_room=no_room, clients=list(map(_client, clients)))
        for of_agent, no_room, clients in found
    ]


def known_clients() -> list[dict[str, Any]]:
    """Return the clients of all tables.

    Raises:
        LoadError: `load.no_native_module`.
        CcpError: `rtcp.not_attached`, `rtcp.not_permitted` or `rtcp.refused`.
    """
    return [client for table in known_tables() for client in table.clients]


def _client(told: dict[str, Any]) -> dict[str, Any]:
    return {
        "netns": told.pop("netns"),
        "client": Remote.from_bytes(told.pop("remote")).name,
        "state": LIMIT_STATES[told.pop("verdict")],
        **told,
    }


def _verdict(row: Any) -> Verdict:
    t_us = int(row["t_us"])
    return Verdict(
        t_mono_us=t_us,
        t_wall_us=wall_us() - (mono_us() - t_us),
        netns=int(row["netns"]),
        client=Remote.from_bytes(row["remote"].tobytes()).name,
        state=LIMIT_STATES[int(row["verdict"])],
        bucket_bytes=int(row["bucket_bytes"]),
        rate_bytes_per_s=int(row["rate_bytes_per_s"]),
        tokens_bytes=int(row["tokens_bytes"]),
        active_flows=int(row["active_flows"]),
    )
