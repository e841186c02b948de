"""Networks as plain data: what links do to packets, and how they hang together.

The userspace emulator builds it (`emulated.py`); scenarios contain it, and JSON of it is what the emulator
process reads. Everything is per direction of a link. Sizes count IP packets without link-layer headers.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

Ratio = Annotated[float, Meta(ge=0, le=1)]
PositiveFloat = Annotated[float, Meta(gt=0)]
PositiveInt = Annotated[int, Meta(gt=0)]
Micros = Annotated[int, Meta(ge=0)]
Name = Annotated[str, Meta(pattern="^[a-z][a-z0-9-]{0,14}$")]
Family = Literal["ipv4", "ipv6"]


class Plain(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Data that says which of its fields is wrong, and that is written without its defaults."""


# --- loss --------------------------------------------------------------------------------------------------


class Bernoulli(Plain, frozen=True, tag_field="kind", tag="bernoulli"):
    """Every packet is lost with the same probability, whatever happened to others."""

    ratio: Ratio


class GilbertElliott(Plain, frozen=True, tag_field="kind", tag="gilbert_elliott"):
    """Loss in bursts: a good and a bad state, changed from packet to packet (Gilbert 1960, Elliott 1963).

    Attributes:
        good_to_bad: Probability to enter the bad state, a packet.
        bad_to_good: Probability to leave it, a packet.
        loss_bad: Probability of loss in the bad state.
        loss_good: Probability of loss in the good state.
    """

    good_to_bad: Ratio
    bad_to_good: Ratio
    loss_bad: Ratio = 1.0
    loss_good: Ratio = 0.0


class Pattern(Plain, frozen=True, tag_field="kind", tag="pattern"):
    """The packets with these numbers are lost; the first packet of the link is number 0.

    Attributes:
        drop: Numbers, ascending.
        repeat_every_pkts: After so many packets the count starts anew; never, if None.
    """

    drop: tuple[int, ...]
    repeat_every_pkts: PositiveInt | None = None


Loss = Bernoulli | GilbertElliott | Pattern

# --- queues ------------------------------------------------------------------------------------------------


class Buffer(Plain, frozen=True):
    """How much waits in front of a link at most: exactly one of the three.

    Attributes:
        packets: That many packets.
        bytes: That many bytes.
        bdp: That many times rate x base RTT, at least one packet; the base RTT is the longest without
            queueing of all pairs of hosts whose route crosses the link.
    """

    packets: PositiveInt | None = None
    bytes: PositiveInt | None = None
    bdp: PositiveFloat | None = None

    def __post_init__(self) -> None:
        """Refuse none or several."""
        given = [name for name in ("packets", "bytes", "bdp") if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(f"a buffer has one of packets, bytes, bdp; this one has {given or 'none'}")


class DropTail(Plain, frozen=True, tag_field="kind", tag="drop_tail"):
    """What does not fit into the buffer is dropped.

    Attributes:
        ce_threshold_us: Packets of ECN-capable transports that waited longer than this are marked CE [us];
            none, if None (as `ce_threshold` of Linux' fq_codel: the step marking of RFC 8257).
        ce_threshold_bytes: The same by what is in the queue when a packet arrives [bytes].
    """

    ce_threshold_us: Micros | None = None
    ce_threshold_bytes: PositiveInt | None = None


class Red(Plain, frozen=True, tag_field="kind", tag="red"):
    """Random early detection (Floyd and Jacobson 1993) in its gentle form.

    Attributes:
        min_bytes: Averaged queue above which packets are marked or dropped [bytes].
        max_bytes: Averaged queue at which that has probability `max_ratio` [bytes]; 1 at twice as much.
        max_ratio: Probability at `max_bytes`.
        weight: Weight of the newest queue length in the average.
        ecn: Mark ECN-capable packets instead of dropping them.
    """

    min_bytes: PositiveInt
    max_bytes: PositiveInt
    max_ratio: Ratio = 0.1
    weight: Ratio = 0.002
    ecn: bool = True

    def __post_init__(self) -> None:
        """Refuse thresholds in the wrong order."""
        if self.min_bytes >= self.max_bytes:
            raise ValueError(f"min_bytes ({self.min_bytes}) must be below max_bytes ({self.max_bytes})")


class CoDel(Plain, frozen=True, tag_field="kind", tag="codel"):
    """Controlled delay (RFC 8289).

    Attributes:
        target_us: Standing queueing delay that is accepted [us].
        interval_us: For how long it may be exceeded [us].
        ecn: Mark ECN-capable packets instead of dropping them.
    """

    target_us: Micros = 5_000
    interval_us: Micros = 100_000
    ecn: bool = True


Queue = DropTail | Red | CoDel


class TokenBucket(Plain, frozen=True):
    """Rate limiting as in mobile networks, before the queue of the link.

    Attributes:
        rate_bytes_per_s: Rate R at which tokens come [bytes/s].
        bucket_bytes: Most tokens there are, B [bytes]; full at the start.
        shaper: Packets without tokens wait in the buffer (shaper) instead of being dropped (policer).
    """

    rate_bytes_per_s: PositiveFloat
    bucket_bytes: PositiveInt
    shaper: bool = False


# --- links -------------------------------------------------------------------------------------------------


class Direction(Plain, frozen=True):
    """One direction of a link.

    A packet passes, in this order: loss; token bucket; queue in front of the transmitter; transmission at
    `rate_bytes_per_s` or at the trace's opportunities; corruption, duplication; propagation.

    Attributes:
        rate_bytes_per_s: Rate of transmission [bytes/s]; None: not limited (then nothing queues).
        trace: File of a Mahimahi trace, instead of a rate: a line for each opportunity to send 1,500 bytes,
            the time in ms since the start; it repeats from its beginning.
        delay_us: Propagation delay [us].
        jitter_us: Added to it, uniformly distributed from 0 to this, without reordering [us].
        buffer: In front of the transmitter. If None: 1 BDP and at least 10 packets; 1000 packets where there
            is no constant rate or no delay.
        queue: Its discipline.
        loss: Packets lost at random or by number; none, if None.
        token_bucket: A rate limiter in front; none, if None.
        duplicate_ratio: Probability that a packet arrives twice.
        corrupt_ratio: Probability that one bit of a packet's payload is flipped.
    """

    rate_bytes_per_s: PositiveFloat | None = None
    trace: str | None = None
    delay_us: Micros = 0
    jitter_us: Micros = 0
    buffer: Buffer | None = None
    queue: Queue = DropTail()
    loss: Loss | None = None
    token_bucket: TokenBucket | None = None
    duplicate_ratio: Ratio = 0.0
    corrupt_ratio: Ratio = 0.0

    def __post_init__(self) -> None:
        """Refuse a rate and a trace at once."""
        if self.rate_bytes_per_s is not None and self.trace is not None:
            raise ValueError("give rate_bytes_per_s or trace, not both")

    def one_way_back(self) -> Direction:
        """Return the other direction of a link that is described by this one only."""
        return Direction(
            rate_bytes_per_s=self.rate_bytes_per_s,
            trace=self.trace,
            delay_us=self.delay_us,
            jitter_us=self.jitter_us,
            buffer=self.buffer,
        )


class Link(Plain, frozen=True):
    """A link between two nodes.

    Attributes:
        name: Unique in the topology; its directions are called `NAME>` (from a to b) and `NAME<`.
        a: A node.
        b: Another one.
        forward: From a to b.
        backward: From b to a; as `forward` without loss, limiter, marking, duplication and corruption, if
            None.
    """

    name: Name
    a: Name
    b: Name
    forward: Direction = Direction()
    backward: Direction | None = None

    @property
    def back(self) -> Direction:
        """What holds from b to a."""
        return self.forward.one_way_back() if self.backward is None else self.backward


# --- in-band telemetry -------------------------------------------------------------------------------------

Role = Literal["source", "transit", "sink"]


class Radio(Plain, frozen=True):
    """What a node says of the wireless link behind it: constants; what is None it does not know.

    Attributes:
        rssi_dbm: Strength of the signal [dBm].
        snr_db: Signal to noise ratio [dB].
        mcs: Modulation and coding scheme.
        data_rate_bytes_per_s: Rate at which the link sends [bytes/s].
    """

    rssi_dbm: Annotated[float, Meta(ge=-300, le=300)] | None = None
    snr_db: Annotated[float, Meta(ge=-300, le=300)] | None = None
    mcs: Annotated[int, Meta(ge=0, le=254)] | None = None
    data_rate_bytes_per_s: Annotated[int, Meta(ge=0, lt=(1 << 32) - 1)] | None = None


class IntNode(Plain, frozen=True):
    """A host or router that takes part in in-band telemetry.

    Attributes:
        name: Of the host or router.
        roles: `source`: adds headers to TCP and UDP over IPv6 that comes from this host, or to this router
            without them. `transit`: writes what it knows of the link that it sends on. `sink`: takes the
            headers off before the packet reaches this host, or leaves this router for a node without a role.
        node_id: What it calls itself in packets; its place in the list of nodes, from 1, if None.
        radio: What it says of its wireless link, if it has one.
    """

    name: Name
    roles: Annotated[tuple[Role, ...], Meta(min_length=1)]
    node_id: Annotated[int, Meta(ge=0, lt=(1 << 24) - 1)] | None = None
    radio: Radio | None = None


class Int(Plain, frozen=True):
    """In-band network telemetry (INT) in the IOAM format: which nodes do what, and how often.

    Attributes:
        nodes: Those that take part.
        every_pkts: Every how many packets of a flow carry headers; 1 for all of them.
        interval_us: How much time a summary of the sink covers [us].
        namespace_id: IOAM namespace.
        max_nodes: How many nodes find room in a packet; as many as a packet can meet, if None.
        tcp_state: Whether packets carry the sender's window, too.
        records: Whether the sink also keeps a record of every packet.
        echo: Whether sinks tell senders of the path in ACKs, and hosts take that out for their sockets.
    """

    nodes: Annotated[tuple[IntNode, ...], Meta(min_length=1)]
    every_pkts: PositiveInt = 1
    interval_us: PositiveInt = 10_000
    namespace_id: Annotated[int, Meta(ge=0, le=0xFFFF)] = 0
    max_nodes: PositiveInt | None = None
    tcp_state: bool = True
    records: bool = False
    echo: bool = False


# --- networks ----------------------------------------------------------------------------------------------


class Topology(Plain, frozen=True):
    """Hosts, routers and the links between them; packets take the way with the fewest links.

    Attributes:
        hosts: Names of hosts: where sockets are. A host has one link.
        links: The links.
        routers: Names of routers.
        mtu_bytes: Largest IP packet of all of them [bytes].
        telemetry: In-band telemetry; none, if None. What hosts send is smaller than `mtu_bytes` by the
            headers.
    """

    hosts: tuple[Name, ...]
    links: tuple[Link, ...]
    routers: tuple[Name, ...] = ()
    mtu_bytes: Annotated[int, Meta(ge=1280, le=65535)] = 1500
    telemetry: Int | None = None
