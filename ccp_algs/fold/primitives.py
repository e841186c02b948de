"""What a datapath measures: `Ack.<name>` of an ACK, `Flow.<name>` of its flow, `Int.<name>` of its path.

The list is that of `enum ccp_prim` in native/ccp-bpf/src/bpf/intf.h; a test compares them.
"""

from __future__ import annotations

from typing import Final, NoReturn

from ccp_algs.errors import UnknownPrimitiveError, caller
from ccp_algs.fold.expressions import Primitive, PrimitiveFlag
from ccplane.base.names import close_names


class AckPrimitives:
    """What one ACK tells. In fold programs as `Ack.<name>`."""

    bytes_acked = Primitive("Ack.bytes_acked")
    """Acknowledged in order [bytes]."""
    bytes_misordered = Primitive("Ack.bytes_misordered")
    """Newly acknowledged out of order, by SACK [bytes]."""
    ecn_bytes = Primitive("Ack.ecn_bytes")
    """Acknowledged with an ECN echo [bytes]."""
    ecn_packets = Primitive("Ack.ecn_packets")
    """Delivered with an ECN echo [packets]."""
    lost_pkts_sample = Primitive("Ack.lost_pkts_sample")
    """Newly marked lost [packets]."""
    now = Primitive("Ack.now")
    """The datapath's clock [us]."""
    packets_acked = Primitive("Ack.packets_acked")
    """Acknowledged in order [packets]."""
    packets_misordered = Primitive("Ack.packets_misordered")
    """Newly acknowledged out of order [packets]."""

    def __getattr__(self, name: str) -> NoReturn:
        """Say which primitives there are.

        Raises:
            UnknownPrimitiveError: `fold.unknown_primitive`.
        """
        raise _unknown("Ack", name, type(self))


class FlowPrimitives:
    """What the datapath knows of the flow at this ACK. In fold programs as `Flow.<name>`."""

    bytes_in_flight = Primitive("Flow.bytes_in_flight")
    """Sent and neither delivered nor marked lost [bytes]."""
    bytes_pending = Primitive("Flow.bytes_pending")
    """In the socket's send buffer, not yet acknowledged [bytes]."""
    packets_in_flight = Primitive("Flow.packets_in_flight")
    """Sent and neither delivered nor marked lost [packets]."""
    rate_incoming = Primitive("Flow.rate_incoming")
    """Rate at which data arrived at the receiver [bytes/s]."""
    rate_outgoing = Primitive("Flow.rate_outgoing")
    """Rate at which data was sent [bytes/s]."""
    rtt_sample_us = Primitive("Flow.rtt_sample_us", sampled=True)
    """RTT sample of this ACK [us]. Not every ACK has one; statements that read it skip those without."""
    was_timeout = PrimitiveFlag("Flow.was_timeout")
    """The fold runs because of a retransmission timeout, not of an ACK."""
    min_rtt_us = Primitive("Flow.min_rtt_us")
    """The kernel's windowed minimum RTT [us]."""
    srtt_us = Primitive("Flow.srtt_us")
    """The kernel's smoothed RTT [us]."""
    mss = Primitive("Flow.mss", nonzero=True)
    """Maximum segment size [bytes]."""
    delivered = Primitive("Flow.delivered")
    """Delivered since the connection began [packets]."""
    lost = Primitive("Flow.lost")
    """Marked lost since the connection began [packets]."""
    retrans = Primitive("Flow.retrans")
    """Retransmitted since the connection began [packets]."""
    ca_state = Primitive("Flow.ca_state")
    """The kernel's state: 0 Open, 1 Disorder, 2 CWR, 3 Recovery, 4 Loss."""
    app_limited = PrimitiveFlag("Flow.app_limited")
    """The rate sample was limited by the application."""
    snd_ssthresh = Primitive("Flow.snd_ssthresh", huge=True)
    """The kernel's slow-start threshold [bytes], INFINITY before the first loss."""
    cwnd_limited = PrimitiveFlag("Flow.cwnd_limited")
    """The window, not the application or the receiver, limits sending."""
    local_congestion = Primitive("Flow.local_congestion")
    """How often a queue of this host refused a packet since the last fold."""
    ecn_ok = PrimitiveFlag("Flow.ecn_ok")
    """ECN was negotiated."""
    delivered_bytes = Primitive("Flow.delivered_bytes")
    """Acknowledged in order since the connection began [bytes]."""
    rate_allowed = Primitive("Flow.rate_allowed")
    """What an extension of the datapath lets it send [bytes/s], 0 while none bounds it (`ccp_algs.rtcp`)."""

    def __getattr__(self, name: str) -> NoReturn:
        """Say which primitives there are.

        Raises:
            UnknownPrimitiveError: `fold.unknown_primitive`.
        """
        raise _unknown("Flow", name, type(self))


class IntPrimitives:
    """What the last echo of in-band telemetry said (docs/inband.md). In fold programs as `Int.<name>`.

    The echo is of one hop, that with the longest wait, but for counts of losses. All but `age_us` are 0 while
    nobody echoes.
    """

    age_us = Primitive("Int.age_us", huge=True)
    """Since the packet left this host that the last echo is of [us]; INFINITY while nobody echoes."""
    fresh = PrimitiveFlag("Int.fresh")
    """This ACK brought a new echo."""
    hop = Primitive("Int.hop")
    """Place of the hop, counted from the sender: 1 and up."""
    node = Primitive("Int.node")
    """Its id."""
    hops = Primitive("Int.hops")
    """How many hops wrote."""
    all_known = PrimitiveFlag("Int.all_known")
    """Every hop of the path tells depth and room of its queue."""
    queue_bytes = Primitive("Int.queue_bytes")
    """Its queue, in full-size packets [bytes]."""
    free_bytes = Primitive("Int.free_bytes", huge=True)
    """Room in its queue, in full-size packets [bytes]; INFINITY if unlimited, 0 if it does not say."""
    arrival_bytes_per_s = Primitive("Int.arrival_bytes_per_s")
    """What arrives there, of all flows [bytes/s]."""
    link_bytes_per_s = Primitive("Int.link_bytes_per_s")
    """What its queue drains at [bytes/s]; 0 if it does not say."""
    flow_count = Primitive("Int.flow_count")
    """Flows that it sees; 0 if it does not say."""
    losses_congestion = Primitive("Int.losses_congestion")
    """Of this flow since it began, dropped by a node's own queue [packets]."""
    losses_link = Primitive("Int.losses_link")
    """Since then, lost between two nodes that both tell [packets]."""
    losses_unknown = Primitive("Int.losses_unknown")
    """Since then, lost where some node tells nothing [packets]."""

    def __getattr__(self, name: str) -> NoReturn:
        """Say which primitives there are.

        Raises:
            UnknownPrimitiveError: `fold.unknown_primitive`.
        """
        raise _unknown("Int", name, type(self))


def _unknown(prefix: str, name: str, kind: type) -> UnknownPrimitiveError:
    known = [key for key in vars(kind) if not key.startswith("_")]
    return UnknownPrimitiveError(
        "fold.unknown_primitive",
        f"no primitive `{prefix}.{name}`",
        where=caller(),
        why="a datapath measures only what is listed in ccp_algs/fold/primitives.py",
        fix=close_names(name, known, "primitive").replace("`", f"`{prefix}.", 1),
    )


Ack: Final = AckPrimitives()
Flow: Final = FlowPrimitives()
Int: Final = IntPrimitives()
