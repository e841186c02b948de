"""All messages of the bus: an envelope that says who, when and for how long, and one body of many kinds.

Every field that a publisher may not know is None, which means *missing*; 0 means that it was measured and is
0. Names carry units. What is received is checked against these classes (`telemetry.codec`): unknown fields
are passed over, so that a newer publisher may say more; what is there must have the right type and range.

Above each body stands where it is published and how it travels (`broker.topics`).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Annotated, Final, Literal, TypeVar

from msgspec import Meta, Struct

from broker.topics import TopicKind, declare

_Body = TypeVar("_Body", bound=type[Struct])

VERSION: Final = 1
"""Version of the envelope and all bodies. It grows when a field changes its meaning, not for new ones."""

_MAX: Final = (1 << 53) - 1  # what every JSON reader keeps exactly

Count = Annotated[int, Meta(ge=0, le=_MAX)]
"""A number of things, bytes, or microseconds."""

MeanCount = Annotated[float, Meta(ge=0.0, le=float(_MAX))]
"""A mean number of things."""

Ratio = Annotated[float, Meta(ge=0.0, le=1.0)]
Decibel = Annotated[float, Meta(ge=-1000.0, le=1000.0)]
Port = Annotated[int, Meta(ge=0, le=65535)]
Name = Annotated[str, Meta(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9._-]+\Z")]
Word = Annotated[str, Meta(min_length=1, max_length=128)]
Text = Annotated[str, Meta(max_length=2000)]
Value = Annotated[int, Meta(ge=-_MAX, le=_MAX)] | Annotated[float, Meta(ge=-1e300, le=1e300)] | bool | Text
"""A parameter's value, or a detail of an event; floats are finite."""

MAX_TTL_MS: Final = 7 * 24 * 3600 * 1000
"""A message is true for a week at the most [ms]."""
Ttl = Annotated[int, Meta(ge=1, le=MAX_TTL_MS)]
"""How long a message is true [ms]."""

WindowMs = Annotated[int, Meta(ge=1, le=3_600_000)]
"""What a message covers [ms]: up to an hour."""


@lru_cache(maxsize=65536)
def canonical(address: str) -> str:
    """Return an IP address in its one spelling; IPv4 in IPv6 becomes IPv4.

    Raises:
        ValueError: If it is no address.
    """
    parsed = ipaddress.ip_address(address)
    if isinstance(parsed, ipaddress.IPv6Address) and parsed.ipv4_mapped is not None:
        parsed = parsed.ipv4_mapped
    return str(parsed)


def unpacked(packed: bytes) -> str:
    """Return the address that 16 bytes are, as kernel programs have it, in its one spelling."""
    return canonical(str(ipaddress.IPv6Address(packed)))


def published(topic: TopicKind) -> Callable[[_Body], _Body]:
    """Declare on which topic a body is published."""

    def declared(body: _Body) -> _Body:
        declare(replace(topic, kind=str(body.__struct_config__.tag)))
        return body

    return declared


class FlowId(Struct, frozen=True, kw_only=True):
    """The 5-tuple of a flow, in either direction.

    Attributes:
        src: One end's address.
        src_port: Its port.
        dst: The other end's address.
        dst_port: Its port.
        protocol: `tcp`, or `udp`, of which we have no flows.
    """

    src: str
    src_port: Port
    dst: str
    dst_port: Port
    protocol: Literal["tcp", "udp"] = "tcp"

    def __post_init__(self) -> None:
        canonical(self.src)
        canonical(self.dst)


class About(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind"):
    """Base of what belongs to flows. The most exact of what is given decides: see `telemetry.join`.

    Attributes:
        flow: One flow.
        peer: The address at the other end of the path, as the publisher sees it.
        address: The publisher's own address on that path.
        host: A host by name, meaning all its flows.
    """

    flow: FlowId | None = None
    peer: str | None = None
    address: str | None = None
    host: Name | None = None

    def __post_init__(self) -> None:
        if self.peer is not None:
            canonical(self.peer)
        if self.address is not None:
            canonical(self.address)


@published(
    TopicKind(
        "signal",
        "what a receiver measured of a peer or a flow: RTT, one-way delay, CE marks, loss, goodput",
        about="peer",
        ttl_ms=3000,
        for_agents=True,
    )
)
class ReceiverSignal(About, frozen=True, kw_only=True, omit_defaults=True, tag="receiver_signal"):
    """What a receiver measured of one peer over a window. `peer` is always given: who sends to the receiver.

    With `flow`, it is about that connection only; the same receiver's signal of the peer holds all of them.

    Attributes:
        window_ms: Length of the window [ms].
        rtt_min_us: Least RTT in the window [us].
        rtt_p50_us: Median RTT [us].
        rtt_p95_us: 95th percentile [us].
        rtt_p99_us: 99th percentile [us].
        rtt_max_us: Greatest RTT [us].
        rtt_samples: How many RTTs these are of.
        jitter_us: Mean difference of neighbouring RTTs [us].
        owd_variation_us: 99th percentile of the one-way delay of segments from the peer above the least one
            of their flow (PDV of RFC 5481) [us].
        ce_marks: Packets with ECN CE, new in the window.
        loss_pkts: Segments that the receiver itself sent to the peer again, because the peer's ACKs showed a
            loss or did not come, new in the window; None if it sent the peer nothing.
        reordered_pkts: Segments that came out of order, new in the window.
        duplicate_pkts: Segments that came twice, new in the window.
        resent_pkts: Segments that the peer sent again, as the receiver recognises them when they come, new in
            the window: below the highest sequence number, with a newer timestamp.
        retrans_pkts: Segments that the peer sent to the receiver again, as the peer's own signal about the
            receiver says (its `loss_pkts`), new in the window; None if it says nothing.
        arrival_pkts_per_s: Segments with payload that arrived, in whatever order, by time [packets/s].
        goodput_bytes_per_s: Bytes that arrived in order, by time [bytes/s].
        flows: How many flows with this peer the window saw.
    """

    peer: str
    window_ms: WindowMs | None = None
    rtt_min_us: Count | None = None
    rtt_p50_us: Count | None = None
    rtt_p95_us: Count | None = None
    rtt_p99_us: Count | None = None
    rtt_max_us: Count | None = None
    rtt_samples: Count | None = None
    jitter_us: Count | None = None
    owd_variation_us: Count | None = None
    ce_marks: Count | None = None
    loss_pkts: Count | None = None
    reordered_pkts: Count | None = None
    duplicate_pkts: Count | None = None
    resent_pkts: Count | None = None
    retrans_pkts: Count | None = None
    arrival_pkts_per_s: Count | None = None
    goodput_bytes_per_s: Count | None = None
    flows: Count | None = None


@published(
    TopicKind(
        "regime",
        "which congestion regime a path is in, as a detector decided",
        about="peer",
        qos=1,
        retain=True,
        decision=True,
        ttl_ms=60_000,
        for_agents=True,
    )
)
class RegimeDecision(About, frozen=True, kw_only=True, omit_defaults=True, tag="regime_decision"):
    """Which congestion regime a path or a host is in.

    Attributes:
        regime: `SINGLE_OWNER` (the queue is ours alone) or `SHARED`.
        score: 1 if the newest window looked congested, else 0.
        density: Share of the last windows that looked congested.
        estimate: What these windows say; the regime follows when they say it for long enough.
        window_ms: Length of a window [ms].
        since_wall_us: Since when, by the publisher's wall clock [us].
        reason: Why it was decided so, for people.
    """

    regime: Literal["SINGLE_OWNER", "SHARED"]
    score: Annotated[int, Meta(ge=0, le=1)] | None = None
    density: Ratio | None = None
    estimate: Literal["SINGLE_OWNER", "SHARED"] | None = None
    window_ms: WindowMs | None = None
    since_wall_us: Count | None = None
    reason: Text = ""


class IntHop(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one node on the path said, mean over the interval where not said otherwise.

    Attributes:
        node_id: Number of the node.
        interval_us: For how long its means are, by its own clock [us]: what to weigh them by. A queue that
            grows stretches the interval at the sink.
        queue_depth_bytes: Bytes that wait, by time.
        queue_depth_pkts: Packets that wait, by time.
        queue_free_bytes: Room left in the queue [bytes], by time.
        queue_free_pkts: Room left in the queue [packets], by time.
        queue_is_unlimited: Whether the queue has no limit. A hop that says neither this nor the room left
            has a limit that nobody knows.
        arrival_pkts_per_s: Packets that come to the queue [packets/s].
        arrival_bytes_per_s: Bytes that come to the queue [bytes/s].
        flow_count: Flows that share the queue.
        transit_delay_us: Time within the node [us].
        lost_pkts: Packets lost on the link behind it, new in the interval.
        lost_congestion_pkts: Packets of the flow that its queue dropped, as the summary's.
        lost_link_pkts: Packets of the flow that the link behind it lost, as the summary's.
        rssi_dbm: Signal strength of a wireless link [dBm].
        snr_db: Signal to noise ratio of a wireless link [dB].
        mcs: Modulation and coding scheme of a wireless link, the last one.
        data_rate_bytes_per_s: Rate of the link [bytes/s].
    """

    node_id: Count | None = None
    interval_us: Count | None = None
    queue_depth_bytes: Count | None = None
    queue_depth_pkts: MeanCount | None = None
    queue_free_bytes: Count | None = None
    queue_free_pkts: MeanCount | None = None
    queue_is_unlimited: bool = False
    arrival_pkts_per_s: Count | None = None
    arrival_bytes_per_s: Count | None = None
    flow_count: Count | None = None
    transit_delay_us: Count | None = None
    lost_pkts: Count | None = None
    lost_congestion_pkts: Count = 0
    lost_link_pkts: Count = 0
    rssi_dbm: Decibel | None = None
    snr_db: Decibel | None = None
    mcs: Count | None = None
    data_rate_bytes_per_s: Count | None = None


@published(
    TopicKind(
        "int",
        "what in-band telemetry says of a flow over an interval: latency, loss, its cause, queues by hop",
        ttl_ms=1000,
        for_agents=True,
    )
)
class IntSummary(About, frozen=True, kw_only=True, omit_defaults=True, tag="int_summary"):
    """What in-band telemetry says of one flow over an interval.

    Attributes:
        interval_us: Length of the interval [us].
        end_mono_us: Its end, by the sink's monotonic clock [us].
        received_pkts: Packets of the flow that reached the sink, new in the interval.
        lost_pkts: Packets of the flow that did not, new in the interval.
        latency_us: Mean latency from source to sink [us].
        latency_max_us: Greatest latency [us].
        jitter_us: Mean difference of neighbouring latencies [us].
        loss_ratio: Lost by sent.
        loss_cause: Where losses come from; `none` if nothing was lost. None if nobody knows, and no queue
            is known to have dropped any.
        lost_congestion_pkts: Packets of which it is known since the interval that a queue dropped them.
            That may be later than `lost_pkts` has them, and then they were `lost_unknown_pkts`.
        lost_link_pkts: The same of those that a link lost.
        lost_unknown_pkts: Of the lost ones, those of which nobody knows yet where they were lost.
        has_silent_hop: Whether hop limits show that there are nodes on the path which tell nothing.
        cwnd_bytes: The sender's window as carried in the packets, the last one [bytes].
        hops: The nodes on the path, the first behind the source first.
    """

    flow: FlowId
    interval_us: Count | None = None
    end_mono_us: Count | None = None
    received_pkts: Count | None = None
    lost_pkts: Count | None = None
    lost_congestion_pkts: Count | None = None
    lost_link_pkts: Count | None = None
    lost_unknown_pkts: Count | None = None
    latency_us: Count | None = None
    latency_max_us: Count | None = None
    jitter_us: Count | None = None
    loss_ratio: Ratio | None = None
    loss_cause: Literal["none", "wireless", "overflow", "mixed"] | None = None
    cwnd_bytes: Count | None = None
    has_silent_hop: bool = False
    hops: Annotated[tuple[IntHop, ...], Meta(max_length=64)] = ()


@published(
    TopicKind(
        "status",
        "birth and last will: `online`, or `offline` with the reason",
        qos=1,
        retain=True,
        decision=True,
        for_agents=True,
    )
)
class AgentStatus(
    Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="agent_status"
):
    """Birth and last will of whoever publishes.

    Attributes:
        status: `online`, or `offline`.
        role: What it is.
        reason: Why it is offline: `stopped`, or `connection lost` (the broker says so in its name).
        software: Name and version.
        host: Its host by name.
        algorithms: What an agent runs.
        started_wall_us: Since when it runs, by its wall clock [us].
    """

    status: Literal["online", "offline"]
    role: Literal["agent", "receiver", "sink", "detector", "client"]
    reason: Text = ""
    software: Text = ""
    host: Name | None = None
    algorithms: Annotated[tuple[Word, ...], Meta(max_length=256)] = ()
    started_wall_us: Count | None = None


@published(TopicKind("param", "a parameter of an algorithm was set", qos=1, decision=True))
class ParamChange(
    Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="param_change"
):
    """A parameter of an algorithm was set.

    Attributes:
        algorithm: Whose.
        name: Which.
        value: To what.
        flow: Of this flow only; None for all.
    """

    algorithm: Word
    name: Word
    value: Value | None
    flow: FlowId | None = None


@published(
    TopicKind("event", "something happened to an algorithm or a flow, such as a reload or an exception")
)
class AlgorithmEvent(
    Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="algorithm_event"
):
    """Something happened to an algorithm or one of its flows.

    Attributes:
        algorithm: Whose.
        event: What, as `area:thing_happened`.
        flow: The flow, if it is about one.
        detail: What else there is to say, such as the hashes of the sources before and after a reload.
    """

    algorithm: Word
    event: Word
    flow: FlowId | None = None
    detail: Annotated[dict[Word, Value | None], Meta(max_length=64)] = {}


Body = ReceiverSignal | RegimeDecision | IntSummary | AgentStatus | ParamChange | AlgorithmEvent
"""What a message may say."""


class Envelope(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One message.

    Attributes:
        version: Of the schema: `VERSION`.
        sender: Who publishes; also a level of the topic.
        t_mono_us: When it was made, by the publisher's monotonic clock [us].
        t_wall_us: The same by its wall clock, since 1970 [us].
        ttl_ms: How long it is true [ms]; None for no end.
        body: What it says.
    """

    version: Annotated[int, Meta(ge=0, le=_MAX)]
    sender: Name
    t_mono_us: Count
    t_wall_us: Count
    ttl_ms: Ttl | None = None
    body: Body


def kind_of(body: Body) -> str:
    """Return the name of a body's kind, as in its field `kind`."""
    return str(body.__struct_config__.tag)


class Sample(Struct, frozen=True, kw_only=True):
    """A message that was received and is valid: what `on_telemetry` gets.

    Attributes:
        kind: Kind of the body, such as `receiver_signal`.
        body: What it says.
        sender: Who said it.
        topic: Where.
        received_us: When it came, CLOCK_MONOTONIC of this host [us]: the clock of `report.now_us`.
        age_at_receipt_us: How old it was then [us]; see `telemetry.age`.
        expires_us: When it stops being true, same clock [us]; None for never.
        sent_mono_us: When it was made, by the sender's monotonic clock [us].
        sent_wall_us: When it was made, by the sender's wall clock [us].
        retained: The broker kept it for us: it was published before we subscribed.
    """

    kind: str
    body: Body
    sender: str
    topic: str
    received_us: int
    age_at_receipt_us: int = 0
    expires_us: int | None = None
    sent_mono_us: int = 0
    sent_wall_us: int = 0
    retained: bool = False

    def age_ms(self, now_us: int) -> float:
        """Return how old it is [ms].

        Args:
            now_us: CLOCK_MONOTONIC of this host [us], such as `report.now_us`.
        """
        return max(0, now_us - self.received_us + self.age_at_receipt_us) / 1000

    def expired(self, now_us: int) -> bool:
        """Return whether it has stopped being true at `now_us` (CLOCK_MONOTONIC) [us]."""
        return self.expires_us is not None and now_us >= self.expires_us
