"""Shapes of networks: short descriptions instead of lists of hosts and links.

Hosts and links have the same names as in `experiments.netlab.topologies`.
"""

from __future__ import annotations

from typing import Annotated, Self

import msgspec
from msgspec import Meta

from experiments.netlab import topologies
from experiments.netlab.spec import Direction, Int, Misbehaving, Plain, PositiveInt, Topology

MtuBytes = Annotated[int, Meta(ge=1280, le=65535)]


class Graph(Topology, frozen=True, tag_field="kind", tag="graph"):
    """Any network, as hosts, routers and links."""

    @classmethod
    def of(cls, topology: Topology) -> Self:
        """Return a topology as a graph."""
        return cls(*msgspec.structs.astuple(topology))

    def expanded(self) -> Topology:
        """Return the topology."""
        return Topology(*msgspec.structs.astuple(self))


class PointToPoint(Plain, frozen=True, tag_field="kind", tag="point_to_point"):
    """`sender -- receiver`, with one link called `link`.

    Attributes:
        forward: Direction from the sender to the receiver.
        backward: The opposite direction; None as in `Link.backward`.
        mtu_bytes: Maximum IP packet [bytes].
        telemetry: In-band telemetry; None for none.
    """

    forward: Direction
    backward: Direction | None = None
    mtu_bytes: MtuBytes = 1500
    telemetry: Int | None = None

    def expanded(self) -> Topology:
        """Return the topology."""
        topology = topologies.point_to_point(self.forward, self.backward, mtu_bytes=self.mtu_bytes)
        return msgspec.structs.replace(topology, telemetry=self.telemetry)


class Dumbbell(Plain, frozen=True, tag_field="kind", tag="dumbbell"):
    """Senders `s1`.. and receivers `r1`.. on the two sides of one link called `bottleneck`.

    Attributes:
        pairs: Number of senders and receivers.
        bottleneck: Direction from the senders' side to the receivers'.
        access: The senders' links, `access-s1`..: one for all, or a list with one for each.
        backward: The bottleneck's opposite direction; None as in `Link.backward`.
        mtu_bytes: Maximum IP packet [bytes].
        telemetry: In-band telemetry; None for none.
        misbehaving: Hosts whose acknowledgments mislead senders.
    """

    pairs: PositiveInt
    bottleneck: Direction
    access: Direction | tuple[Direction, ...] = Direction()
    backward: Direction | None = None
    mtu_bytes: MtuBytes = 1500
    telemetry: Int | None = None
    misbehaving: tuple[Misbehaving, ...] = ()

    def expanded(self) -> Topology:
        """Return the topology."""
        topology = topologies.dumbbell(
            self.pairs,
            self.bottleneck,
            access=self.access,
            backward=self.backward,
            mtu_bytes=self.mtu_bytes,
        )
        return msgspec.structs.replace(topology, telemetry=self.telemetry, misbehaving=self.misbehaving)


class ParkingLot(Plain, frozen=True, tag_field="kind", tag="parking_lot"):
    """A row of bottlenecks: one pair of hosts crosses all of them, another pair each single one.

    Attributes:
        hops: Number of bottlenecks, `bottleneck1`...
        bottleneck: One for all, or a list with one for each.
        access: The links of all senders, `access-sender` and `access-s1`...
        mtu_bytes: Maximum IP packet [bytes].
        telemetry: In-band telemetry; None for none.
    """

    hops: PositiveInt
    bottleneck: Direction | tuple[Direction, ...]
    access: Direction = Direction()
    mtu_bytes: MtuBytes = 1500
    telemetry: Int | None = None

    def expanded(self) -> Topology:
        """Return the topology."""
        topology = topologies.parking_lot(
            self.hops, self.bottleneck, access=self.access, mtu_bytes=self.mtu_bytes
        )
        return msgspec.structs.replace(topology, telemetry=self.telemetry)


Network = Graph | PointToPoint | Dumbbell | ParkingLot
