"""All messages of the bus: an envelope with sender, time and lifetime, and a body of one of several kinds.

Fields that a publisher may not know are None, which means *missing*; 0 means that it was measured and is 0.
Names carry units. Received messages are validated against these classes (`telemetry.codec`): unknown fields
are ignored, so newer publishers may add fields; known fields must have the right type and range.

The decorator of each body declares its topic and delivery (`broker.topics`).
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
"""Version of the envelope and all bodies; changes if a field changes its meaning, not for new fields."""

_MAX: Final = (1 << 53) - 1  # the largest integer that every JSON parser preserves

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
"""Maximum lifetime of a message: a week [ms]."""
Ttl = Annotated[int, Meta(ge=1, le=MAX_TTL_MS)]
"""Lifetime of a message [ms]."""

WindowMs = Annotated[int, Meta(ge=1, le=3_600_000)]
"""Time that a message covers [ms]: up to an hour."""


@lru_cache(maxsize=65536)
def canonical(address: str) -> str:
    """Return an IP address in canonical form; IPv4 in IPv6 becomes IPv4.

    The interface of a link-local address (`fe80::1%eth0`) is left out, because other hosts do not know it.

    Raises:
        ValueError: If it is not an address.
    """
    parsed = ipaddress.ip_address(address)
    if isinstance(parsed, ipaddress.IPv6Address) and parsed.ipv4_mapped is not None:
        parsed = parsed.ipv4_mapped
    return str(parsed).partition("%")[0]


def unpacked(packed: bytes) -> str:
    """Return the canonical form of an address of 16 bytes, as in kernel programs."""
    return canonical(str(ipaddress.IPv6Address(packed)))


def published(topic: TopicKind) -> Callable[[_Body], _Body]:
    """Declare the topic of a body."""

    def declared(body: _Body) -> _Body:
        declare(replace(topic, kind=str(body.__struct_config__.tag)))
        return body

    return declared


class FlowId(Struct, frozen=True, kw_only=True):
    """The 5-tuple of a flow, in either direction.

    Attributes:
        src: Address of one end.
        src_port: Its port.
        dst: Address of the other end.
        dst_port: Its port.
        protocol: `tcp`, or `udp`, for which ccplane has no flows.
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
    """Base of messages about flows. The most specific given field decides: see `telemetry.join`.

    Attributes:
        flow: One flow.
        peer: Address at the other end of the path, as the publisher sees it.
        address: The publisher's address on that path.
        host: Name of a host, for all its flows.
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
        "a receiver's measurements of a peer or a flow: RTT, one-way delay, CE marks, loss, goodput",
        about="peer",
        ttl_ms=3000,
        for_agents=True,
    )
)
class ReceiverSignal(About, frozen=True, kw_only=True, omit_defaults=True, tag="receiver_signal"):
    """A receiver's measurements of one peer over a window. `peer` is the sending host, and is always given.

    With `flow`, the signal is about that connection only; the receiver's signal about the peer includes it.

    Attributes:
        window_ms: Length of the window [ms].
        rtt_min_us: Minimum RTT in the window [us].
        rtt_p50_us: Median RTT [us].
        rtt_p95_us: 95th percentile [us].
        rtt_p99_us: 99th percentile [us].
        rtt_max_us: Maximum RTT [us].
        rtt_samples: Number of RTT samples.
        jitter_us: Mean difference of consecutive RTTs [us].
        owd_variation_us: 99th percentile of the one-way delay of the peer's segments, above the minimum of
            their flow (PDV of RFC 5481) [us].
        ce_marks: Packets with ECN CE, new in the window.
        loss_pkts: Segments that the receiver itself retransmitted to the peer, because the peer's ACKs showed
            a loss or did not arrive, new in the window; None if it sent the peer nothing.
        reordered_pkts: Segments that arrived out of order, new in the window.
        duplicate_pkts: Segments that arrived twice, new in the window.
        resent_pkts: Segments that the peer retransmitted, as recognised by the receiver on arrival, new in
            the window: below the highest sequence number, with a newer timestamp.
        retrans_pkts: Segments that the peer retransmitted to the receiver, as reported in the peer's own
            signal (its `loss_pkts`), new in the window; None without such a signal.
        arrival_pkts_per_s: Segments with payload that arrived, in any order [packets/s].
        goodput_bytes_per_s: Bytes that arrived in order [bytes/s].
        flows: Number of flows with this peer in the window.
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
        "the congestion regime of a path, as decided by a detector",
        about="peer",
        qos=1,
        retain=True,
        decision=True,
        ttl_ms=60_000,
        for_agents=True,
    )
)
class RegimeDecision(About, frozen=True, kw_only=True, omit_defaults=True, tag="regime_decision"):
    """The congestion regime of a path or a host.

    Attributes:
        regime: `SINGLE_OWNER` (the sender has the bottleneck alone) or `SHARED`.
        score: 1 if the newest window looked congested, else 0.
        density: Share of the last windows that looked congested.
        estimate: Estimate from these windows; the regime follows once it persists.
        window_ms: Length of a window [ms].
        since_wall_us: Time since when the regime holds, by the publisher's wall clock [us].
        reason: Human-readable reason.
    """

    regime: Literal["SINGLE_OWNER", "SHARED"]
    score: Annotated[int, Meta(ge=0, le=1)] | None = None
    density: Ratio | None = None
    estimate: Literal["SINGLE_OWNER", "SHARED"] | None = None
    window_ms: WindowMs | None = None
    since_wall_us: Count | None = None
    reason: Text = ""


class IntHop(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Data of one node on the path; means over the interval unless noted otherwise.

    Attributes:
        node_id: Number of the node.
        interval_us: Time that its means cover, by its own clock [us]; the weight of the means. A growing
            queue stretches the interval at the sink.
        queue_depth_bytes: Bytes in the queue, time-weighted.
        queue_depth_pkts: Packets in the queue, time-weighted.
        queue_free_bytes: Room left in the queue [bytes], time-weighted.
        queue_free_pkts: Room left in the queue [packets], time-weighted.
        queue_is_unlimited: Whether the queue has no limit. If neither this nor the room left is given, the
            limit is unknown.
        arrival_pkts_per_s: Packets that arrive at the queue [packets/s].
        arrival_bytes_per_s: Bytes that arrive at the queue [bytes/s].
        flow_count: Flows that share the queue.
        transit_delay_us: Time within the node [us].
        lost_pkts: Packets lost on its outgoing link, new in the interval.
        lost_congestion_pkts: Packets of the flow that its queue dropped, as in the summary.
        lost_link_pkts: Packets of the flow lost on its outgoing link, as in the summary.
        rssi_dbm: Signal strength of a wireless link [dBm].
        snr_db: Signal-to-noise ratio of a wireless link [dB].
        mcs: Last modulation and coding scheme of a wireless link.
        data_rate_bytes_per_s: Data rate of the link [bytes/s].
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
        "in-band telemetry of a flow over an interval: latency, loss and its cause, queues by hop",
        ttl_ms=1000,
        for_agents=True,
    )
)
class IntSummary(About, frozen=True, kw_only=True, omit_defaults=True, tag="int_summary"):
    """In-band telemetry of one flow over an interval.

    Attributes:
        interval_us: Length of the interval [us].
        end_mono_us: Its end, by the sink's monotonic clock [us].
        received_pkts: Packets of the flow that reached the sink, new in the interval.
        lost_pkts: Packets of the flow that were lost, new in the interval.
        latency_us: Mean latency from source to sink [us].
        latency_max_us: Maximum latency [us].
        jitter_us: Mean difference of consecutive latencies [us].
        loss_ratio: Lost packets divided by sent packets.
        loss_cause: Main cause of the losses; `none` without losses. None if unknown, and no queue is known to
            have dropped packets.
        lost_congestion_pkts: Packets known since this interval to be dropped by a queue. That may be later
            than they count in `lost_pkts`; until then they are `lost_unknown_pkts`.
        lost_link_pkts: The same for packets lost on a link.
        lost_unknown_pkts: Lost packets whose place of loss is not known yet.
        has_silent_hop: Whether hop limits show that some nodes on the path report nothing.
        cwnd_bytes: The sender's last window carried in packets [bytes].
        hops: The nodes on the path, starting with the first after the source.
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
        "birth message and last will: `online`, or `offline` with the reason",
        qos=1,
        retain=True,
        decision=True,
        for_agents=True,
    )
)
class AgentStatus(
    Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="agent_status"
):
    """Birth message or last will of a publisher.

    Attributes:
        status: `online`, or `offline`.
        role: Kind of publisher.
        reason: Why it is offline: `stopped`, or `connection lost` (sent by the broker on its behalf).
        software: Name and version.
        host: Name of its host.
        algorithms: Algorithms of an agent.
        started_wall_us: Start of the program, by its wall clock [us].
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
        algorithm: The algorithm.
        name: Name of the parameter.
        value: Its new value.
        flow: The affected flow; None for all.
    """

    algorithm: Word
    name: Word
    value: Value | None
    flow: FlowId | None = None


@published(TopicKind("event", "an event of an algorithm or a flow, such as a reload or an exception"))
class AlgorithmEvent(
    Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="algorithm_event"
):
    """An event of an algorithm or of one of its flows.

    Attributes:
        algorithm: The algorithm.
        event: The event, as `area:thing_happened`.
        flow: The flow, for events of one flow.
        detail: Further data, such as the hashes of the sources before and after a reload.
    """

    algorithm: Word
    event: Word
    flow: FlowId | None = None
    detail: Annotated[dict[Word, Value | None], Meta(max_length=64)] = {}


Body = ReceiverSignal | RegimeDecision | IntSummary | AgentStatus | ParamChange | AlgorithmEvent
"""All bodies."""


class Envelope(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One message.

    Attributes:
        version: Version of the schema: `VERSION`.
        sender: Name of the publisher; also a level of the topic.
        t_mono_us: Time of the message, by the publisher's monotonic clock [us].
        t_wall_us: Time of the message, by the publisher's wall clock, since 1970 [us].
        ttl_ms: Lifetime [ms]; None for that of its kind.
        body: The content.
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


class Sample(Struct, frozen=True, kw_only=True, gc=False):
    """A received, valid message: the argument of `on_telemetry`.

    Attributes:
        kind: Kind of the body, such as `receiver_signal`.
        body: The content.
        sender: Name of its publisher.
        topic: Its topic, an address in it in canonical form.
        received_us: Time of arrival, CLOCK_MONOTONIC of this host [us]: the clock of `report.now_us`.
        age_at_receipt_us: Its age at arrival [us]; see `telemetry.age`.
        expires_us: Time of its expiry, same clock [us]; None for never.
        sent_mono_us: Time of the message, by the sender's monotonic clock [us].
        sent_wall_us: Time of the message, by the sender's wall clock [us].
        retained: Whether the broker had stored it: it was published before the subscription.
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
        """Return the sample's age [ms].

        Args:
            now_us: CLOCK_MONOTONIC of this host [us], such as `report.now_us`.
        """
        return max(0, now_us - self.received_us + self.age_at_receipt_us) / 1000

    def expired(self, now_us: int) -> bool:
        """Return whether the sample has expired at `now_us` (CLOCK_MONOTONIC) [us]."""
        return self.expires_us is not None and now_us >= self.expires_us
