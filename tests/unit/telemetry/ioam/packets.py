from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

from telemetry.ioam import EdgeToEdge, Node, Option, PathEcho, State, TcpState, Trace, TraceField
from telemetry.ioam.model import E2eField

SRC, DST = "fd00::1", "fd00::2"
RAW_IP = 101

FIELDS = TraceField.NODE | TraceField.TIMESTAMP_S | TraceField.TIMESTAMP_FRACTION | TraceField.SNAPSHOT
NODE = Node(
    hop_limit=63,
    node_id=7,
    timestamp_s=1_700_000_000,
    timestamp_fraction=25,
    snapshot=State(
        queue_free_pkts=80,
        arrival_pkts_per_s=8333,
        flow_count=2,
        link_rate_bytes_per_s=2_500_000,
        flow_missing_pkts=5,
        flow_dropped_pkts=2,
        rssi_dbm=-61.5,
    ),
)
TRACE = Trace(trace_type=FIELDS, remaining_words=12, nodes=(NODE,))
EDGE = EdgeToEdge(e2e_type=E2eField.SEQUENCE_32 | E2eField.TIMESTAMP_S, sequence=9, timestamp_s=1_700_000_000)
TCP_STATE = TcpState(cwnd_bytes=14_480, mss_bytes=1448)
ECHO = PathEcho(
    hops=3,
    all_known=True,
    hop=2,
    node_id=7,
    queue_pkts=12,
    free_pkts=88,
    link_rate_bytes_per_s=12_500_000,
    losses_congestion=5,
    losses_link=6,
    sent_s=1_700_000_000,
    sent_us=9,
)
OPTIONS: tuple[Option, ...] = (TRACE, EDGE, TCP_STATE)


def packet(payload: bytes, next_header: int) -> bytes:
    addresses = (bytes([0xFD, *[0] * 14, last]) for last in (1, 2))
    return struct.pack("!IHBB", 0x6000_0000, len(payload), next_header, 64) + b"".join(addresses) + payload


def udp(payload: bytes = bytes(8)) -> bytes:
    return packet(struct.pack("!HHHH", 4000, 4001, 8 + len(payload), 0x1234) + payload, 17)


def write_pcap(path: Path, packets: Sequence[bytes], *, cut_bytes: int = 0) -> Path:
    records = [struct.pack("!IIII", n, 5, len(one), len(one)) + one for n, one in enumerate(packets, 1)]
    header = struct.pack("!IHHiIII", 0xA1B2_C3D4, 2, 4, 0, 0, 65535, RAW_IP)
    content = header + b"".join(records)
    path.write_bytes(content[: len(content) - cut_bytes])
    return path
