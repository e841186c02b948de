from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from ccplane.base.errors import CcpError, Several
from experiments.netlab import LabError
from experiments.netlab.routes import graph_of
from experiments.netlab.spec import Bernoulli, Direction, Link, Pattern, TokenBucket, Topology, Tunnel
from experiments.netlab.topologies import check, dumbbell, parking_lot, point_to_point

FAST = Direction(rate_bytes_per_s=1e6, delay_us=1000)
IN_A_TUNNEL = Direction(token_bucket=TokenBucket(1.0, 1499), tunnel=Tunnel(80, mtu_bytes=1420))
PLAIN = Link(name="l1", a="a", b="b")
TWO = Topology(hosts=("a", "b"), links=(PLAIN,))


def problems(topology: Topology) -> dict[str, str]:
    with pytest.raises(CcpError) as caught:
        check(topology)
    errors = caught.value.errors if isinstance(caught.value, Several) else (caught.value,)
    assert {error.slug for error in errors} == {"lab.bad_value"}
    assert all(error.fix for error in errors)
    return {error.where: error.message for error in errors}


def test_point_to_point_is_one_link() -> None:
    topology = point_to_point(FAST, mtu_bytes=9000)
    check(topology)
    assert topology.hosts == ("sender", "receiver")
    assert topology.routers == ()
    assert topology.mtu_bytes == 9000
    (link,) = topology.links
    assert (link.name, link.a, link.b, link.forward) == ("link", "sender", "receiver", FAST)


def test_the_way_back_loses_nothing_unless_reported() -> None:
    lossy = msgspec.structs.replace(FAST, loss=Bernoulli(0.1), duplicate_ratio=0.1)
    assert point_to_point(lossy).links[0].back == FAST
    assert point_to_point(FAST, lossy).links[0].back == lossy


def test_pairs_of_a_dumbbell_share_the_bottleneck_only() -> None:
    delays = [Direction(delay_us=1000), Direction(delay_us=2000)]
    topology = dumbbell(2, FAST, access=delays)
    check(topology)
    assert topology.hosts == ("s1", "s2", "r1", "r2")
    graph = graph_of(topology)
    first, second = ({graph.arcs[arc].name for arc in graph.route(f"s{n}", f"r{n}")} for n in (1, 2))
    assert first == {"access-s1>", "bottleneck>", "access-r1>"}
    assert first & second == {"bottleneck>"}
    assert [graph.base_rtt_us(f"s{n}", f"r{n}") for n in (1, 2)] == [4000, 6000]


def test_one_pair_of_a_parking_lot_crosses_all_bottlenecks() -> None:
    topology = parking_lot(3, [FAST] * 3, access=Direction(delay_us=500))
    check(topology)
    graph = graph_of(topology)
    crossed = {
        pair: [graph.arcs[arc].link for arc in graph.route(*pair)][1:-1]
        for pair in [("sender", "receiver"), ("s1", "r1"), ("s2", "r2"), ("s3", "r3")]
    }
    assert crossed["sender", "receiver"] == ["bottleneck1", "bottleneck2", "bottleneck3"]
    assert [crossed[f"s{n}", f"r{n}"] for n in (1, 2, 3)] == [[f"bottleneck{n}"] for n in (1, 2, 3)]
    assert graph.base_rtt_us("sender", "receiver") == 2 * (500 + 3 * 1000)


def test_as_many_links_as_pairs_are_needed() -> None:
    with pytest.raises(LabError) as caught:
        dumbbell(0, FAST)
    assert caught.value.where == "pairs"
    with pytest.raises(LabError) as caught:
        dumbbell(3, FAST, access=[FAST, FAST])
    assert "2 directions for 3 pairs" in caught.value.message
    with pytest.raises(LabError) as caught:
        parking_lot(2, [FAST])
    assert caught.value.where == "hops"


@pytest.mark.parametrize(
    ("topology", "where", "message"),
    [
        (
            Topology(("a", "b"), (Link("l1", "a", "c"), Link("l2", "b", "a"))),
            "links[0].b",
            "unknown node `c`",
        ),
        (Topology(("a", "b", "c"), (PLAIN, Link("l2", "c", "a"))), "hosts[0]", "has 2 links"),
        (Topology(("a", "b", "c"), (PLAIN,)), "hosts[2]", "has 0 links"),
        (Topology(("a", "b", "a"), (PLAIN,)), "hosts[2]", "already the node at hosts[0]"),
        (Topology(("a", "b"), (PLAIN,), routers=("b",)), "routers[0]", "already the node at hosts[1]"),
        (Topology(("a", "b-"), (Link("l1", "a", "b-"),)), "hosts[1]", "invalid host name"),
        (Topology(("a",), ()), "hosts", "number of hosts: 1"),
        (Topology(("a", "b"), (Link("l1", "a", "a"), PLAIN)), "links[0].b", "to itself"),
        (Topology(("a", "b"), (Link("l1", "a", "x"), Link("l1", "b", "x")), ("x",)), "links[1].name", "link"),
        (Topology(("a", "b"), (PLAIN,), mtu_bytes=1279), "mtu_bytes", ">= 1280"),
        (Topology(("a", "b"), (PLAIN,), mtu_bytes=70_000), "mtu_bytes", "<= 65535"),
        (Topology(("a", "B"), (Link("l1", "a", "B"),)), "hosts[1]", "regex"),
        (
            Topology(("a", "b", "c", "d"), (PLAIN, Link("l2", "c", "d"))),
            "hosts[2]",
            "no links connect `a` to `c`",
        ),
        (
            Topology(("a", "b"), (Link("l1", "a", "b", Direction(loss=Bernoulli(1.5))),)),
            "links[0].forward.loss.ratio",
            "<= 1",
        ),
        (
            Topology(("a", "b"), (Link("l1", "a", "b", Direction(token_bucket=TokenBucket(1.0, 1499))),)),
            "links[0].forward.token_bucket.bucket_bytes",
            "1499 bytes",
        ),
        (
            Topology(("a", "b"), (Link("l1", "a", "b", IN_A_TUNNEL),)),
            "links[0].forward.token_bucket.bucket_bytes",
            "1499 bytes never lets a packet of 1500 bytes",
        ),
        (
            Topology(("a", "b"), (Link("l1", "a", "b", FAST, Direction(loss=Pattern((2, 1)))),)),
            "links[0].backward.loss.drop",
            "not in order",
        ),
        (
            Topology(("a", "b"), (Link("l1", "a", "b", Direction(loss=Pattern((3,), 3))),)),
            "links[0].forward.loss.drop",
            "out of range",
        ),
    ],
)
def test_what_cannot_be_built_names_its_field(topology: Topology, where: str, message: str) -> None:
    found = problems(topology)
    assert where in found
    assert message in found[where]


def test_all_problems_come_at_once() -> None:
    topology = Topology(("a", "b", "c"), (Link("l1", "a", "bb"), Link("l1", "b", "b")))
    assert {"links[1].name", "links[0].b", "links[1].b", "hosts[1]", "hosts[2]"} <= set(problems(topology))


def test_the_error_that_the_manual_shows_is_the_one_that_comes() -> None:
    text = (Path(__file__).parents[3] / "docs/netlab.md").read_text()
    (shown,) = re.findall(r"^```\n(lab\.bad_value.*?)^```$", text, re.MULTILINE | re.DOTALL)
    links = (Link(name="l1", a="left", b="rigth"), Link(name="l2", a="right", b="left"))
    with pytest.raises(Several) as caught:
        check(Topology(("left", "right"), links))
    assert str(caught.value.errors[0]) == shown.rstrip()
