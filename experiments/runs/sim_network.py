"""Changes of a simulated network during a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from experiments.netlab.network_spec import plain_direction
from experiments.netlab.routes import Graph

if TYPE_CHECKING:
    from ccplane.base._native import SimDatapath


class SimNetwork:
    """The links and routes of a running simulation."""

    def __init__(self, datapath: SimDatapath, graph: Graph) -> None:
        self._datapath = datapath
        self._graph = graph

    def change(self, link: str, **fields: Any) -> None:
        """Change some properties of a link, as `EmulatedNetwork.change` does.

        Raises:
            LabError: `lab.bad_value`.
        """
        self._update(self._graph.change(link, fields))

    def set_route(self, path: Sequence[str], *, both: bool = True) -> None:
        """Change a route, as `EmulatedNetwork.set_route` does.

        Raises:
            LabError: `lab.bad_value`.
        """
        self._update(self._graph.set_route(path, both=both))

    def base_rtt_us(self, a: str, b: str) -> int:
        """Return the round-trip time between two hosts, excluding queueing and serialization [us]."""
        return self._graph.base_rtt_us(a, b)

    def _update(self, graph: Graph) -> None:
        before, self._graph = self._graph, graph
        for arc, old, new in zip(graph.arcs, before.directions, graph.directions, strict=True):
            if old != new:
                direction = msgspec.json.encode(plain_direction(new, arc.name))
                self._datapath.set_link(arc.name, direction)
        if before.table != graph.table:
            self._datapath.set_routes(msgspec.json.encode(graph.table))
