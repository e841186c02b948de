from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from experiments.netlab import LabError, inband
from experiments.netlab.emulated import EmulatedNetwork, emulated
from experiments.netlab.inband import Summaries
from experiments.netlab.network_spec import emulator_spec
from experiments.netlab.routes import graph_of
from experiments.netlab.spec import Direction, Int, IntNode, Link, Radio, Topology
from experiments.netlab.topologies import check, dumbbell, point_to_point
from telemetry.schema import FlowId, IntSummary
from tests.unit.netlab.test_topologies import problems

ENDS = ("source", "transit", "sink")
CHAIN = Topology(
    hosts=("sta1", "sta2"),
    routers=("ap1", "ap2"),
    links=(Link("near", "sta1", "ap1"), Link("wired", "ap1", "ap2"), Link("far", "ap2", "sta2")),
    mtu_bytes=1600,
)
ALL = Int(
    nodes=(
        IntNode("sta1", ENDS),
        IntNode("ap1", ("transit",)),
        IntNode("ap2", ("transit",), radio=Radio(rssi_dbm=-60.5, mcs=7)),
        IntNode("sta2", ENDS),
    ),
    namespace_id=7,
    every_pkts=10,
)
SUMMARY = IntSummary(flow=FlowId(src="fd78::1", src_port=1, dst="fd78::2", dst_port=2), received_pkts=3)


def with_telemetry(telemetry: Int = ALL, topology: Topology = CHAIN, **changes: object) -> Topology:
    return msgspec.structs.replace(topology, telemetry=telemetry, **changes)


@pytest.mark.parametrize(
    ("nodes", "where", "message"),
    [
        ((IntNode("ap3", ("transit",)),), "telemetry.nodes[0].name", "unknown node `ap3`"),
        ((IntNode("ap1", ("sink", "sink")),), "telemetry.nodes[0].roles", "a role twice"),
        ((IntNode("ap1", ("sink",)), IntNode("ap1", ("source",))), "telemetry.nodes", "2 times"),
        (
            (IntNode("ap1", ("sink",)), IntNode("ap2", ("transit",), 1)),
            "telemetry.nodes",
            "have the number 1",
        ),
        ((IntNode("ap1", ("source",)),), "telemetry.nodes", "no node is a sink"),
        ((IntNode("ap1", ()),), "telemetry.nodes[0].roles", "length >= 1"),
        ((IntNode("ap1", ("drain",)),), "telemetry.nodes[0].roles[0]", "drain"),
        ((IntNode("ap1", ("sink",), 1 << 24),), "telemetry.nodes[0].node_id", "<= 16777214"),
        ((IntNode("ap1", ("sink",), radio=Radio(mcs=255)),), "telemetry.nodes[0].radio.mcs", "<= 254"),
        ((), "telemetry.nodes", "length >= 1"),
    ],
)
def test_what_cannot_be_names_its_field(nodes: tuple[IntNode, ...], where: str, message: str) -> None:
    found = problems(with_telemetry(Int(nodes=nodes)))
    assert message in found[where]


def test_headers_leave_ipv6_its_min_packet() -> None:
    overhead = inband.overhead_bytes(ALL, CHAIN.hosts)
    check(with_telemetry(mtu_bytes=1280 + overhead))
    found = problems(with_telemetry(mtu_bytes=1279 + overhead))
    assert found == {"mtu_bytes": f"headers leave 1279 of {1279 + overhead} bytes; IPv6 needs 1280"}


def test_more_nodes_than_a_packet_has_room_for_are_refused() -> None:
    found = problems(with_telemetry(msgspec.structs.replace(ALL, max_nodes=50)))
    assert list(found) == ["telemetry"]


def test_hosts_send_smaller_packets_where_something_adds_headers() -> None:
    plain = graph_of(CHAIN)
    assert plain.host_mtu_bytes == plain.mtu_bytes == 1600
    graph = graph_of(with_telemetry())
    assert graph.mtu_bytes == 1600
    assert graph.host_mtu_bytes == 1600 - inband.overhead_bytes(ALL, CHAIN.hosts) < 1600
    transit = Int(nodes=(IntNode("ap1", ("transit",)),))  # the hosts' own sources add them
    assert graph_of(with_telemetry(transit)).host_mtu_bytes == 1600


def test_packets_have_room_for_the_nodes_that_they_can_meet() -> None:
    source = inband.plain(graph_of(with_telemetry()), 9)["source"]
    assert source["max_nodes"] == 3  # sta1, ap1, ap2; or sta2, ap2, ap1
    many = dumbbell(9, Direction())
    everybody = Int(nodes=tuple(IntNode(name, ENDS) for name in (*many.hosts, *many.routers)))
    assert inband.plain(graph_of(with_telemetry(everybody, many)), 9)["source"]["max_nodes"] == 3
    two = msgspec.structs.replace(ALL, max_nodes=2)
    assert inband.plain(graph_of(with_telemetry(two)), 9)["source"]["max_nodes"] == 2


def test_the_emulator_reads_what_is_meant() -> None:
    graph = graph_of(with_telemetry())
    plain = inband.plain(graph, 9)
    assert plain["source"] == {
        "namespace_id": 7,
        "max_nodes": 3,
        "every_pkts": 10,
        "wireless_nodes": True,
        "tcp_state": True,
        "echo": False,
    }
    assert plain["sink"]["interval_us"] == 10_000
    assert {number: node["name"] for number, node in plain["sink"]["nodes"].items()} == {
        "1": "sta1",
        "2": "ap1",
        "3": "ap2",
        "4": "sta2",
    }
    names = [node["name"] for node in emulator_spec(graph, 1)["nodes"]]
    assert [names[node["node"]] for node in plain["nodes"]] == ["sta1", "ap1", "ap2", "sta2"]
    assert [node["node_id"] for node in plain["nodes"]] == [1, 2, 3, 4]
    assert plain["nodes"][1]["radio"] is None
    assert plain["nodes"][2] == {
        "node": names.index("ap2"),
        "roles": ["transit"],
        "node_id": 3,
        "radio": {"rssi_dbm": -60.5, "snr_db": None, "mcs": 7, "data_rate_bytes_per_s": None},
    }
    assert (plain["summaries_fd"], plain["records_path"]) == (9, None)
    assert inband.plain(graph, 9, "records.csv")["records_path"] == os.path.abspath("records.csv")


@pytest.mark.parametrize(
    "topology", [point_to_point(Direction()), with_telemetry()], ids=["none", "no records"]
)
def test_records_need_telemetry_that_makes_some(topology: Topology) -> None:
    with pytest.raises(LabError) as caught, emulated(topology, records_path="records.csv"):
        pytest.fail("it was built")
    assert caught.value.where == "records_path"


def test_a_network_without_telemetry_has_no_summaries() -> None:
    links: Any = SimpleNamespace(hosts={})
    lab: Any = None
    with pytest.raises(LabError) as caught:
        EmulatedNetwork(lab, graph_of(CHAIN), links).summaries()
    assert (caught.value.slug, caught.value.where) == ("lab.bad_value", "telemetry")


def test_summaries_are_read_line_by_line_while_they_come() -> None:
    summaries = Summaries()
    line = msgspec.json.encode(SUMMARY) + b"\n"
    assert summaries.new() == []
    os.write(summaries.fd, line + line[:20])
    assert summaries.new() == [SUMMARY]
    os.write(summaries.fd, line[20:] + line)
    assert summaries.new() == [SUMMARY, SUMMARY]
    assert summaries.new() == []
    summaries.close()
