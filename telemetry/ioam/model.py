"""What is in IOAM options, as plain data.

A field that is None is missing: the trace does not ask for it, or whoever wrote it could not tell, which is
all bits set on the wire. It is never a number. Names carry units; where the standard has none, the node's own
unit holds, which a table of nodes has to say.
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
"""Unit of the fraction, and epoch: microseconds and nanoseconds since 1970, and 2^-32 s since 1900."""

_NS_PER_S: Final = 1_000_000_000
_NTP_EPOCH_S: Final = 2_208_988_800  # from 1900 to 1970 (RFC 5905)


class TraceField(IntFlag):
    """What a trace asks nodes for: bits of IOAM-Trace-Type (RFC 9197, section 4.4.1)."""

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
    """What an edge-to-edge option has: bits of IOAM-E2E-Type (RFC 9197, section 4.6)."""

    SEQUENCE_64 = 1 << 15
    SEQUENCE_32 = 1 << 14
    TIMESTAMP_S = 1 << 13
    TIMESTAMP_FRACTION = 1 << 12


class State(Struct, frozen=True, kw_only=True, tag_field="schema", tag="ccplane"):
    """What ccplane's nodes say of themselves: opaque data of schema 0x636302.

    Attributes:
        queue_free_pkts: Full-size packets for which the queue has room; 4,294,967,294 if it has no limit.
        arrival_pkts_per_s: Packets that come to the queue [packets/s].
        flow_count: Flows that share the queue.
        lost_pkts: Packets lost on the link so far; as read, modulo 2^32 - 1.
        link_rate_bytes_per_s: Rate at which the queue drains while it is busy [bytes/s]; 4,294,967,294 is
            that much or more.
        flow_missing_pkts: Packets of this packet's flow that had not come when it came; as read, modulo
            2^16 - 1.
        flow_dropped_pkts: Packets of its flow, sent before it, that the node's own queue dropped; likewise.
        rssi_dbm: Strength of the signal [dBm], in steps of 0.01.
        snr_db: Signal to noise ratio [dB], in steps of 0.01.
        data_rate_bytes_per_s: Rate at which the link sends [bytes/s].
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
    """Opaque data in a schema of somebody else.

    Attributes:
        schema_id: Which, in the namespace of the trace.
        data: Its octets, hexadecimal; as many as four divide.
    """

    schema_id: U24
    data: str = ""


class Node(Struct, frozen=True, kw_only=True):
    """What one node wrote into a trace, in the order of the wire.

    Attributes:
        hop_limit: Hop limit when the packet left; 255 cannot be told from missing.
        node_id: Number of the node, 24 bits.
        ingress_if: Interface of arrival.
        egress_if: Interface of departure.
        timestamp_s: When the packet arrived [s]; see `arrival_ns`.
        timestamp_fraction: The rest of a second, in the unit of the domain's timestamp format.
        transit_delay_ns: Time in the node [ns]; 2^31 says that it was that long or longer.
        namespace_data: What the namespace says it is.
        queue_depth: Queue at the interface of departure, in the node's unit (Linux: bytes).
        checksum_complement: Keeps a UDP checksum right.
        hop_limit_wide: As `hop_limit`, beside the wide node id.
        node_id_wide: Number of the node, 56 bits.
        ingress_if_wide: Interface of arrival, 32 bits.
        egress_if_wide: Interface of departure, 32 bits.
        namespace_data_wide: What the namespace says it is, 64 bits.
        buffer_occupancy: Use of buffers that queues share, in the node's unit.
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
    """A trace: room for nodes, and what they wrote.

    Attributes:
        trace_type: What nodes write: `TraceField`s.
        remaining_words: Room left, in words of four octets.
        nodes: What nodes wrote, in the order of the path.
        namespace_id: In which namespace fields have their meaning; 0 is the default one.
        overflow: A node found no room.
        loopback: A copy is to go back to the source (RFC 9322).
        active: The packet was made for measuring (RFC 9322).
        incremental: Nodes make the option longer. Such traces are only read.
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
    """What the source says to the sink.

    Attributes:
        e2e_type: What it has: `E2eField`s.
        namespace_id: In which namespace it has its meaning.
        sequence: Number of the packet within its flow; every number is one.
        timestamp_s: When the packet entered the domain [s]; see `arrival_ns`.
        timestamp_fraction: The rest of a second, in the unit of the domain's timestamp format.
    """

    e2e_type: Annotated[int, Meta(ge=0, le=0xFFFF)]
    namespace_id: Namespace = 0
    sequence: U64 | None = None
    timestamp_s: U32 | None = None
    timestamp_fraction: U32 | None = None


class TcpState(Struct, frozen=True, kw_only=True, tag_field="kind", tag="tcp_state"):
    """What the sender's TCP had in mind when it sent the packet.

    Attributes:
        cwnd_bytes: Congestion window [bytes]; None says that it was not traced (the TCP flag is 0).
        mss_bytes: What it calls a segment; of a super-packet, the payload of each segment but the last
            [bytes].
        wants_echo: The source takes a `PathEcho` out of ACKs.
        first_sequence: The packet is a super-packet, or was cut out of one: the lower half of its first
            segment's TCP sequence number.
    """

    cwnd_bytes: U32 | None = None
    mss_bytes: U16 | None = None
    wants_echo: bool = False
    first_sequence: Annotated[int, Meta(ge=0, le=0xFFFF)] | None = None


class PathEcho(Struct, frozen=True, kw_only=True, tag_field="kind", tag="path_echo"):
    """What a sink tells a sender, in an ACK, of the path that a packet of the flow took.

    Attributes:
        hops: Nodes that wrote into the packet.
        all_known: All nodes on the way told of their queues.
        hop: Position from the sender of the bottleneck, where a packet waits longest; what follows, up to
            `flow_count`, is the bottleneck's.
        node_id: What it calls itself.
        queue_pkts: Full-size packets in its queue.
        free_pkts: Full-size packets for which its queue has room; 4,294,967,294 if it has no limit.
        arrival_pkts_per_s: Packets that come to it [packets/s].
        link_rate_bytes_per_s: What its queue drains at while it is busy [bytes/s].
        flow_count: Flows that share its queue.
        losses_congestion: Packets of the flow that a node's queue dropped so far, modulo 2^32, as all three.
        losses_link: Packets of the flow that a link lost so far.
        losses_unknown: Packets of the flow that are missing so far, nobody knows why.
        sent_s: When the packet left the source, by the source's clock [s].
        sent_us: The rest of a second [us].
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
    """An IOAM option of another type, such as proof of transit (2) or direct export (4). Only read.

    Attributes:
        ioam_type: IOAM option type.
        data: Its octets, hexadecimal.
    """

    ioam_type: Annotated[int, Meta(ge=0, le=255)]
    data: str = ""


Option = Trace | EdgeToEdge | TcpState | PathEcho | OtherOption
"""What a packet may carry."""


class Flow(Struct, frozen=True, kw_only=True):
    """Whose packet it is.

    Attributes:
        src: Sender's address.
        dst: Receiver's address.
        protocol: Number of the protocol behind the extension headers, such as 6; None in later fragments and
            where headers could not be followed.
        src_port: Port of TCP or UDP.
        dst_port: Likewise.
    """

    src: str
    dst: str
    protocol: int | None = None
    src_port: int | None = None
    dst_port: int | None = None


class Placed(Struct, frozen=True, kw_only=True):
    """An option, and where it lies.

    Attributes:
        header: In which extension header.
        offset: Octet of the packet at which it begins.
        option: What it says.
    """

    header: Literal["hop_by_hop", "destination"]
    offset: int
    option: Option


class Problem(Struct, frozen=True, kw_only=True):
    """What is wrong with a packet or file, in the parts of all ccplane errors."""

    slug: str
    message: str
    where: str = ""
    why: str = ""
    fix: str = ""


class Contents(Struct, frozen=True, kw_only=True):
    """What an extension header carries.

    Attributes:
        options: What could be read, in order.
        errors: What could not.
    """

    options: tuple[Placed, ...] = ()
    errors: tuple[Problem, ...] = ()


class Decoded(Contents, frozen=True, kw_only=True):
    """What a packet carries.

    Attributes:
        flow: Whose it is.
    """

    flow: Flow


class Record(Decoded, frozen=True, kw_only=True):
    """A packet of a capture.

    Attributes:
        packet: Its number in the file, from 1.
        time_ns: When it was captured, since 1970 [ns]; None if the file does not say.
        bytes: How long the frame was [bytes].
        captured_bytes: How much of it is in the file [bytes].
    """

    packet: int
    time_ns: int | None = None
    bytes: int
    captured_bytes: int


class Summary(Struct, frozen=True, kw_only=True):
    """How much of a capture was read.

    Attributes:
        packets: Packets of all kinds.
        ipv6: IPv6 packets.
        with_options: Packets with an option that could be read.
        malformed: Packets with an option or header that could not.
        unknown_link: Packets of links whose frames are not known here; passed over.
        broken: Why reading ended before the end of the file.
    """

    packets: int
    ipv6: int
    with_options: int
    malformed: int
    unknown_link: int
    broken: Problem | None = None


class Filled(Struct, frozen=True, kw_only=True):
    """What a node on the path made of a packet.

    Attributes:
        packet: The packet as it goes on.
        filled: Traces that have the node's data now.
        overflowed: Traces without room for it; their overflow flag is set.
    """

    packet: bytes
    filled: int
    overflowed: int


def arrival_ns(what: Node | EdgeToEdge, timestamps: TimestampFormat = "posix") -> int | None:
    """Return a timestamp as nanoseconds since 1970 [ns]; None if a part of it is missing.

    Which format is used, the operator of the domain decides; packets do not say it (RFC 9197, section 5).
    PTP's seconds are those of TAI, which were 37 ahead of UTC in 2017 and since.

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
