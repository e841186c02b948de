"""What sockets were told of their paths, as the map of `native/ccp-bpf/src/bpf/path_echo.h` has it."""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass

from tests.kernel.bpf_maps import opened

PIN = "/sys/fs/bpf/ccplane_path_echoes_1"
MISSING = (1 << 32) - 1


@dataclass(frozen=True, kw_only=True)
class Told:
    """All of a socket's; numbers that are missing are None."""

    echoes: int
    hops: int
    hop: int
    all_known: bool
    node_id: int | None
    queue_pkts: int | None
    free_pkts: int | None
    arrival_pkts_per_s: int | None
    link_rate_bytes_per_s: int | None
    flow_count: int | None
    left_us: int
    losses: tuple[int, int, int]


def told(sock: socket.socket) -> Told | None:
    """Return what a socket was told; None if nothing."""
    with opened(PIN) as echoes:
        try:
            value = echoes[struct.pack("=i", sock.fileno())]
        except FileNotFoundError:
            return None
    _, count, _, hops, hop, known, *numbers, left_us, first, second, third = struct.unpack_from(
        "=12I4Q", value
    )
    node_id, queue, free, arrivals, rate, flows = (None if one == MISSING else one for one in numbers)
    return Told(
        echoes=count,
        hops=hops,
        hop=hop,
        all_known=bool(known),
        node_id=node_id,
        queue_pkts=queue,
        free_pkts=free,
        arrival_pkts_per_s=arrivals,
        link_rate_bytes_per_s=rate,
        flow_count=flows,
        left_us=left_us,
        losses=(first, second, third),
    )
