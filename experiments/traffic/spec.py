"""Traffic of flows as plain data, part of scenarios.

All traffic goes from the flow's sender to its receiver. Traffic may end before its flow does; otherwise it is
stopped at the flow's end.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from msgspec import Meta

from experiments.netlab.spec import Plain, PositiveFloat, PositiveInt

Seconds = Annotated[float, Meta(ge=0)]
MAX_PARALLEL = 128
"""Maximum number of streams or connections of a flow; iperf3 has the same limit."""

QUINN: Final = "quinn/cubic"
"""quinn's own congestion control, for QUIC connections without an agent."""

Parallel = Annotated[int, Meta(ge=1, le=MAX_PARALLEL)]


class Iperf3(Plain, frozen=True, tag_field="kind", tag="iperf3"):
    """A bulk transfer by iperf3.

    Attributes:
        total_bytes: Bytes that iperf3 writes to its sockets in total; None to send until the end of the flow.
            iperf3 then exits, and data in send buffers is lost; if all data must arrive, use `Http`.
        parallel: Number of parallel connections.
        rate_bytes_per_s: Maximum rate of the application, per connection [bytes/s]; None for unlimited.
    """

    total_bytes: PositiveInt | None = None
    parallel: Parallel = 1
    rate_bytes_per_s: PositiveFloat | None = None


class Http(Plain, frozen=True, tag_field="kind", tag="http"):
    """Downloads by curl from nginx, one after the other (HTTP/1.1).

    Attributes:
        objects: Size of each object, in the order of the downloads [bytes].
        gaps_s: Pauses before the second, third, ... object [s]. A shorter list is repeated; an empty list
            means no pauses.
        repeat: Number of times that the list of objects is downloaded.
        connections: Number of parallel clients, each with its own connection and all downloads.
        persistent: Whether a client keeps its connection for the next download; else it opens a new one each
            time.
    """

    objects: Annotated[tuple[PositiveInt, ...], Meta(min_length=1)]
    gaps_s: tuple[Seconds, ...] = ()
    repeat: PositiveInt = 1
    connections: Parallel = 1
    persistent: bool = True


class Quic(Plain, frozen=True, tag_field="kind", tag="quic"):
    """Downloads over QUIC, one after the other, by a program based on quinn (`native/ccp-quic`).

    Attributes:
        objects: As in `Http`.
        gaps_s: As in `Http`.
        repeat: As in `Http`.
        connections: As in `Http`.
    """

    objects: Annotated[tuple[PositiveInt, ...], Meta(min_length=1)]
    gaps_s: tuple[Seconds, ...] = ()
    repeat: PositiveInt = 1
    connections: Parallel = 1


class OnOff(Plain, frozen=True, tag_field="kind", tag="on_off"):
    """One connection that alternates between sending and pausing until the end of the flow.

    Attributes:
        on_s: Duration of sending [s]; the mean, if exponential.
        off_s: Duration of a pause [s]; likewise.
        distribution: `exponential` (drawn for each period, from the scenario's seed) or `fixed`.
        rate_bytes_per_s: Rate at which the application writes while sending [bytes/s]; None for as fast as
            the socket accepts data.
    """

    on_s: PositiveFloat
    off_s: PositiveFloat
    distribution: Literal["exponential", "fixed"] = "exponential"
    rate_bytes_per_s: PositiveFloat | None = None


class Dash(Plain, frozen=True, tag_field="kind", tag="dash"):
    """A video with several bitrates, played by dash.js in a browser (needs `make setup-video`).

    Attributes:
        abr: How dash.js chooses bitrates: by BOLA, by throughput, or by one of them depending on the buffer
            level (`dynamic`, the default of dash.js).
        buffer_s: Target of the playback buffer [s].
        segments: Number of segments of the video to play, of four seconds each.
    """

    abr: Literal["dynamic", "bola", "throughput"] = "dynamic"
    buffer_s: PositiveFloat = 20.0
    segments: Annotated[int, Meta(ge=1, le=12)] = 12


class Rtp(Plain, frozen=True, tag_field="kind", tag="rtp"):
    """Media over RTP (RFC 3550): frames over UDP at a constant rate, without congestion control.

    The defaults are those of telephony: 20 ms of G.711 in a packet (RFC 3551, sections 4.2 and 4.5.14).

    Attributes:
        frames_per_s: Frames per second.
        frame_bytes: Size of a frame [bytes]; frames above 1,200 bytes are sent as several packets, back to
            back.
        playout_ms: One-way delay above which a packet is too late to be played [ms]. The default is the
            limit for conversations in ITU-T G.114.
        report_s: Interval of RTCP reports [s]; None for 360 divided by the rate in kbit/s, at most 5 s
            (RFC 3550, section 6.2). It is not randomized.
    """

    frames_per_s: PositiveFloat = 50.0
    frame_bytes: Annotated[int, Meta(ge=12, le=1 << 20)] = 160
    playout_ms: PositiveInt = 150
    report_s: PositiveFloat | None = None

    @property
    def packets_bytes(self) -> list[int]:
        """Payload of each packet of a frame, in sizes that differ by at most one [bytes]."""
        count = -(-self.frame_bytes // _MAX_PAYLOAD_BYTES)
        return [(self.frame_bytes + n) // count for n in range(count)]

    @property
    def reports_every_s(self) -> float:
        """The interval of RTCP reports [s]."""
        if self.report_s is not None:
            return self.report_s
        whole_bytes = self.frame_bytes + len(self.packets_bytes) * _HEADER_BYTES
        return min(5.0, 360 / (8e-3 * whole_bytes * self.frames_per_s))


_MAX_PAYLOAD_BYTES: Final = 1200
_HEADER_BYTES: Final = 40
"""IPv4, UDP and RTP: the bandwidth of a session includes them (RFC 3550, section 6.2)."""
DRAIN_S: Final = 1.0
"""Time after the last packet in which packets of media may still arrive [s]."""

UNCONTROLLED: Final = "rtp/none"
"""Algorithm of flows of `Rtp`."""

Transport = Literal["tcp", "quic", "udp"]
TCP: Final = "tcp"
QUIC: Final = "quic"
UDP: Final = "udp"

Traffic = Iperf3 | Http | Quic | OnOff | Dash | Rtp


def transport_of(traffic: Traffic) -> Transport:
    """Return the transport of a flow."""
    if isinstance(traffic, Rtp):
        return UDP
    return QUIC if isinstance(traffic, Quic) else TCP
