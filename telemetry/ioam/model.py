"""The content of IOAM options, as plain data.

None means missing: the trace does not request the field, or its writer did not know the value (all bits are
then set on the wire). Names carry units; where the standard has none, the unit is the node's own, and a table
of nodes must define it.
"""

from __future__ import annotations

from enum import IntFlag
from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

U8 = Annotated[int, Meta(ge=0, le=0xFE)]
U16 = Annotated[int, Meta(ge=0, le=0xFFFE)]
U24 = Annotated[int, Meta(ge=0, le=0xFF_FFFE)]
U32 = Annotated[int, Meta(ge=0, le=0xFFFF_FFFE)]
U56 = Annotated[int, Meta(ge=0, le=0xFF_FFFF_FFFF_FFFE)]
U64 = Annotated[int, Meta(ge=0)]
Counter = Annotated[int, Meta(ge=0, le=0xFFFF_FFFF)]
Hop = Annotated[int, Meta(ge=1, le=0xFF)]
Decibels = Annotated[float, Meta(ge=-300.0, le=355.34)]
Words = Annotated[int, Meta(ge=0, le=127)]
Namespace = Annotated[int, Meta(ge=0, le=0xFFFF)]

TimestampFormat = Literal["posix", "ptp", "ntp"]
"""Unit of the fraction, and epoch: microseconds or nanoseconds since 1970, or 2^-32 s since 1900."""

_NS_PER_S: Final = 1_000_000_000
_NTP_EPOCH_S: Final = 2_208_988_800  # from 1900 to 1970 (RFC 5905)


class TraceField(IntFlag):
    """The fields that a trace requests: bits of IOAM-Trace-Type (RFC 9197, section 4.4.1)."""

    NODE = 1 << 23
    INTERFACES = 1 << 22
    TIMESTAMP_S = 1 << 21
    TIMESTAMP_FRACTION = 1 << 20
    TRANSIT_DELAY = 1 << 19
    NAMESPACE_DATA = 1 << 18
    QUEUE_DEPTH = 1 << 17
    CHECKSUM_COMPLEMENT = 1 << 16
    NODE_WIDE = 1 << 15
    INTERFACES_WIDE = 1 << 14
    NAMESPACE_DATA_WIDE = 1 << 13
    BUFFER_OCCUPANCY = 1 << 12
    SNAPSHOT = 1 << 1


class E2eField(IntFlag):
    """The fields of an edge-to-edge option: bits of IOAM-E2E-Type (RFC 9197, section 4.6)."""

    SEQUENCE_64 = 1 << 15
    SEQUENCE_32 = 1 << 14
    TIMESTAMP_S = 1 << 13
    TIMESTAMP_FRACTION = 1 << 12


class State(Struct, frozen=True, kw_only=True, tag_field="schema", tag="ccplane"):
    """The data of ccplane's nodes: opaque data of schema 0x636302.

    Attributes:
        queue_free_pkts: Full-size packets for which the queue has room; 4,294,967,294 if it has no limit.
        arrival_pkts_per_s: Packets that arrive at the queue [packets/s].
        flow_count: Flows that share the queue.
        lost_pkts: Packets lost on the link so far; when read, modulo 2^32 - 1.
        link_rate_bytes_per_s: Rate at which the queue drains while busy [bytes/s]; 4,294,967,294 means that
            rate or more.
        flow_missing_pkts: Number of the flow's earlier packets that had not arrived when this packet arrived;
            when read, modulo 2^16 - 1.
        flow_dropped_pkts: Number of the flow's earlier packets that the node's own queue dropped; when read,
            modulo 2^16 - 1.
        rssi_dbm: Signal strength [dBm], in steps of 0.01.
        snr_db: Signal-to-noise ratio [dB], in steps of 0.01.
        data_rate_bytes_per_s: Data rate of the link [bytes/s].
        mcs: Modulation and coding scheme.
    """

    queue_free_pkts: U32 | None = None
    arrival_pkts_per_s: U32 | None = None
    flow_count: U32 | None = None
    lost_pkts: U64 | None = None
    link_rate_bytes_per_s: U32 | None = None
    flow_missing_pkts: U64 | None = None
    flow_dropped_pkts: U64 | None = None
    rssi_dbm: Decibels | None = None
    snr_db: Decibels | None = None
    data_rate_bytes_per_s: U32 | None = None
    mcs: U8 | None = None


class OtherState(Struct, frozen=True, kw_only=True, tag_field="schema", tag="other"):
    """Opaque data in a third-party schema.

    Attributes:
        schema_id: Number of the schema, in the namespace of the trace.
        data: Its bytes, hexadecimal; a multiple of four bytes.
    """

    schema_id: U24
    data: str = ""


class Node(Struct, frozen=True, kw_only=True):
    """The data of one node in a trace, in wire order.

    Attributes:
        hop_limit: Hop limit when the packet left; 255 is indistinguishable from missing.
        node_id: Number of the node, 24 bits.
        ingress_if: Interface of arrival.
        egress_if: Interface of departure.
        timestamp_s: Time of arrival [s]; see `arrival_ns`.
        timestamp_fraction: Fraction of a second, in the unit of the domain's timestamp format.
        transit_delay_ns: Time in the node [ns]; 2^31 means that time or more.
        namespace_data: Meaning defined by the namespace.
        queue_depth: Queue at the interface of departure, in the node's unit (Linux: bytes).
        checksum_complement: Keeps a UDP checksum valid.
        hop_limit_wide: As `hop_limit`, next to the wide node id.
        node_id_wide: Number of the node, 56 bits.
        ingress_if_wide: Interface of arrival, 32 bits.
        egress_if_wide: Interface of departure, 32 bits.
        namespace_data_wide: Meaning defined by the namespace, 64 bits.
        buffer_occupancy: Use of shared buffers, in the node's unit.
        snapshot: State in a schema.
    """

    hop_limit: U8 | None = None
    node_id: U24 | None = None
    ingress_if: U16 | None = None
    egress_if: U16 | None = None
    timestamp_s: U32 | None = None
    timestamp_fraction: U32 | None = None
    transit_delay_ns: U64 | None = None
    namespace_data: U32 | None = None
    queue_depth: U32 | None = None
    checksum_complement: U32 | None = None
    hop_limit_wide: U8 | None = None
    node_id_wide: U56 | None = None
    ingress_if_wide: U32 | None = None
    egress_if_wide: U32 | None = None
    namespace_data_wide: U64 | None = None
    buffer_occupancy: U32 | None = None
    snapshot: State | OtherState | None = None


class Trace(Struct, frozen=True, kw_only=True, tag_field="kind", tag="trace"):
    """A trace: data of nodes, and room for more.

    Attributes:
        trace_type: Fields that nodes write: `TraceField`s.
        remaining_words: Room left, in words of four bytes.
        nodes: Data of the nodes, in the order of the path.
        namespace_id: Namespace that defines the meaning of fields; 0 is the default.
        overflow: A node found no room.
        loopback: Requests a copy back to the source (RFC 9322).
        active: The packet was created for measuring (RFC 9322).
        incremental: Nodes extend the option. Such traces can only be read.
    """

    trace_type: Annotated[int, Meta(ge=0, le=0xFF_FFFF)]
    remaining_words: Words = 0
    nodes: tuple[Node, ...] = ()
    namespace_id: Namespace = 0
    overflow: bool = False
    loopback: bool = False
    active: bool = False
    incremental: bool = False


class EdgeToEdge(Struct, frozen=True, kw_only=True, tag_field="kind", tag="edge_to_edge"):
    """Data from the source for the sink.

    Attributes:
        e2e_type: Its fields: `E2eField`s.
        namespace_id: Namespace that defines the meaning of fields.
        sequence: Number of the packet within its flow; all values are valid.
        timestamp_s: Time when the packet entered the domain [s]; see `arrival_ns`.
        timestamp_fraction: Fraction of a second, in the unit of the domain's timestamp format.
    """

    e2e_type: Annotated[int, Meta(ge=0, le=0xFFFF)]
    namespace_id: Namespace = 0
    sequence: U64 | None = None
    timestamp_s: U32 | None = None
    timestamp_fraction: U32 | None = None


class TcpState(Struct, frozen=True, kw_only=True, tag_field="kind", tag="tcp_state"):
    """State of the sender's TCP when it sent the packet.

    Attributes:
        cwnd_bytes: Congestion window [bytes]; None if it was not traced (the TCP flag is 0).
        mss_bytes: Segment size; for a super-packet, the payload of all segments but the last [bytes].
        wants_echo: The source reads `PathEcho` options in ACKs.
        first_sequence: Set if the packet is a super-packet or a part of one: the lower half of the TCP
            sequence number of its first segment.
    """

    cwnd_bytes: U32 | None = None
    mss_bytes: U16 | None = None
    wants_echo: bool = False
    first_sequence: Annotated[int, Meta(ge=0, le=0xFFFF)] | None = None


class PathEcho(Struct, frozen=True, kw_only=True, tag_field="kind", tag="path_echo"):
    """The state of a packet's path, returned by the sink to the sender in an ACK.

    Attributes:
        hops: Number of nodes that wrote into the packet.
        all_known: Whether all nodes on the path reported their queues.
        hop: Position of the bottleneck, counted from the sender: the node with the longest queueing time. The
            fields up to `flow_count` describe it.
        node_id: Its node number.
        queue_pkts: Full-size packets in its queue.
        free_pkts: Full-size packets for which its queue has room; 4,294,967,294 if it has no limit.
        arrival_pkts_per_s: Packets that arrive at it [packets/s].
        link_rate_bytes_per_s: Rate at which its queue drains while busy [bytes/s].
        flow_count: Flows that share its queue.
        losses_congestion: The flow's packets dropped by queues so far; modulo 2^32, like the next two.
        losses_link: The flow's packets lost on links so far.
        losses_unknown: The flow's packets lost so far for unknown reasons.
        sent_s: Time when the packet left the source, by the source's clock [s].
        sent_us: The microseconds of that time [us].
    """

    hops: Annotated[int, Meta(ge=0, le=0xFF)] = 0
    all_known: bool = False
    hop: Hop | None = None
    node_id: U32 | None = None
    queue_pkts: U32 | None = None
    free_pkts: U32 | None = None
    arrival_pkts_per_s: U32 | None = None
    link_rate_bytes_per_s: U32 | None = None
    flow_count: U32 | None = None
    losses_congestion: Counter = 0
    losses_link: Counter = 0
    losses_unknown: Counter = 0
    sent_s: Counter = 0
    sent_us: Counter = 0


class OtherOption(Struct, frozen=True, kw_only=True, tag_field="kind", tag="other"):
    """An IOAM option of another type, such as proof of transit (2) or direct export (4). Read-only.

    Attributes:
        ioam_type: IOAM option type.
        data: Its bytes, hexadecimal.
    """

    ioam_type: Annotated[int, Meta(ge=0, le=255)]
    data: str = ""


Option = Trace | EdgeToEdge | TcpState | PathEcho | OtherOption
"""An option in a packet."""


class IoamFlow(Struct, frozen=True, kw_only=True):
    """The flow of a packet.

    Attributes:
        src: Sender's address.
        dst: Receiver's address.
        protocol: Number of the protocol after the extension headers, such as 6; None in later fragments and
            where headers could not be parsed.
        src_port: Source port of TCP or UDP.
        dst_port: Destination port of TCP or UDP.
    """

    src: str
    dst: str
    protocol: int | None = None
    src_port: int | None = None
    dst_port: int | None = None


class Placed(Struct, frozen=True, kw_only=True):
    """An option and its position.

    Attributes:
        header: The extension header that contains it.
        offset: Byte of the packet at which it starts.
        option: The option.
    """

    header: Literal["hop_by_hop", "destination"]
    offset: int
    option: Option


class Problem(Struct, frozen=True, kw_only=True):
    """An error in a packet or file, with the fields of all ccplane errors."""

    slug: str
    message: str
    where: str = ""
    why: str = ""
    fix: str = ""


class Contents(Struct, frozen=True, kw_only=True):
    """The content of an extension header.

    Attributes:
        options: Readable options, in order.
        errors: Errors of the others.
    """

    options: tuple[Placed, ...] = ()
    errors: tuple[Problem, ...] = ()


class Decoded(Contents, frozen=True, kw_only=True):
    """The content of a packet.

    Attributes:
        flow: Its flow.
    """

    flow: IoamFlow


class Record(Decoded, frozen=True, kw_only=True):
    """A packet of a capture.

    Attributes:
        packet: Its number in the file, from 1.
        time_ns: Time of capture, since 1970 [ns]; None if unknown.
        bytes: Length of the frame [bytes].
        captured_bytes: Captured part of the frame [bytes].
    """

    packet: int
    time_ns: int | None = None
    bytes: int
    captured_bytes: int


class Summary(Struct, frozen=True, kw_only=True):
    """Counts of a capture so far.

    Attributes:
        packets: Packets of all kinds.
        ipv6: IPv6 packets.
        with_options: Packets with a readable option.
        malformed: Packets with an unreadable option or header.
        unknown_link: Packets of unsupported link types, which are skipped.
        other_blocks: Blocks of the file that are not about packets, such as custom blocks. Wireshark numbers
            some of them as frames.
        malformed_blocks: Malformed blocks of the file, which are skipped.
        malformed_block: What is wrong with the first of them.
        broken: Why reading ended before the end of the file.
    """

    packets: int
    ipv6: int
    with_options: int
    malformed: int
    unknown_link: int
    other_blocks: int = 0
    malformed_blocks: int = 0
    malformed_block: Problem | None = None
    broken: Problem | None = None


class Filled(Struct, frozen=True, kw_only=True):
    """A packet as a node on the path leaves it.

    Attributes:
        packet: The modified packet.
        filled: Number of traces that got the node's data.
        overflowed: Number of traces without room; their overflow flag is set.
    """

    packet: bytes
    filled: int
    overflowed: int


def arrival_ns(what: Node | EdgeToEdge, timestamps: TimestampFormat = "posix") -> int | None:
    """Return a timestamp as nanoseconds since 1970 [ns]; None if a part of it is missing.

    The operator of the domain chooses the format; packets do not show it (RFC 9197, section 5). PTP's seconds
    are TAI, 37 s ahead of UTC since 2017.

    Args:
        what: A node's data, or an edge-to-edge option.
        timestamps: The format.
    """
    if what.timestamp_s is None or what.timestamp_fraction is None:
        return None
    if timestamps == "ntp":
        return (what.timestamp_s - _NTP_EPOCH_S) * _NS_PER_S + (what.timestamp_fraction * _NS_PER_S >> 32)
    unit_ns = 1000 if timestamps == "posix" else 1
    return what.timestamp_s * _NS_PER_S + what.timestamp_fraction * unit_ns
