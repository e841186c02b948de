"""Routes of packets through a topology, and the base RTTs and buffer sizes that follow from them.

A `Graph` is a topology with everything resolved that a backend needs. A graph is immutable: `set_link`,
`change` and `set_route` return a new graph, so a change is applied completely or not at all.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from ccplane.base.errors import Collector
from ccplane.base.names import close_names
from experiments.netlab.errors import LabError, bad_value
from experiments.netlab.inband import overhead_bytes
from experiments.netlab.spec import Buffer, Direction, Int, Misbehaving, Topology
from experiments.netlab.topologies import check, direction_problems, well_typed

NO_RATE_BUFFER_PKTS: Final = 1000
"""Default buffer where the BDP is undefined: no constant rate, or no delay."""

MIN_DEFAULT_BUFFER_PKTS: Final = 10
"""Minimum of the default buffer of 1 BDP; it holds an initial window (RFC 6928)."""


@dataclass(frozen=True)
class Arc:
    """One direction of a link.

    Attributes:
        name: `LINK>` from the link's `a` to its `b`, `LINK<` for the opposite direction.
        link: Name of the link.
        source: Index of the node where it starts.
        target: Index of the node where it ends.
    """

    name: str
    link: str
    source: int
    target: int


@dataclass(frozen=True)
class Graph:
    """A topology with routes and sizes of buffers.

    Attributes:
        hosts: Names of hosts; they are the first of `nodes`.
        nodes: Names of all nodes.
        arcs: Link directions: forward and backward of the first link, of the second, and so on.
        directions: Properties of each arc; buffers are in packets or bytes.
        table: For each node and each destination node the index of the arc to take; -1 for none.
        mtu_bytes: Maximum IP packet [bytes].
        host_mtu_bytes: Maximum packet that hosts send; smaller, to leave room for telemetry headers [bytes].
        telemetry: In-band telemetry, if any.
        misbehaving: Hosts whose acknowledgments mislead senders.
    """

    hosts: tuple[str, ...]
    nodes: tuple[str, ...]
    arcs: tuple[Arc, ...]
    directions: tuple[Direction, ...]
    table: tuple[tuple[int, ...], ...]
    mtu_bytes: int
    host_mtu_bytes: int
    telemetry: Int | None = None
    misbehaving: tuple[Misbehaving, ...] = ()

    def route(self, source: str, destination: str) -> list[int]:
        """Return the indices of the arcs from one host to another.

        Raises:
            LabError: `lab.bad_value`, if a host is unknown.
        """
        here, goal = self._host(source, "source"), self._host(destination, "destination")
        way = []
        while here != goal:
            way.append(self.table[here][goal])
            here = self.arcs[way[-1]].target
        return way

    def base_rtt_us(self, a: str, b: str) -> int:
        """Return the round-trip time between two hosts, excluding queueing, serialization and jitter [us].

        Raises:
            LabError: `lab.bad_value`, if a host is unknown.
        """
        return sum(self.directions[arc].delay_us for arc in self.route(a, b) + self.route(b, a))

    def set_link(self, name: str, direction: Direction) -> Graph:
        """Return the graph with new properties of a link, or of one of its directions.

        Args:
            name: `LINK>` or `LINK<`, or `LINK`: then the opposite direction follows as in `Link.backward`.
            direction: The new properties.

        Raises:
            LabError: `lab.bad_value`.
        """
        direction = well_typed(msgspec.to_builtins(direction), Direction, name)
        arcs = self._arcs_of(name)
        new = {arcs[0]: direction}
        if len(arcs) == 2:
            new[arcs[1]] = direction.one_way_back()
        return self._described(new)

    def change(self, name: str, fields: Mapping[str, Any]) -> Graph:
        """Return the graph with some properties of a link, or of one of its directions, changed.

        If the buffer is not among these properties, its size stays the same, even if rate or delay change.

        Args:
            name: `LINK>` or `LINK<`, or `LINK` for both.
            fields: Fields of `Direction`, as such or as plain data.

        Raises:
            LabError: `lab.bad_value`.
        """
        plain = msgspec.to_builtins(dict(fields))
        new = {}
        for arc in self._arcs_of(name):
            merged = msgspec.to_builtins(self.directions[arc]) | plain
            new[arc] = well_typed(merged, Direction, self.arcs[arc].name)
        return self._described(new)

    def set_route(self, path: Sequence[str], *, both: bool = True) -> Graph:
        """Return the graph with another route from one host to another.

        Routers route by destination only, so other packets to the same destination also follow the new route
        from where they meet it.

        Args:
            path: The nodes of the route, from the first host to the last. Where several links connect two
                nodes, the name of the chosen link stands between them; it may be given always.
            both: Whether the opposite direction takes the same route in reverse; else it stays as it is.

        Raises:
            LabError: `lab.bad_value`.
        """
        if not path:
            raise bad_value("the route is empty", "path", "name all nodes of the route, in order")
        visited = [self._host(path[0], "path[0]")]
        arcs: list[int] = []
        for i, step in enumerate(path[1:], 1):
            here = visited[-1]
            if step == self.nodes[here]:
                continue  # already reached by the link before it
            arc = self._step(here, step, f"path[{i}]")
            arcs.append(arc)
            visited.append(self.arcs[arc].target)
            if visited[-1] in visited[:-1]:
                message = f"the route passes `{self.nodes[visited[-1]]}` twice"
                raise bad_value(message, f"path[{i}]", "remove the loop")
        goal = self._host(self.nodes[visited[-1]], f"path[{len(path) - 1}]")
        table = [list(row) for row in self.table]
        for arc in arcs:
            table[self.arcs[arc].source][goal] = arc
            if both:
                table[self.arcs[arc].target][visited[0]] = arc ^ 1
        return replace(self, table=_frozen(table))

    def _step(self, here: int, step: str, where: str) -> int:
        leaving = [i for i, arc in enumerate(self.arcs) if arc.source == here]
        ways = {name for i in leaving for name in (self.nodes[self.arcs[i].target], self.arcs[i].link)}
        found = [i for i in leaving if step == self.nodes[self.arcs[i].target]]
        found = found or [i for i in leaving if step in (self.arcs[i].link, self.arcs[i].name)]
        if not found:
            message = f"no link connects `{self.nodes[here]}` to `{step}`"
            raise bad_value(message, where, close_names(step, ways, "way"))
        if len(found) > 1:
            links = ", ".join(f"`{self.arcs[i].link}`" for i in found)
            message = f"several links connect `{self.nodes[here]}` to `{step}`"
            raise bad_value(message, where, f"put one of {links} before it")
        return found[0]

    def _host(self, name: str, where: str) -> int:
        if name not in self.hosts:
            raise bad_value(f"unknown host `{name}`", where, close_names(name, self.hosts, "host"))
        return self.hosts.index(name)

    def _arcs_of(self, name: str) -> list[int]:
        found = [i for i, arc in enumerate(self.arcs) if name in (arc.link, arc.name)]
        if not found:
            links = dict.fromkeys(arc.link for arc in self.arcs)
            raise bad_value(f"unknown link `{name}`", "link", close_names(name, links, "link"))
        return found

    def _described(self, new: Mapping[int, Direction]) -> Graph:
        problems = Collector()
        for arc, direction in new.items():
            for problem in direction_problems(direction, self.arcs[arc].name, self.mtu_bytes):
                with problems.check():
                    raise problem
        problems.finish()
        directions = tuple(new.get(arc, direction) for arc, direction in enumerate(self.directions))
        return replace(self, directions=directions).with_buffers()

    def with_buffers(self) -> Graph:
        """Return the graph with all buffers in packets or bytes.

        Raises:
            LabError: `lab.bad_value`, if a buffer is given in BDP, and the BDP is undefined.
            Several: If several buffers are wrong.
        """
        if all(d.buffer is not None and d.buffer.bdp is None for d in self.directions):
            return self
        rtts_us = self._rtt_of_each_arc()
        problems = Collector()
        directions = []
        for arc, direction in enumerate(self.directions):
            with problems.check():
                buffer = _buffer(direction, rtts_us[arc], self.mtu_bytes, self.arcs[arc].name)
                directions.append(msgspec.structs.replace(direction, buffer=buffer))
        problems.finish()
        return replace(self, directions=tuple(directions))

    def _rtt_of_each_arc(self) -> list[int]:
        """Return the maximum base RTT of the pairs of hosts whose route crosses the arc [us].

        For arcs that no route crosses, it is the maximum of all pairs.
        """
        longest: dict[int, int] = {}
        for a, b in itertools.permutations(self.hosts, 2):
            rtt_us = self.base_rtt_us(a, b)
            for arc in self.route(a, b):
                longest[arc] = max(longest.get(arc, 0), rtt_us)
        everywhere = max(longest.values())
        return [longest.get(arc, everywhere) for arc in range(len(self.arcs))]


def graph_of(topology: Topology) -> Graph:
    """Return a topology's graph, with routes of the fewest links.

    Among several such routes, the route whose links come first in the topology wins.

    Raises:
        LabError: `lab.bad_value`; `where` is the field.
        Several: If more than one field is wrong.
    """
    check(topology)
    nodes = (*topology.hosts, *topology.routers)
    index = {name: i for i, name in enumerate(nodes)}
    arcs: list[Arc] = []
    directions: list[Direction] = []
    for link in topology.links:
        a, b = index[link.a], index[link.b]
        arcs += [Arc(f"{link.name}>", link.name, a, b), Arc(f"{link.name}<", link.name, b, a)]
        directions += [link.forward, link.back]
    table = _shortest(len(nodes), arcs)
    graph = Graph(
        topology.hosts,
        nodes,
        tuple(arcs),
        tuple(directions),
        table,
        topology.mtu_bytes,
        topology.mtu_bytes - overhead_bytes(topology.telemetry, topology.hosts),
        topology.telemetry,
        topology.misbehaving,
    )
    return graph.with_buffers()


def _shortest(n_nodes: int, arcs: Sequence[Arc]) -> tuple[tuple[int, ...], ...]:
    arriving: list[list[int]] = [[] for _ in range(n_nodes)]
    for i, arc in enumerate(arcs):
        arriving[arc.target].append(i)
    table = [[-1] * n_nodes for _ in range(n_nodes)]
    for goal in range(n_nodes):
        frontier = deque([goal])  # breadth-first, backwards from the destination
        while frontier:
            for i in arriving[frontier.popleft()]:
                source = arcs[i].source
                if source != goal and table[source][goal] < 0:
                    table[source][goal] = i
                    frontier.append(source)
    return _frozen(table)


def _frozen(table: Sequence[Sequence[int]]) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(row) for row in table)


def _buffer(direction: Direction, rtt_us: int, mtu_bytes: int, arc: str) -> Buffer:
    given = direction.buffer
    if given is not None and given.bdp is None:
        return given
    rate = direction.rate_bytes_per_s
    if rate is None and direction.token_bucket is not None and direction.token_bucket.shaper:
        rate = direction.token_bucket.rate_bytes_per_s
    bdp_bytes = 0.0 if rate is None else rate * rtt_us / 1e6
    if given is not None and given.bdp is not None:
        if not bdp_bytes:
            raise _no_bdp(rate, arc)
        return Buffer(bytes=max(mtu_bytes, round(given.bdp * bdp_bytes)))
    if not bdp_bytes:
        return Buffer(packets=NO_RATE_BUFFER_PKTS)
    return Buffer(bytes=max(MIN_DEFAULT_BUFFER_PKTS * mtu_bytes, round(bdp_bytes)))


def _no_bdp(rate: float | None, arc: str) -> LabError:
    missing = "the link has no constant rate" if rate is None else "no route across the link has a delay"
    return LabError(
        "lab.bad_value",
        "a buffer in BDP needs a rate and a delay",
        f"{arc}.buffer.bdp",
        missing,
        "give the buffer in `packets` or `bytes`",
    )
