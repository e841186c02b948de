"""A node of in-band telemetry on an interface: the Python face of `native/ccp-node`.

The node prepares the interface, and regularly updates what the BPF programs cannot see themselves:

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

from ccplane.base.pins import DEFAULT_PIN_DIR
from telemetry.inband.air import AirQueues, Waiting
from telemetry.inband.device import Interface, kernels_answers, prepared
from telemetry.inband.node_errors import NodeError
from telemetry.inband.nodes import NodeTable
from telemetry.inband.queues import Queue, read_queue
from telemetry.inband.radio import Radios
from telemetry.inband.txq import Txqs
from telemetry.native import native

if TYPE_CHECKING:
    from ccplane.base._native import IntNode

Role = Literal["source", "transit", "sink", "reader"]
ROLES: Final[tuple[Role, ...]] = ("source", "transit", "sink", "reader")
DEFAULT_ROLES: Final[tuple[Role, ...]] = ("source", "transit", "sink")

REFRESH_S: Final = 0.1
"""Time between checks of the queueing discipline and of signals; queues of wireless interfaces are read more
often."""


ANYWHERE: Final = ipaddress.IPv6Network("::/0")


class SourceOptions(msgspec.Struct, kw_only=True, frozen=True):
    """Options of a source: what it adds to packets.

    Attributes:
        namespace_id: IOAM namespace of all roles.
        max_nodes: Number of nodes to reserve room for.
        every_pkts: Every how many packets of a flow carry telemetry; a super-packet counts as one.
        wireless_nodes: Whether to reserve room for the data of wireless nodes.
        tcp_state: Whether packets carry the sender's congestion window.
        per_packet: Whether each packet on the wire has its own headers, at the cost of most of the
            throughput; else the segments of a super-packet carry copies of its headers.
        echo: Whether to request echoes of the path in ACKs; needs a reader to remove them.
    """

    namespace_id: int = 0
    max_nodes: int = 3
    every_pkts: int = 1
    wireless_nodes: bool = False
    tcp_state: bool = True
    per_packet: bool = False
    echo: bool = False


class SinkOptions(msgspec.Struct, kw_only=True, frozen=True):
    """Options of a sink: how it summarises flows.

    Attributes:
        interval_us: Time that a summary covers [us].
        nodes: Table of node numbers.
        echo: Whether to echo the path in ACKs to senders that request it.
    """

    interval_us: int = 10_000
    nodes: NodeTable = {}
    echo: bool = False


class NodeSpec(msgspec.Struct, kw_only=True, frozen=True):
    """Roles and options of a node.

    Attributes:
        roles: A source adds headers, a transit node fills them, a sink removes them, a reader removes echoes
            of the path from ACKs and keeps them for the host's sockets.
        node_id: Its number in traces, 24 bits.
        to: Destinations whose packets get headers; headers must not leave the domain.
        trusted: Senders whose telemetry a sink reads, and whose echoes a reader reads; others' telemetry is
            removed unread. None: no sender is trusted.
        source: Options of the source.
        sink: Options of the sink.
        pin_dir: Pin directory of the agent's datapath, whose flows get the reader's echoes.
    """

    roles: tuple[Role, ...]
    node_id: int = 1
    to: ipaddress.IPv6Network = ANYWHERE
    trusted: ipaddress.IPv6Network | None = None
    source: SourceOptions = SourceOptions()
    sink: SinkOptions = SinkOptions()
    pin_dir: str = DEFAULT_PIN_DIR


class NodeCounters(msgspec.Struct, kw_only=True, frozen=True):
    """Totals so far [packets].

    Attributes:
        inserted: Got headers.
        too_long: Sent without headers, because they would have exceeded the MTU.
        merged: Belonged to super-packets that cannot have headers: UDP, or all if each packet needs its own.
        filled: Got this node's data.
        overflowed: Had no room for another node.
        not_filled: Had a malformed trace, or one that requests data unknown to the node.
        removed: Had their headers removed.
        not_removed: Kept their headers, because these include foreign options.
        foreign: Had telemetry of untrusted senders, which was not read.
        reflected: ACKs that got an echo of the path.
        received: ACKs whose echo was kept for their socket.
        refused_malformed: Had an echo that contradicts itself.
        refused_no_socket: Had an echo, but belong to no connection of this host.
        refused_segment: Had an echo, but TCP does not accept the segment: by its flags, or its sequence or
            acknowledgment number is outside the window.
        refused_time: Had an echo of a packet that left in the future, or more than a minute ago.
        ring_full: Arrived while the sink's buffer was full, and are missing in summaries.
        summaries_dropped: Summaries that were not read in time.
        unreadable: Had unreadable telemetry.
        records_lost: Rows that could not be written to the file of records.
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
    received: int
    refused_malformed: int
    refused_no_socket: int
    refused_segment: int
    refused_time: int
    ring_full: int
    summaries_dropped: int
    unreadable: int
    records_lost: int


class InterfaceNode:
    """A node on an interface of this network namespace, during its `with` block.

    Attributes:
        interface: Constant properties of the interface.
        waiting: mac80211's queues at the last reading.
    """

    interface: Interface

    def __init__(self, name: str, spec: NodeSpec, summaries_fd: int, *, records: Path | None = None) -> None:
        """Describe the node.

        Args:
            name: Name of the interface.
            spec: Roles and options.
            summaries_fd: Nonblocking pipe for the summaries of a sink.
            records: File for a row per packet and node on its path; None for no records.
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
            NodeError: As in `telemetry.inband.device.prepared`, or `int.no_route`, `int.bad_spec`,
                `int.refused`, `int.cannot_write` or `int.not_built`.
        """
        with contextlib.ExitStack() as stack:
            module = stack.enter_context(native(NodeError, "int.not_built", "telemetry.inband"))
            overhead_bytes = None
            if "source" in self._spec.roles:
                overhead_bytes = module.int_overhead_bytes(msgspec.json.encode(self._spec.source))
            self.interface = stack.enter_context(
                prepared(
                    self._name,
                    overhead_bytes,
                    single_packets=self._spec.source.per_packet,
                    is_sink="sink" in self._spec.roles,
                    forwards="transit" in self._spec.roles,
                )
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
        """Detach the programs, and restore the interface.

        Raises:
            NodeError: `int.cannot_write`, if the file of records could not be completed.
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
                "trusted": None if self._spec.trusted is None else _bits(self._spec.trusted),
                "source": self._spec.source,
                "sink": sink,
                "pin_dir": self._spec.pin_dir,
            }
        )

    def refresh(self) -> float:
        """Update the programs' knowledge of the queues and of wireless signals.

        Returns:
            The delay before the next call [s]: at most REFRESH_S, less while packets flow over the air.

        Raises:
            NodeError: `int.no_interface`, if the interface is gone.
        """
        if "transit" not in self._spec.roles:
            return REFRESH_S  # no role uses it
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

    def counters(self) -> NodeCounters:
        """Return the totals so far; also after the end."""
        return msgspec.json.decode(self._node.counters(), type=NodeCounters)


def _bits(prefix: ipaddress.IPv6Network) -> tuple[str, int]:
    return str(prefix.network_address), prefix.prefixlen
