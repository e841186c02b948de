"""Differences between the repeats of a point: each gets its own variant of the network.

Where nothing is random, runs that differ only in their seed are identical, and n such runs say no more than
one run. So each repeat gets slightly different delays, and its flows start at slightly different times.
"""

from __future__ import annotations

from random import Random
from typing import Final

import msgspec

from experiments.events import SetLink
from experiments.netlab.spec import Direction
from experiments.runs.shapes import Dumbbell, Graph, Network, PointToPoint
from experiments.scenario import Scenario

FARTHER_RATIO: Final = 0.04
"""Maximum additional delay of hosts, as a share of the delay of the path's longest link."""
LATER_S: Final = 0.1
"""Maximum additional start delay of flows [s]."""


def own_network(scenario: Scenario) -> Scenario:
    """Return a scenario with the variations of its seed: hosts slightly farther away, flows slightly later.

    Bottlenecks stay the same: the delay is added to a host's own link, or in the opposite direction where
    there is no other link. A host whose link is changed by an event keeps its delay.
    """
    drawn = Random(f"own network {scenario.seed}")
    farthest_us = max(link.forward.delay_us for link in scenario.network.links)

    def farther(way: Direction) -> Direction:
        more_us = round(drawn.uniform(0, FARTHER_RATIO * farthest_us))
        return msgspec.structs.replace(way, delay_us=way.delay_us + more_us)

    flows = tuple(
        msgspec.structs.replace(flow, start_s=round(flow.start_s + drawn.uniform(0, LATER_S), 3))
        for flow in scenario.flows
    )
    changed = {event.link.rstrip("<>") for event in scenario.events if isinstance(event, SetLink)}
    topology: Network = scenario.topology
    match topology:
        case Dumbbell() if not any(name.startswith("access-") for name in changed):
            access = (
                topology.access if isinstance(topology.access, tuple) else [topology.access] * topology.pairs
            )
            topology = msgspec.structs.replace(topology, access=tuple(farther(one) for one in access))
        case PointToPoint():
            back = topology.backward or topology.forward.one_way_back()
            topology = msgspec.structs.replace(topology, backward=farther(back))
        case Graph():
            ends = {flow.sender: None for flow in flows}
            links = [
                msgspec.structs.replace(link, forward=farther(link.forward))
                if link.a in ends and link.name not in changed
                else link
                for link in topology.links
            ]
            topology = msgspec.structs.replace(topology, links=tuple(links))
    return scenario.replace(topology=topology, flows=flows)
