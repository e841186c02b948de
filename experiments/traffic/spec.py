"""What the application of a flow does, as plain data: scenarios contain it.

Every kind sends from the flow's sender to its receiver. Traffic that comes to its end before the flow does is
over then; what still runs is stopped at the flow's end.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from msgspec import Meta

from experiments.netlab.spec import Plain, PositiveFloat, PositiveInt

Seconds = Annotated[float, Meta(ge=0)]
MAX_PARALLEL = 128
"""Most streams or connections of one flow; iperf3 has the same limit."""

QUINN: Final = "quinn/cubic"
"""Congestion control of QUIC connections that no agent has: quinn's own."""

Parallel = Annotated[int, Meta(ge=1, le=MAX_PARALLEL)]


class Iperf3(Plain, frozen=True, tag_field="kind", tag="iperf3"):
    """A bulk transfer by iperf3.

    Attributes:
        total_bytes: How much iperf3 hands to its sockets, all together; until the end of the flow, if None.
            It ends then, and what waits in the send buffers is lost: where all has to arrive, use `Http`.
        parallel: Number of connections at once.
        rate_bytes_per_s: Limit of the application's rate, each connection [bytes/s]; none, if None.
    """

    total_bytes: PositiveInt | None = None
    parallel: Parallel = 1
    rate_bytes_per_s: PositiveFloat | None = None


class Http(Plain, frozen=True, tag_field="kind", tag="http"):
    """Downloads by curl from nginx, one after the other (HTTP/1.1).

    Attributes:
        objects: Size of each object, in the order of the downloads [bytes].
        gaps_s: How long nothing is asked for before the second, third, ... object [s]. A shorter list starts
            anew at its end; no gaps, if it is empty.
        repeat: How often all objects are downloaded.
        connections: How many clients do all of that at once, each on a connection of its own.
        persistent: Whether a client's connection stays open for its next download; else each has a new one.
    """

    objects: Annotated[tuple[PositiveInt, ...], Meta(min_length=1)]
    gaps_s: tuple[Seconds, ...] = ()
    repeat: PositiveInt = 1
    connections: Parallel = 1
    persistent: bool = True


class Quic(Plain, frozen=True, tag_field="kind", tag="quic"):
    """Downloads over QUIC, one after the other, by a program made with quinn (`native/ccp-quic`).

    Attributes:
        objects: As of `Http`.
        gaps_s: As of `Http`.
        repeat: As of `Http`.
        connections: How many clients do all of that at once, each on a connection of its own.
    """

    objects: Annotated[tuple[PositiveInt, ...], Meta(min_length=1)]
    gaps_s: tuple[Seconds, ...] = ()
    repeat: PositiveInt = 1
    connections: Parallel = 1


class OnOff(Plain, frozen=True, tag_field="kind", tag="on_off"):
    """One connection that sends for a while, is idle for a while, and so on until the end of the flow.

    Attributes:
        on_s: How long it sends [s]; the mean, if exponential.
        off_s: How long it is idle [s]; likewise.
        distribution: `exponential` (drawn anew each time, from the scenario's seed) or `fixed`.
        rate_bytes_per_s: How fast the application writes while on [bytes/s]; as fast as the socket takes it,
            if None.
    """

    on_s: PositiveFloat
    off_s: PositiveFloat
    distribution: Literal["exponential", "fixed"] = "exponential"
    rate_bytes_per_s: PositiveFloat | None = None


class Dash(Plain, frozen=True, tag_field="kind", tag="dash"):
    """A video with several bitrates, played by dash.js in a browser (needs `make setup-video`).

    Attributes:
        abr: How dash.js chooses bitrates: by BOLA, by throughput, or by either of them as the buffer is full
            or not (`dynamic`, what it does by itself).
        buffer_s: How much it keeps in store [s].
        segments: How many of the video's segments, of four seconds each, are played.
    """

    abr: Literal["dynamic", "bola", "throughput"] = "dynamic"
    buffer_s: PositiveFloat = 20.0
    segments: Annotated[int, Meta(ge=1, le=12)] = 12


Transport = Literal["tcp", "quic"]
TCP: Final = "tcp"
QUIC: Final = "quic"

Traffic = Iperf3 | Http | Quic | OnOff | Dash


def transport_of(traffic: Traffic) -> Transport:
    """Return what a flow's data goes over."""
    return QUIC if isinstance(traffic, Quic) else TCP
