"""A node of in-band telemetry on an interface: the Python face of `native/ccp-node`.

It prepares the interface, and tells the programs from time to time what they cannot see themselves:

    spec = NodeSpec(roles=("source", "transit"), node_id=7)
    with InterfaceNode("eth0", spec, summaries_fd) as node:
        while True:
            time.sleep(node.refresh())
"""

from __future__ import annotations

import contextlib
import ipaddress
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, Self

import msgspec
from pyroute2 import IPRoute

from ccp_base.pins import DEFAULT_PIN_DIR
from telemetry.inband.air import AirQueues, Waiting
from telemetry.inband.device import Interface, kernels_answers, prepared
from telemetry.inband.node_errors import NodeError
from telemetry.inband.nodes import NodeTable
from telemetry.inband.queues import Queue, read_queue
from telemetry.inband.radio import Radios
from telemetry.inband.txq import Txqs
from telemetry.native import native

if TYPE_CHECKING:
    from ccp_base._native import IntNode

Role = Literal["source", "transit", "sink", "reader"]
ROLES: Final[tuple[Role, ...]] = ("source", "transit", "sink", "reader")
DEFAULT_ROLES: Final[tuple[Role, ...]] = ("source", "transit", "sink")

REFRESH_S: Final = 0.1
"""How often to look at the queue discipline and at signals; at what waits for the air more often."""


ANYWHERE: Final = ipaddress.IPv6Network("::/0")


class SourceOptions(msgspec.Struct, kw_only=True, frozen=True):
    """What a source puts into packets.

    Attributes:
        namespace_id: IOAM namespace of all roles.
        max_nodes: For how many nodes there is room.
        every_pkts: Each so many packets of a flow one carries telemetry; a super-packet is one.
        wireless_nodes: Whether there is room for what wireless nodes have to say.
        tcp_state: Whether packets carry the sender's congestion window.
        per_packet: Whether each packet on the wire has headers of its own, which costs most of the
            throughput; else a super-packet has one, of which its segments get copies.
        echo: Whether it asks sinks for echoes of the path in ACKs; a reader has to take them out.
    """

    namespace_id: int = 0
    max_nodes: int = 3
    every_pkts: int = 1
    wireless_nodes: bool = False
    tcp_state: bool = True
    per_packet: bool = False
    echo: bool = False


class SinkOptions(msgspec.Struct, kw_only=True, frozen=True):
    """How a sink summarises.

    Attributes:
        interval_us: How long packets are gathered for a summary [us].
        nodes: What nodes mean by their numbers.
        echo: Whether ACKs tell senders that ask for it what packets found on the path.
    """

    interval_us: int = 10_000
    nodes: NodeTable = {}
    echo: bool = False


class NodeSpec(msgspec.Struct, kw_only=True, frozen=True):
    """What a node does.

    Attributes:
        roles: What it is: a source adds headers, a transit node fills them, a sink takes them off, a reader
            takes echoes of the path out of ACKs and keeps them for the sockets of the host.
        node_id: Its number in traces, 24 bits.
        to: Destinations whose packets get headers; headers must not leave the domain.
        trusted: Senders whose telemetry a sink reads, and whose echoes a reader does; that of others is taken
            off unread.
        source: What a source puts into packets.
        sink: How a sink summarises.
        pin_dir: Directory of the agent's datapath, whose flows get the echoes that a reader takes out.
    """

    roles: tuple[Role, ...]
    node_id: int = 1
    to: ipaddress.IPv6Network = ANYWHERE
    trusted: ipaddress.IPv6Network = ANYWHERE
    source: SourceOptions = SourceOptions()
    sink: SinkOptions = SinkOptions()
    pin_dir: str = DEFAULT_PIN_DIR


class Counters(msgspec.Struct, kw_only=True, frozen=True):
    """What happened so far [packets].

    Attributes:
        inserted: Got headers.
        too_long: Would not have fitted into the MTU with headers, and went without.
        merged: Belonged to super-packets that take no headers: of UDP, or all if each packet is to have its
            own.
        filled: Have this node's data.
        overflowed: Had no room for another node.
        not_filled: Had a malformed trace, or one that asks for what the node does not know.
        removed: Had their headers taken out.
        not_removed: Kept their headers, since others' options are among them.
        foreign: Had telemetry of senders that are not trusted, which was not read.
        reflected: ACKs that got an echo of the path.
        heard: ACKs whose echo was kept for their socket.
        ring_full: Came while the sink had no room, and are missing in summaries.
        summaries_dropped: Summaries that nobody took in time.
        unreadable: Had telemetry that could not be read.
        records_lost: Rows of the file for records that the disk did not take.
    """

    inserted: int
    too_long: int
    merged: int
    filled: int
    overflowed: int
    not_filled: int
    removed: int
    not_removed: int
    foreign: int
    reflected: int
    heard: int
    ring_full: int
    summaries_dropped: int
    unreadable: int
    records_lost: int


class InterfaceNode:
    """A node on an interface of this network namespace, while its `with` block runs.

    Attributes:
        interface: What of the interface does not change.
        waiting: What waited in mac80211's queues when they were read last.
    """

    interface: Interface

    def __init__(self, name: str, spec: NodeSpec, summaries_fd: int, *, records: Path | None = None) -> None:
        """Describe the node.

        Args:
            name: The interface.
            spec: What the node does.
            summaries_fd: Where a sink writes its summaries, a pipe that does not block.
            records: File for a row of each packet and node on its way; None: no records.
        """
        self._name = name
        self._spec = spec
        self._summaries_fd = summaries_fd
        self._records = records
        self._open = contextlib.ExitStack()
        self._node: IntNode
        self._queue: Queue | None = None
        self._radios: Radios | None = None
        self._air: AirQueues | None = None
        self.waiting: list[Waiting] = []
        self._look_s = 0.0

    def __enter__(self) -> Self:
        """Prepare the interface, load the programs and attach them.

        Raises:
            NodeError: As `telemetry.inband.device.prepared`, or `int.no_route`, `int.bad_spec`,
                `int.refused`, `int.cannot_write` or `int.not_built`.
        """
        with contextlib.ExitStack() as stack:
            module = stack.enter_context(native(NodeError, "int.not_built", "telemetry.inband"))
            overhead_bytes = None
            if "source" in self._spec.roles:
                overhead_bytes = module.int_overhead_bytes(msgspec.json.encode(self._spec.source))
            self.interface = stack.enter_context(
                prepared(self._name, overhead_bytes, single_packets=self._spec.source.per_packet)
            )
            self._ipr = stack.enter_context(IPRoute())
            path = None if self._records is None else str(self._records)
            self._node = module.IntNode(self._json(), self._summaries_fd, path)
            stack.callback(self._node.close)
            if self.interface.wireless:
                with kernels_answers(self._name):
                    index = self.interface.index
                    self._radios = stack.enter_context(contextlib.closing(Radios(index)))
                    txqs = stack.enter_context(contextlib.closing(Txqs(index, self._radios.family)))
                    self._air = AirQueues(txqs, self.interface.mtu_bytes)
            self.refresh()
            self._open = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        """Take the programs off, and put the interface back.

        Raises:
            NodeError: `int.cannot_write`, if the file for records could not be written to its end.
        """
        self._open.close()

    def _json(self) -> bytes:
        sink = {**msgspec.structs.asdict(self._spec.sink), "records": self._records is not None}
        return msgspec.json.encode(
            {
                "ifindex": self.interface.index,
                "roles": self._spec.roles,
                "node_id": self._spec.node_id,
                "link_bytes": self.interface.link_bytes,
                "is_veth": self.interface.is_veth,
                "is_wireless": self.interface.wireless,
                "mtu_bytes": self.interface.mtu_bytes,
                "to": _bits(self._spec.to),
                "trusted": _bits(self._spec.trusted),
                "source": self._spec.source,
                "sink": sink,
                "pin_dir": self._spec.pin_dir,
            }
        )

    def refresh(self) -> float:
        """Tell the programs what the queue is like, what waits for the air, and what is known of it.

        Returns:
            When to call it again [s]: within REFRESH_S, sooner while packets go into the air.

        Raises:
            NodeError: `int.no_interface`, if it is gone.
        """
        if "transit" not in self._spec.roles:
            return REFRESH_S  # nobody writes it into packets
        with kernels_answers(self._name):
            if (now_s := time.monotonic()) >= self._look_s:
                self._look_s = now_s + REFRESH_S
                self._look()
            wait_s = self._look_s - now_s
            return wait_s if self._air is None else min(wait_s, self._read_air(self._air))

    def _look(self) -> None:
        queue = read_queue(self._ipr, self.interface, None if self._air is None else self._air.air())
        if queue != self._queue:
            self._node.set_queue(msgspec.json.encode(queue))
            self._queue = queue
        if self._radios is not None:
            known = [
                {"address": one.address, "state": msgspec.structs.asdict(one.state)}
                for one in self._radios.read()
            ]
            self._node.set_radios(msgspec.json.encode(known))

    def _read_air(self, air: AirQueues) -> float:
        waiting = air.read(self._node.came_ns())
        if waiting is not None:
            self._node.set_waiting(msgspec.json.encode(waiting))
            self.waiting = waiting
        return air.wait_s(self._node.came_ns())

    def counters(self) -> Counters:
        """Return what happened so far; also after the end."""
        return msgspec.json.decode(self._node.counters(), type=Counters)


def _bits(prefix: ipaddress.IPv6Network) -> tuple[str, int]:
    return str(prefix.network_address), prefix.prefixlen
