from __future__ import annotations

import pytest

from experiments.events import SetLink
from experiments.netlab.spec import Buffer, Direction, Link, Topology
from experiments.papers.two_flows import dumbbell
from experiments.runs.own_network import FARTHER_RATIO, LATER_S, own_network
from experiments.runs.shapes import Dumbbell, Graph, PointToPoint
from experiments.scenario import FlowSpec, Scenario

FAR_US = 20_000
BOTTLENECK = Direction(rate_bytes_per_s=1e6, delay_us=FAR_US, buffer=Buffer(bdp=1.0))
CHAIN = Topology(("s", "r"), (Link("own", "s", "n"), Link("far", "n", "r", BOTTLENECK)), ("n",))


def scenario(topology: Dumbbell | Graph | PointToPoint, **more: object) -> Scenario:
    ends = ("sender", "receiver") if isinstance(topology, PointToPoint) else ("s", "r")
    flow = FlowSpec("flow", *ends, "kernel/cubic", start_s=1.0)
    return Scenario(name="x", topology=topology, flows=(flow,), duration_s=5, **more)  # type: ignore[arg-type]


def test_each_seed_has_a_network_and_beginnings_of_its_own() -> None:
    base = dumbbell("x", 5)
    seen = [own_network(base.replace(seed=seed)) for seed in range(20)]
    assert own_network(base.replace(seed=3)) == seen[3]
    assert len({one.content_hash() for one in seen}) == 20
    for one in seen:
        one.validate()
        assert one.topology.bottleneck == base.topology.bottleneck  # type: ignore[union-attr]
        assert all(0 <= flow.start_s <= LATER_S for flow in one.flows)
    delays = {link.delay_us for one in seen for link in one.topology.access}  # type: ignore[union-attr]
    assert len(delays) > 20
    assert max(delays) <= FARTHER_RATIO * base.topology.bottleneck.delay_us  # type: ignore[union-attr]


def test_a_sender_in_a_graph_is_farther_away_on_its_own_link() -> None:
    one = own_network(scenario(Graph.of(CHAIN)))
    own, far = one.network.links
    assert far == CHAIN.links[1]
    assert 0 < own.forward.delay_us <= FARTHER_RATIO * FAR_US
    assert 1.0 <= one.flows[0].start_s <= 1.0 + LATER_S


def test_where_there_is_one_link_its_way_back_is_longer() -> None:
    one = own_network(scenario(PointToPoint(BOTTLENECK)))
    (link,) = one.network.links
    assert link.forward == BOTTLENECK
    assert FAR_US < link.back.delay_us <= FAR_US * (1 + FARTHER_RATIO)


@pytest.mark.parametrize("link", ["own>", "own"])
def test_a_link_that_an_event_changes_stays_where_it_is(link: str) -> None:
    event = SetLink(2.0, link, {"delay_us": 5})
    one = own_network(scenario(Graph.of(CHAIN), events=(event,)))
    assert one.network == scenario(Graph.of(CHAIN)).network
