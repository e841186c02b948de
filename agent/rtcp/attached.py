"""The congestion controls of R-TCP, registered, and the verdicts on clients that they come to."""

from __future__ import annotations

import logging
from typing import Any, Final

from msgspec import Struct

from agent.rtcp.acks import AckRecorder
from ccp_algs.rtcp import Options
from ccp_algs.rtcp.limit import LIMIT_STATES
from datapath import ebpf
from telemetry.bus import mono_us, wall_us
from telemetry.schema import unpacked

log = logging.getLogger("ccplane.rtcp")

MAX_CLIENTS: Final = 65_536
"""Clients there is room for, unless told otherwise: about 1 KB each, taken when they come."""

SWEEP_US: Final = 10_000_000
"""How often clients are forgotten whose time is up [us]."""


class Verdict(Struct, frozen=True, kw_only=True):
    """What is known of a client has become something else.

    Attributes:
        kind: `verdict`.
        t_mono_us: When, CLOCK_MONOTONIC [us].
        t_wall_us: The same by the wall clock [us].
        netns: Inode of the network namespace that the connections are in.
        client: Address of their other end.
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
            max_clients: Sockets of further clients are not bounded.
            recorder: Gets every ACK; None: ACKs are not recorded.

        Raises:
            LoadError: `load.no_native_module`.
            CcpError: `rtcp.not_permitted`, `rtcp.name_taken`, `rtcp.no_struct_ops`, `rtcp.no_original`,
                `rtcp.refused` or `trace.no_btf`.
        """
        self._recorder = recorder
        self._dropped = 0
        self._sweep_due_us = 0
        self._native = ebpf.rtcp_attached(
            options.to_bytes(), max_clients=max_clients, records=recorder is not None
        )
        self.names: Final = self._native.names
        """What sockets can choose: `rtcp_cubic` and `rtcp_bbr`, as far as the kernel has CUBIC and BBR."""

    def turn(self) -> list[Verdict]:
        """Return the verdicts since the last call, and do what there is to be done from time to time.

        Raises:
            CcpError: `rtcp.refused` or `trace.refused`.
        """
        now_us = mono_us()
        if now_us >= self._sweep_due_us:
            self._native.sweep(now_us)
            self._sweep_due_us = now_us + SWEEP_US
        if self._recorder is not None:
            self._recorder.take(self._native.drain_acks())
        verdicts = [_verdict(row) for row in self._native.drain()]
        dropped = self._native.dropped
        if dropped != self._dropped:
            log.warning("%d verdicts or recorded ACKs were lost: too many at once", dropped)
            self._dropped = dropped
        return verdicts

    def close(self) -> list[Verdict]:
        """Take the names away, and return the last verdicts. Sockets that have one keep it to their end."""
        try:
            return self.turn()
        finally:
            self._native.close()
            if self._recorder is not None:
                self._recorder.close()


def known_clients() -> list[dict[str, Any]]:
    """Return what is known of each client by whatever is attached, as plain data.

    Raises:
        LoadError: `load.no_native_module`.
        CcpError: `rtcp.not_attached`, `rtcp.not_permitted` or `rtcp.refused`.
    """
    found = ebpf.rtcp_clients(mono_us())
    return [
        {
            "netns": one.pop("netns"),
            "client": one.pop("address"),
            "state": LIMIT_STATES[one.pop("verdict")],
            **one,
        }
        for one in found
    ]


def _verdict(row: Any) -> Verdict:
    t_us = int(row["t_us"])
    return Verdict(
        t_mono_us=t_us,
        t_wall_us=wall_us() - (mono_us() - t_us),
        netns=int(row["netns"]),
        client=unpacked(row["address"].tobytes()),
        state=LIMIT_STATES[int(row["verdict"])],
        bucket_bytes=int(row["bucket_bytes"]),
        rate_bytes_per_s=int(row["rate_bytes_per_s"]),
        tokens_bytes=int(row["tokens_bytes"]),
        active_flows=int(row["active_flows"]),
    )
