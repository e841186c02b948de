"""What repeats of a point do not have in common, as networks of the same kind do not.

Runs that differ in their seed alone are all alike where nothing is drawn at random: then n of them say no
more than one does. Each repeat has a network of its own instead, and its flows begin at moments of their own.
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
"""By how much of the path's longest link hosts are farther away, at most."""
LATER_S: Final = 0.1
"""By how much flows start later, at most [s]."""


def own_network(scenario: Scenario) -> Scenario:
    """Return a scenario as its seed draws it: hosts a little farther away, flows a little later.

    Bottlenecks stay what they are: delay is added on a host's own link, or on the way back where there is
    no other link. A host whose link an event changes stays where it is.

    Args:
        scenario: As it was planned.
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
