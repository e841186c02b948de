"""Networks as plain data: the properties of links, and the topology.

The userspace emulator builds such networks (`emulated.py`), scenarios contain them, and the emulator's
process reads them as JSON. Everything is per direction of a link. Sizes count IP packets without link-layer
headers.
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
    """Data that is strictly checked when read, and written without default values."""


class Bernoulli(Plain, frozen=True, tag_field="kind", tag="bernoulli"):
    """Every packet is lost with the same probability, independently of others.

    Attributes:
        ratio: This probability.
    """

    ratio: Ratio


class GilbertElliott(Plain, frozen=True, tag_field="kind", tag="gilbert_elliott"):
    """Loss in bursts: a good and a bad state that may change with each packet (Gilbert 1960, Elliott 1963).

    Attributes:
        good_to_bad: Probability per packet of entering the bad state.
        bad_to_good: Probability per packet of leaving the bad state.
        loss_bad: Probability of loss in the bad state.
        loss_good: Probability of loss in the good state.
    """

    good_to_bad: Ratio
    bad_to_good: Ratio
    loss_bad: Ratio = 1.0
    loss_good: Ratio = 0.0


class Pattern(Plain, frozen=True, tag_field="kind", tag="pattern"):
    """Loss of the packets with given numbers; the first packet of the link is number 0.

    Attributes:
        drop: Numbers, ascending.
        repeat_every_pkts: Number of packets after which the pattern repeats; None for no repetition.
    """

    drop: tuple[int, ...]
    repeat_every_pkts: PositiveInt | None = None


Loss = Bernoulli | GilbertElliott | Pattern


class Buffer(Plain, frozen=True):
    """Maximum queue in front of a link; give exactly one of the fields.

    Attributes:
        packets: Maximum number of packets.
        bytes: Maximum number of bytes.
        bdp: Multiple of rate x base RTT, at least one packet; the base RTT is the maximum of all pairs of
            hosts whose route crosses the link, without queueing.
    """

    packets: PositiveInt | None = None
    bytes: PositiveInt | None = None
    bdp: PositiveFloat | None = None

    def __post_init__(self) -> None:
        given = [name for name in ("packets", "bytes", "bdp") if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(f"give one of packets, bytes and bdp; this buffer has {given or 'none'}")


class DropTail(Plain, frozen=True, tag_field="kind", tag="drop_tail"):
    """Packets that do not fit into the buffer are dropped.

    Attributes:
        ce_threshold_us: Queueing time above which packets of ECN-capable transports are marked CE [us]; None
            for no marks (like `ce_threshold` of Linux' fq_codel: the step marking of RFC 8257).
        ce_threshold_bytes: The same for the queue length when a packet arrives [bytes].
    """

    ce_threshold_us: Micros | None = None
    ce_threshold_bytes: PositiveInt | None = None


class Red(Plain, frozen=True, tag_field="kind", tag="red"):
    """Random early detection (Floyd and Jacobson 1993) in its gentle form.

    Attributes:
        min_bytes: Averaged queue above which packets are marked or dropped [bytes].
        max_bytes: Averaged queue at which the probability reaches `max_ratio` [bytes]; it is 1 at twice this
            length.
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
        if self.min_bytes >= self.max_bytes:
            raise ValueError(f"min_bytes ({self.min_bytes}) must be below max_bytes ({self.max_bytes})")


class CoDel(Plain, frozen=True, tag_field="kind", tag="codel"):
    """Controlled delay (RFC 8289).

    Attributes:
        target_us: Accepted standing queueing delay [us].
        interval_us: Time for which the target may be exceeded [us].
        ecn: Mark ECN-capable packets instead of dropping them.
    """

    target_us: Micros = 5_000
    interval_us: Micros = 100_000
    ecn: bool = True


class Pie(Plain, frozen=True, tag_field="kind", tag="pie"):
    """Proportional integral controller enhanced (RFC 8033; defaults of its sections 4.2, 4.4 and 5.1).

    Attributes:
        target_us: Queueing delay that it aims at [us].
        update_us: Interval at which the probability of a drop is updated [us].
        burst_us: Time for which a burst passes without drops [us].
        ecn: Mark ECN-capable packets instead of dropping them.
        mark_max_ratio: Probability above which packets are always dropped.
    """

    target_us: Micros = 15_000
    update_us: PositiveInt = 15_000
    burst_us: Micros = 150_000
    ecn: bool = True
    mark_max_ratio: Ratio = 0.1


class FqCoDel(Plain, frozen=True, tag_field="kind", tag="fq_codel"):
    """Queues per flow that take turns, each with CoDel (RFC 8290; defaults of its section 5.2).

    A full buffer takes room from the flow with the most bytes.

    Attributes:
        target_us: Accepted standing queueing delay [us].
        interval_us: Time for which the target may be exceeded [us].
        quantum_bytes: What a flow may send per turn [bytes].
        flows: Number of queues; flows are hashed to them.
        ecn: Mark ECN-capable packets instead of dropping them.
    """

    target_us: Micros = 5_000
    interval_us: Micros = 100_000
    quantum_bytes: Annotated[int, Meta(gt=0, lt=1 << 32)] = 1514
    flows: Annotated[int, Meta(gt=0, le=65_536)] = 1024
    ecn: bool = True


class DualPI2(Plain, frozen=True, tag_field="kind", tag="dualpi2"):
    """A low-latency and a classic queue with coupled signals (RFC 9332; defaults of its appendix A.1).

    Packets with ECT(1) or CE use the low-latency queue. A weighted round robin serves the queues. The step
    stands for the ramp of the RFC from 0.8 to 1.2 ms. The RFC leaves the share of the classic queue open.

    Attributes:
        target_us: Queueing delay that the classic queue aims at [us]; also the interval of updates, unless a
            third of `rtt_max_us` is shorter.
        rtt_max_us: Longest RTT of the flows [us]; the controller's gains follow from it.
        coupling: Ratio of the marking probability of the low-latency queue to the root of the classic one.
        step_us: Queueing time above which packets of the low-latency queue are marked [us].
        classic_share: Share of the classic queue while packets wait in both.
        any_ect: Whether ECT(0) also uses the low-latency queue, for scalable senders without ECT(1), such as
            Linux' DCTCP.
    """

    target_us: PositiveInt = 15_000
    rtt_max_us: Annotated[int, Meta(ge=3)] = 100_000
    coupling: PositiveFloat = 2.0
    step_us: Micros = 1_000
    classic_share: Ratio = 1 / 16
    any_ect: bool = False


Queue = DropTail | Red | CoDel | Pie | FqCoDel | DualPI2


class TokenBucket(Plain, frozen=True):
    """Rate limiting as in mobile networks, before the queue of the link.

    Attributes:
        rate_bytes_per_s: Token rate R [bytes/s].
        bucket_bytes: Size of the bucket B [bytes]; full at the start.
        shaper: Packets without tokens wait in the buffer (shaper) instead of being dropped (policer).
        refill_us: Period after which the tokens of that time are added together; 0: continuously [us].
    """

    rate_bytes_per_s: PositiveFloat
    bucket_bytes: PositiveInt
    shaper: bool = False
    refill_us: Micros = 0


class Reorder(Plain, frozen=True):
    """A longer way for some packets: later packets of the usual way overtake them.

    Which packets take it is random and independent, as for packets that a radio link retransmits or that are
    spread over two paths. Packets on the longer way keep their order.

    Attributes:
        ratio: Probability that a packet takes the longer way.
        late_us: Additional delay of the longer way [us].
    """

    ratio: Ratio
    late_us: PositiveInt


class Tunnel(Plain, frozen=True):
    """Encapsulation of packets, as by a VPN.

    Attributes:
        overhead_bytes: Headers around each packet, which count for rate, limiter and buffer [bytes].
        mtu_bytes: Maximum packet inside [bytes]; larger ones are dropped. None for that of the topology.
        reports: Tell the sender of a packet that is too large (ICMP), so that it sends smaller ones; false
            for a black hole.
        ecn: Whether packets that are marked in the tunnel arrive marked (RFC 6040). Without, queues drop
            packets instead of marking them.
    """

    overhead_bytes: Annotated[int, Meta(ge=0, le=1000)]
    mtu_bytes: Annotated[int, Meta(ge=1280, le=65535)] | None = None
    reports: bool = True
    ecn: bool = True


class Direction(Plain, frozen=True):
    """One direction of a link.

    A packet passes, in this order: loss; token bucket; queue in front of the transmitter; transmission at
    `rate_bytes_per_s` or at the trace's opportunities; corruption, duplication; propagation.

    Attributes:
        rate_bytes_per_s: Transmission rate [bytes/s]; None for unlimited (then nothing queues).
        trace: File of a Mahimahi trace, instead of a rate: one line per opportunity to send 1,500 bytes, its
            time in ms since the start. The trace repeats at its end.
        delay_us: Propagation delay [us].
        jitter_us: Additional delay, uniformly distributed from 0 to this value, without reordering [us].
        buffer: Queue limit in front of the transmitter. None for 1 BDP and at least 10 packets, or 1000
            packets where there is no constant rate or no delay.
        queue: Queueing discipline.
        loss: Packets lost at random or by number; None for no loss.
        token_bucket: Rate limiter in front of the queue; None for no limiter.
        duplicate_ratio: Probability that a packet arrives twice.
        corrupt_ratio: Probability that one bit of a packet's payload is flipped.
        reorder: Packets that are late and may be overtaken; None for no reordering.
        ack_filter: Drop a waiting TCP ACK when a later one of the same connection makes it superfluous: it
            carries no data, no SACK range and no option but a timestamp, and the later one has the same flags
            and acknowledges more. The later one takes its place in the queue.
        tunnel: Encapsulation of all packets on the link; None for none.
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
    reorder: Reorder | None = None
    ack_filter: bool = False
    tunnel: Tunnel | None = None

    def __post_init__(self) -> None:
        if self.rate_bytes_per_s is not None and self.trace is not None:
            raise ValueError("give rate_bytes_per_s or trace, not both")

    def one_way_back(self) -> Direction:
        """Return the opposite direction of a link that is described by this direction only."""
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
        name: Unique name in the topology; the directions are `NAME>` (from a to b) and `NAME<`.
        a: A node.
        b: Another node.
        forward: Direction from a to b.
        backward: Direction from b to a; None for that of `forward` without loss, limiter, marking,
            duplication, corruption, reordering, ACK filter and tunnel.
    """

    name: Name
    a: Name
    b: Name
    forward: Direction = Direction()
    backward: Direction | None = None

    @property
    def back(self) -> Direction:
        """The direction from b to a."""
        return self.forward.one_way_back() if self.backward is None else self.backward


Role = Literal["source", "transit", "sink"]


class Radio(Plain, frozen=True):
    """What a node reports of its wireless link, as constants; None for unknown values.

    Attributes:
        rssi_dbm: Signal strength [dBm].
        snr_db: Signal-to-noise ratio [dB].
        mcs: Modulation and coding scheme.
        data_rate_bytes_per_s: Data rate of the link [bytes/s].
    """

    rssi_dbm: Annotated[float, Meta(ge=-300, le=300)] | None = None
    snr_db: Annotated[float, Meta(ge=-300, le=300)] | None = None
    mcs: Annotated[int, Meta(ge=0, le=254)] | None = None
    data_rate_bytes_per_s: Annotated[int, Meta(ge=0, lt=(1 << 32) - 1)] | None = None


class IntNode(Plain, frozen=True):
    """A host or router that takes part in in-band telemetry.

    Attributes:
        name: Name of the host or router.
        roles: `source`: adds headers to TCP and UDP packets over IPv6 that this host sends, or that reach
            this router without headers. `transit`: writes the state of the outgoing link. `sink`: removes the
            headers before the packet reaches this host, or leaves this router for a node without a role.
        node_id: Number of the node in packets; None for its position in the list of nodes, from 1.
        radio: State of its wireless link, if it has one.
    """

    name: Name
    roles: Annotated[tuple[Role, ...], Meta(min_length=1)]
    node_id: Annotated[int, Meta(ge=0, lt=(1 << 24) - 1)] | None = None
    radio: Radio | None = None


class Int(Plain, frozen=True):
    """In-band network telemetry (INT) in the IOAM format.

    Attributes:
        nodes: The participating nodes.
        every_pkts: Every how many packets of a flow carry headers; 1 for all packets.
        interval_us: Time that a summary of the sink covers [us].
        namespace_id: IOAM namespace.
        max_nodes: Number of nodes for which a packet has room; None for the maximum on any route.
        tcp_state: Whether packets also carry the sender's window.
        records: Whether the sink also keeps a record of every packet.
        echo: Whether sinks send echoes of the path in ACKs, and hosts read them for their sockets.
    """

    nodes: Annotated[tuple[IntNode, ...], Meta(min_length=1)]
    every_pkts: PositiveInt = 1
    interval_us: PositiveInt = 10_000
    namespace_id: Annotated[int, Meta(ge=0, le=0xFFFF)] = 0
    max_nodes: PositiveInt | None = None
    tcp_state: bool = True
    records: bool = False
    echo: bool = False


class Misbehaving(Plain, frozen=True):
    """A host whose TCP acknowledgments mislead senders (Savage et al. 1999).

    The acknowledgments are changed where they enter the network, so the host itself needs no special
    software. Data that the host acknowledges without having received them never arrive.

    Attributes:
        host: Name of the host.
        ack_division: Number of acknowledgments that are sent instead of one, each for a part of its bytes.
        optimistic: Whether everything that the sender has sent is acknowledged, received or not, from the
            first 64 KiB of a connection on.
        hides_marks: Whether acknowledgments never report ECN marks.
    """

    host: Name
    ack_division: Annotated[int, Meta(ge=1, le=1000)] = 1
    optimistic: bool = False
    hides_marks: bool = False


class Topology(Plain, frozen=True):
    """Hosts, routers and the links between them; packets take the route with the fewest links.

    Attributes:
        hosts: Names of hosts, which have the sockets. A host has one link.
        links: The links.
        routers: Names of routers.
        mtu_bytes: Maximum IP packet of all links [bytes].
        telemetry: In-band telemetry; None for none. Hosts' packets are smaller than `mtu_bytes` by the
            headers.
        misbehaving: Hosts whose acknowledgments mislead senders.
    """

    hosts: tuple[Name, ...]
    links: tuple[Link, ...]
    routers: tuple[Name, ...] = ()
    mtu_bytes: Annotated[int, Meta(ge=1280, le=65535)] = 1500
    telemetry: Int | None = None
    misbehaving: tuple[Misbehaving, ...] = ()
