"""The primitives that a datapath measures: `Ack.<name>`, `Flow.<name>`, and `Int.<name>` of the path.

The primitives are the entries of `enum ccp_prim` in native/ccp-bpf/src/bpf/intf.h, which documents them.
"""

from __future__ import annotations

from typing import Final, NoReturn

from ccp_algs.errors import UnknownPrimitiveError, caller
from ccp_algs.fold.expressions import Flag, Num
from ccplane.base.names import close_names


class Primitive(Num):
    """A number that the datapath measures."""

    def __init__(
        self, name: str, *, huge: bool = False, nonzero: bool = False, sampled: bool = False
    ) -> None:
        """Take the full name, such as `Ack.bytes_acked`."""
        self.name = name
        self.huge = huge
        self.nonzero = nonzero
        self.sampled = sampled

    def render(self) -> str:
        """Return the name."""
        return self.name

    def __repr__(self) -> str:
        """Return the name."""
        return self.name


class PrimitiveFlag(Flag):
    """A flag that the datapath measures."""

    def __init__(self, name: str) -> None:
        """Take the full name, such as `Flow.was_timeout`."""
        self.name = name

    def render(self) -> str:
        """Return the name."""
        return self.name

    def __repr__(self) -> str:
        """Return the name."""
        return self.name


class AckPrimitives:
    """Values of one ACK. In fold programs as `Ack.<name>`."""

    # facts: ack (made by `make facts` from native/ccp-bpf/src/bpf/intf.h)
    bytes_acked = Primitive("Ack.bytes_acked")
    """Acknowledged in order [bytes]."""
    bytes_misordered = Primitive("Ack.bytes_misordered")
    """Newly acknowledged out of order, by SACK [bytes]."""
    ecn_bytes = Primitive("Ack.ecn_bytes")
    """Acknowledged with an ECN echo; with AccECN, marked [bytes]."""
    ecn_packets = Primitive("Ack.ecn_packets")
    """Delivered with an ECN echo; with AccECN, marked [packets]."""
    lost_pkts_sample = Primitive("Ack.lost_pkts_sample")
    """Newly marked lost [packets]."""
    now = Primitive("Ack.now")
    """The datapath's clock [us]."""
    packets_acked = Primitive("Ack.packets_acked")
    """Acknowledged in order [packets]."""
    packets_misordered = Primitive("Ack.packets_misordered")
    """Newly acknowledged out of order [packets]."""
    # end of facts

    def __getattr__(self, name: str) -> NoReturn:
        """Raise an error that lists the primitives.

        Raises:
            UnknownPrimitiveError: `fold.unknown_primitive`.
        """
        raise _unknown("Ack", name, type(self))


class FlowPrimitives:
    """Values of the flow at this ACK. In fold programs as `Flow.<name>`."""

    # facts: flow (made by `make facts` from native/ccp-bpf/src/bpf/intf.h)
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
    """RTT sample [us]. Not every ACK has a sample; statements that read this field skip ACKs without one."""
    was_timeout = PrimitiveFlag("Flow.was_timeout")
    """The fold runs because of a retransmission timeout, not because of an ACK."""
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
    """The kernel's slow-start threshold [bytes]; INFINITY before the first loss."""
    cwnd_limited = PrimitiveFlag("Flow.cwnd_limited")
    """The window, not the application or the receiver, limits sending."""
    local_congestion = Primitive("Flow.local_congestion")
    """Times that a queue of this host refused a packet since the last fold."""
    ecn_ok = PrimitiveFlag("Flow.ecn_ok")
    """ECN was negotiated."""
    delivered_bytes = Primitive("Flow.delivered_bytes")
    """Acknowledged in order since the connection began [bytes]."""
    sent_bytes = Primitive("Flow.sent_bytes")
    """Sent since the connection began, without retransmissions [bytes]."""
    prior_delivered = Primitive("Flow.prior_delivered")
    """`Flow.delivered` when the newest packet that this ACK delivers was sent [packets]; 0 if it delivers
    none.
    """
    prior_in_flight = Primitive("Flow.prior_in_flight")
    """`Flow.packets_in_flight` before this ACK [packets]; 0 after a timeout."""
    rate_allowed = Primitive("Flow.rate_allowed")
    """Rate limit set by an extension of the datapath [bytes/s]; 0 if there is none."""
    # end of facts

    def __getattr__(self, name: str) -> NoReturn:
        """Raise an error that lists the primitives.

        Raises:
            UnknownPrimitiveError: `fold.unknown_primitive`.
        """
        raise _unknown("Flow", name, type(self))


class IntPrimitives:
    """Values of the last echo of in-band telemetry (docs/inband.md). In fold programs as `Int.<name>`.

    An echo describes only the hop with the longest queueing delay, except for the counts of losses. Without
    echoes all values but `age_us` are 0.
    """

    # facts: int (made by `make facts` from native/ccp-bpf/src/bpf/intf.h)
    age_us = Primitive("Int.age_us", huge=True)
    """Time since the packet of the last echo left this host [us]; INFINITY without echoes."""
    fresh = PrimitiveFlag("Int.fresh")
    """This ACK brought a new echo."""
    hop = Primitive("Int.hop")
    """Position of the hop with the longest queueing delay, counted from 1 at the sender."""
    node = Primitive("Int.node")
    """Id of the described hop."""
    hops = Primitive("Int.hops")
    """Number of hops that reported."""
    all_known = PrimitiveFlag("Int.all_known")
    """Every hop of the path reports the length and the free room of its queue."""
    queue_bytes = Primitive("Int.queue_bytes")
    """Queue length of the described hop, in full-size packets [bytes]."""
    free_bytes = Primitive("Int.free_bytes", huge=True)
    """Free room in the queue of the described hop, in full-size packets [bytes]; INFINITY if unlimited, 0 if
    unknown.
    """
    arrival_bytes_per_s = Primitive("Int.arrival_bytes_per_s")
    """Arrival rate of all flows at the described hop [bytes/s]."""
    link_bytes_per_s = Primitive("Int.link_bytes_per_s")
    """Rate at which the described hop's queue drains [bytes/s]; 0 if unknown."""
    flow_count = Primitive("Int.flow_count")
    """Number of flows at the described hop; 0 if unknown."""
    losses_congestion = Primitive("Int.losses_congestion")
    """Packets dropped by nodes' queues since the flow began [packets]."""
    losses_link = Primitive("Int.losses_link")
    """Packets lost on links between reporting nodes since the flow began [packets]."""
    losses_unknown = Primitive("Int.losses_unknown")
    """Packets lost near nodes that do not report, since the flow began [packets]."""
    # end of facts

    def __getattr__(self, name: str) -> NoReturn:
        """Raise an error that lists the primitives.

        Raises:
            UnknownPrimitiveError: `fold.unknown_primitive`.
        """
        raise _unknown("Int", name, type(self))


def _unknown(prefix: str, name: str, kind: type) -> UnknownPrimitiveError:
    known = [key for key in vars(kind) if not key.startswith("_")]
    return UnknownPrimitiveError(
        "fold.unknown_primitive",
        f"there is no primitive `{prefix}.{name}`",
        where=caller(),
        why="datapaths measure only the primitives listed in ccp_algs/fold/primitives.py",
        fix=close_names(name, known, "primitive").replace("`", f"`{prefix}.", 1),
    )


Ack: Final = AckPrimitives()
Flow: Final = FlowPrimitives()
Int: Final = IntPrimitives()
