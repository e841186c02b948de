"""Links made of the kernel's own queueing disciplines, `netem` and `tbf`, behind the same description.

Every node is a namespace, and in the middle of every link there is one more, the wire: what it sends to
either side passes the queueing disciplines of that direction. They are not at the hosts themselves, because a
queue there tells its own TCP of drops, which no network does. So a packet's TTL falls by two from router to
router, not by one.
"""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pyroute2.netlink.exceptions import NetlinkError

from ccplane.base.errors import Collector
from experiments.netlab import links
from experiments.netlab.errors import no_qdisc
from experiments.netlab.host import Host
from experiments.netlab.lab import Lab
from experiments.netlab.links import ETHERNET_HEADER_BYTES, Interface
from experiments.netlab.linkstats import LinkStats
from experiments.netlab.qdiscs import Qdisc, cannot, chain, refused
from experiments.netlab.routes import Graph
from experiments.netlab.spec import Direction

_WIRE: Final = "network-wire-{:03}"  # longer than any name in a topology


@dataclass(frozen=True)
class _Wire:
    """One direction of a link, where its queueing disciplines are.

    Attributes:
        arc: Name of the direction.
        host: The namespace in the middle of the link.
        device: Its device towards the end of the direction.
        entry: Its address for what comes from the beginning of the direction.
        exit: Address of the node at the end.
    """

    arc: str
    host: Host
    device: str
    entry: Interface
    exit: Interface


def check(graph: Graph) -> None:
    """See whether netem and tbf can do what a network asks for.

    Raises:
        LabError: `lab.netem_cannot`.
        Several: All of them, if there are more.
    """
    problems = Collector()
    with problems.check():
        if graph.telemetry is not None:
            raise cannot("add headers to packets", "telemetry")
    for arc, direction in zip(graph.arcs, graph.directions, strict=True):
        for problem in refused(direction, arc.name):
            with problems.check():
                raise problem
    problems.finish()


class NetemLinks:
    """The links of a network, made of veth pairs and queueing disciplines."""

    def __init__(self, lab: Lab, graph: Graph, seed: int) -> None:
        """Build the network.

        Args:
            lab: In which to build.
            graph: The network; `check` has passed it.
            seed: Of all random numbers; each direction's follows from it.

        Raises:
            LabError: `lab.no_qdisc`, or as `Lab.add_host` and `Lab.connect`.
        """
        self._seed = seed
        self._mtu_bytes = graph.mtu_bytes
        self.hosts = {name: lab.add_host(name) for name in graph.hosts}
        routers = {name: lab.add_host(name, forwards=True) for name in graph.nodes[len(graph.hosts) :]}
        self._nodes = [*self.hosts.values(), *routers.values()]
        self._wires: list[_Wire] = []
        for i, forward in enumerate(graph.arcs[::2]):
            a, b = self._nodes[forward.source], self._nodes[forward.target]
            wire = lab.add_host(_WIRE.format(i), forwards=True)
            at_a, near_a = lab.connect(a, wire, mtu_bytes=graph.mtu_bytes)
            near_b, at_b = lab.connect(wire, b, mtu_bytes=graph.mtu_bytes)
            links.introduce(a.namespace, at_a, wire.namespace, near_a)
            links.introduce(wire.namespace, near_b, b.namespace, at_b)
            self._wires += [
                _Wire(f"{forward.link}>", wire, near_b.name, near_a, at_b),
                _Wire(f"{forward.link}<", wire, near_a.name, near_b, at_a),
            ]
            for arc in (2 * i, 2 * i + 1):
                self._shape(arc, [], self._chain(arc, graph.directions[arc]))
        for host in self.hosts.values():
            # A packet of 64 KiB would be lost, marked and counted as one.
            links.set_gso_max_segs(host.namespace, host.interfaces[0].name, 1)
        self._route(self._default_routes(graph), self._routes(graph))

    def update(self, old: Graph, new: Graph) -> None:
        """Make the links and routes of `new` true that differ from `old`."""
        check(new)
        for arc, (before, after) in enumerate(zip(old.directions, new.directions, strict=True)):
            if before != after:
                self._shape(arc, self._chain(arc, before), self._chain(arc, after))
        self._route(self._routes(old), self._routes(new))

    def stats(self) -> dict[str, LinkStats]:
        """Return the counters of every direction of a link."""
        return {wire.arc: _stats(wire) for wire in self._wires}

    def emulator_stats(self) -> None:
        """There is no emulator."""

    def stop(self) -> None:
        """Nothing runs but the kernel."""

    def _chain(self, arc: int, direction: Direction) -> list[Qdisc]:
        return chain(direction, self._mtu_bytes, self._seed + arc)

    def _shape(self, arc: int, old: list[Qdisc], new: list[Qdisc]) -> None:
        same = [q.kind for q in old] == [q.kind for q in new]
        wire = self._wires[arc]

        def shape(ipr: Any) -> None:
            index = links.index_of(ipr, wire.device)
            if old and not same:
                ipr.tc("del", index=index, parent=old[0].parent, handle=old[0].handle)
            for qdisc in new:
                _tell(ipr, "change" if same else "add", index, qdisc, f"{wire.arc}, qdisc {qdisc.kind}")

        links.ask(wire.host.namespace, wire.device, "set queueing disciplines", shape)

    def _routes(self, graph: Graph) -> dict[tuple[str, str], Interface]:
        """Return by namespace and name of a host the next address on the way to it."""
        found = {}
        for i, host in enumerate(self.hosts):
            for node, row in zip(self._nodes, graph.table, strict=True):
                if row[i] < 0:
                    continue
                wire = self._wires[row[i]]
                found[node.namespace, host] = wire.entry
                if graph.arcs[row[i]].target != i:  # else the host is the wire's neighbour
                    found[wire.host.namespace, host] = wire.exit
        return found

    def _default_routes(self, graph: Graph) -> dict[tuple[str, str], Interface]:
        """Give every namespace a default route, most hosts' next address; return what holds then."""
        by_namespace: dict[str, list[Interface]] = {}
        for (ns, _), gateway in self._routes(graph).items():
            by_namespace.setdefault(ns, []).append(gateway)
        found: dict[tuple[str, str], Interface] = {}
        for ns, gateways in by_namespace.items():
            ((default, _),) = Counter(gateways).most_common(1)
            links.add_default_routes(ns, default)
            found |= {(ns, host): default for host in self.hosts}
        return found

    def _route(
        self, old: Mapping[tuple[str, str], Interface], new: Mapping[tuple[str, str], Interface]
    ) -> None:
        changed: dict[str, list[tuple[Interface, Interface]]] = {}
        for (ns, host), gateway in new.items():
            if old.get((ns, host)) != gateway:
                changed.setdefault(ns, []).append((self.hosts[host].interfaces[0], gateway))
        for ns, routes in changed.items():
            links.set_routes(ns, routes)


def _tell(ipr: Any, command: str, index: int, qdisc: Qdisc, where: str) -> None:
    try:
        ipr.tc(command, qdisc.kind, index=index, handle=qdisc.handle, parent=qdisc.parent, **qdisc.options)
    except NetlinkError as error:
        if error.code == errno.ENOENT and command == "add":  # what the kernel says without such a qdisc
            raise no_qdisc(qdisc.kind, where) from error
        raise


def _stats(wire: _Wire) -> LinkStats:
    def read(ipr: Any) -> LinkStats:
        index = links.index_of(ipr, wire.device)
        device = ipr.get_links(index)[0].get_attr("IFLA_STATS64")
        drops = {"netem": 0, "tbf": 0}
        queue_bytes = queue_pkts = 0
        for qdisc in ipr.get_qdiscs(index=index):
            kind = qdisc.get_attr("TCA_KIND")
            if kind in drops:
                queue = qdisc.get_attr("TCA_STATS2").get_attr("TCA_STATS_QUEUE")
                drops[kind] = queue["drops"]
                if kind == "tbf":
                    queue_pkts = queue["qlen"]
                    queue_bytes = max(0, queue["backlog"] - queue_pkts * ETHERNET_HEADER_BYTES)
        return LinkStats(
            queue_bytes=queue_bytes,
            queue_pkts=queue_pkts,
            delivered_pkts=device["tx_packets"],
            delivered_bytes=device["tx_bytes"] - device["tx_packets"] * ETHERNET_HEADER_BYTES,
            dropped_loss_pkts=max(0, drops["netem"] - drops["tbf"]),  # netem's include those below it
            dropped_queue_pkts=drops["tbf"],
        )

    return links.ask(wire.host.namespace, wire.device, "read counters", read)
