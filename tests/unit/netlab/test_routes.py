from __future__ import annotations

import msgspec
import pytest

from ccplane.base.errors import Several
from experiments.netlab import LabError
from experiments.netlab.routes import Graph, graph_of
from experiments.netlab.spec import (
    Bernoulli,
    Buffer,
    Direction,
    Link,
    TokenBucket,
    Topology,
)
from experiments.netlab.topologies import dumbbell, point_to_point

FAST = Direction(rate_bytes_per_s=1e6, delay_us=10_000)


def with_detour() -> Graph:
    return graph_of(
        Topology(
            hosts=("a", "b"),
            routers=("x", "y", "z"),
            links=(
                Link(name="in", a="a", b="x"),
                Link(name="direct", a="x", b="z", forward=FAST),
                Link(name="up", a="x", b="y", forward=Direction(delay_us=7000)),
                Link(name="up2", a="x", b="y", forward=Direction(delay_us=9000)),
                Link(name="down", a="y", b="z", forward=Direction(delay_us=20_000)),
                Link(name="out", a="b", b="z"),
            ),
        )
    )


def names(graph: Graph, a: str, b: str) -> list[str]:
    return [graph.arcs[arc].name for arc in graph.route(a, b)]


def test_the_way_with_the_fewest_links_is_taken() -> None:
    graph = with_detour()
    assert names(graph, "a", "b") == ["in>", "direct>", "out<"]
    assert names(graph, "b", "a") == ["out>", "direct<", "in<"]


def test_the_table_has_a_way_from_everywhere_to_everywhere() -> None:
    graph = with_detour()
    for source, row in enumerate(graph.table):
        assert [i for i, arc in enumerate(row) if arc < 0] == [source]
        assert all(graph.arcs[arc].source == source for arc in row if arc >= 0)


def test_the_base_rtt_is_the_delay_there_and_back() -> None:
    graph = graph_of(point_to_point(Direction(delay_us=30_000), Direction(delay_us=12_000, jitter_us=99)))
    assert graph.base_rtt_us("sender", "receiver") == 42_000
    assert graph.base_rtt_us("receiver", "sender") == 42_000
    with pytest.raises(LabError) as caught:
        graph.base_rtt_us("sender", "reciever")
    assert "`receiver`" in caught.value.fix


def test_a_way_is_switched_in_both_directions_or_one() -> None:
    graph = with_detour()
    both = graph.set_route(["a", "x", "up2", "y", "z", "b"])
    assert names(both, "a", "b") == ["in>", "up2>", "down>", "out<"]
    assert names(both, "b", "a") == ["out>", "down<", "up2<", "in<"]
    assert both.base_rtt_us("a", "b") == 2 * 29_000
    one = graph.set_route(["a", "in", "up", "down", "out", "b"], both=False)
    assert names(one, "a", "b") == ["in>", "up>", "down>", "out<"]
    assert names(one, "b", "a") == names(graph, "b", "a")
    assert names(both.set_route(["a", "x", "z", "b"]), "a", "b") == names(graph, "a", "b")


@pytest.mark.parametrize(
    ("path", "where", "message"),
    [
        ([], "path", "empty"),
        (["x", "z"], "path[0]", "unknown host `x`"),
        (["a", "x", "b"], "path[2]", "no link connects `x` to `b`"),
        (["a", "x", "y", "z", "b"], "path[2]", "several links"),
        (["a", "x", "up", "x", "z", "b"], "path[3]", "several links"),
        (["a", "in", "up", "up2", "z", "b"], "path[3]", "passes `x` twice"),
        (["a", "x", "z"], "path[2]", "unknown host `z`"),
    ],
)
def test_a_way_that_is_none_is_refused(path: list[str], where: str, message: str) -> None:
    with pytest.raises(LabError) as caught:
        with_detour().set_route(path)
    assert caught.value.slug == "lab.bad_value"
    assert caught.value.where == where
    assert message in caught.value.message


def buffer(forward: Direction, backward: Direction | None = None) -> Buffer | None:
    return graph_of(point_to_point(forward, backward)).directions[0].buffer


def test_a_buffer_in_bdp_is_that_of_the_longest_path_across() -> None:
    access = [Direction(delay_us=5_000), Direction(delay_us=40_000)]
    bottleneck = Direction(rate_bytes_per_s=1e6, delay_us=10_000, buffer=Buffer(bdp=0.5))
    graph = graph_of(dumbbell(2, bottleneck, access=access))
    # s2 is the farthest from a receiver; s1 and s2 do not reach each other over the bottleneck
    assert graph.directions[0].buffer == Buffer(bytes=50_000)  # 0.5 x 1e6 bytes/s x 2 x 50 ms


def test_a_buffer_takes_one_packet_at_least() -> None:
    assert buffer(Direction(rate_bytes_per_s=1e4, delay_us=1000, buffer=Buffer(bdp=1))) == Buffer(bytes=1500)


def test_the_default_is_one_bdp() -> None:
    assert buffer(FAST) == Buffer(bytes=20_000)
    assert buffer(FAST, Direction(delay_us=30_000)) == Buffer(bytes=40_000)
    assert buffer(Direction(rate_bytes_per_s=1e6, delay_us=100)) == Buffer(bytes=15_000)


@pytest.mark.parametrize(
    "unlimited", [Direction(), Direction(delay_us=1000), Direction(rate_bytes_per_s=1e6)]
)
def test_the_default_without_a_bdp_is_a_thousand_packets(unlimited: Direction) -> None:
    assert buffer(unlimited) == Buffer(packets=1000)


def test_a_shaper_has_a_bdp() -> None:
    bucket = TokenBucket(rate_bytes_per_s=2e6, bucket_bytes=3000, shaper=True)
    assert buffer(Direction(delay_us=10_000, token_bucket=bucket)) == Buffer(bytes=40_000)


def test_what_is_given_stays() -> None:
    for given in (Buffer(packets=3), Buffer(bytes=7000)):
        assert buffer(msgspec.structs.replace(FAST, buffer=given)) == given


def test_a_link_that_no_route_crosses_takes_the_longest_path_of_all() -> None:
    topology = Topology(
        hosts=("a", "b"),
        routers=("x", "y"),
        links=(
            Link(name="in", a="a", b="x", forward=Direction(delay_us=3000)),
            Link(name="used", a="x", b="y", forward=FAST),
            Link(name="spare", a="x", b="y", forward=Direction(rate_bytes_per_s=1e7, buffer=Buffer(bdp=1))),
            Link(name="out", a="y", b="b"),
        ),
    )
    assert graph_of(topology).directions[4].buffer == Buffer(bytes=260_000)


def test_bdp_without_rate_or_delay_is_refused() -> None:
    with pytest.raises(LabError) as caught:
        buffer(Direction(delay_us=1000, buffer=Buffer(bdp=1)), Direction())
    assert caught.value.where == "link>.buffer.bdp"
    assert "no constant rate" in caught.value.why
    with pytest.raises(Several) as several:
        buffer(Direction(rate_bytes_per_s=1e6, buffer=Buffer(bdp=1)))
    assert [error.where for error in several.value.errors] == ["link>.buffer.bdp", "link<.buffer.bdp"]
    assert "delay" in several.value.errors[0].why


def test_a_change_leaves_the_rest_and_the_buffer() -> None:
    graph = graph_of(point_to_point(FAST)).change("link>", {"rate_bytes_per_s": 5e6})
    forward, backward = graph.directions
    assert forward == Direction(rate_bytes_per_s=5e6, delay_us=10_000, buffer=Buffer(bytes=20_000))
    assert backward.rate_bytes_per_s == 1e6


def test_a_named_buffer_is_sized_again() -> None:
    graph = graph_of(point_to_point(FAST))
    changed = graph.change("link>", {"rate_bytes_per_s": 5e6, "buffer": {"bdp": 1}})
    assert changed.directions[0].buffer == Buffer(bytes=100_000)
    default = graph.change("link>", {"delay_us": 40_000, "buffer": None})
    assert default.directions[0].buffer == Buffer(bytes=50_000)


def test_a_change_takes_plain_data_and_both_directions() -> None:
    graph = graph_of(point_to_point(FAST))
    changed = graph.change("link", {"loss": {"kind": "bernoulli", "ratio": 0.5}})
    assert [direction.loss for direction in changed.directions] == [Bernoulli(0.5)] * 2
    gone = changed.change("link<", {"loss": None})
    assert [direction.loss for direction in gone.directions] == [Bernoulli(0.5), None]


def test_a_link_is_described_again() -> None:
    graph = graph_of(point_to_point(FAST))
    lossy = Direction(rate_bytes_per_s=2e6, delay_us=5000, loss=Bernoulli(0.1))
    whole = graph.set_link("link", lossy)
    sized = Buffer(bytes=20_000)
    assert whole.directions[0] == msgspec.structs.replace(lossy, buffer=sized)
    assert whole.directions[1] == Direction(rate_bytes_per_s=2e6, delay_us=5000, buffer=sized)
    one = graph.set_link("link<", lossy)
    assert one.directions[0] == graph.directions[0]
    assert one.directions[1].loss == Bernoulli(0.1)


@pytest.mark.parametrize(
    ("link", "fields", "where", "part"),
    [
        ("lonk", {"delay_us": 1}, "link", "did you mean `link`?"),
        ("link>", {"dely_us": 1}, "link>", "did you mean `delay_us`?"),
        ("link>", {"delay_us": -1}, "link>.delay_us", ">= 0"),
        ("link", {"loss": {"kind": "bernoulli", "ratio": 2}}, "link>.loss.ratio", "<= 1"),
        ("link>", {"trace": "x"}, "link>", "not both"),
        ("link<", {"buffer": {}}, "link<.buffer", "one of packets, bytes and bdp"),
        (
            "link>",
            {"token_bucket": TokenBucket(1.0, 10)},
            "link>.token_bucket.bucket_bytes",
            "never lets a packet",
        ),
    ],
)
def test_a_change_that_cannot_be_names_its_field(
    link: str, fields: dict[str, object], where: str, part: str
) -> None:
    with pytest.raises(LabError) as caught:
        graph_of(point_to_point(FAST)).change(link, fields)
    assert caught.value.slug == "lab.bad_value"
    assert caught.value.where == where
    assert part in str(caught.value)


def test_a_description_of_the_wrong_type_is_refused() -> None:
    with pytest.raises(LabError) as caught:
        graph_of(point_to_point(FAST)).set_link("link>", Direction(delay_us="long"))  # type: ignore[arg-type]
    assert caught.value.where == "link>.delay_us"
