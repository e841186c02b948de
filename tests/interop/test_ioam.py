"""Wireshark reads our packets as we mean them."""

from __future__ import annotations

from pathlib import Path

import pytest

from telemetry.ioam import (
    EdgeToEdge,
    Node,
    OtherState,
    PathEcho,
    State,
    TcpState,
    Trace,
    TraceField,
    fill,
    insert,
)
from telemetry.ioam.commands import DISSECTOR
from telemetry.ioam.model import E2eField
from tests.interop.wireshark import complaints, fields, tshark
from tests.unit.telemetry.ioam.packets import ECHO, packet, write_pcap

EVERY_FIELD = TraceField((1 << 24) - (1 << 12)) | TraceField.SNAPSHOT
FULL = Node(
    hop_limit=63,
    node_id=0x010203,
    ingress_if=11,
    egress_if=12,
    timestamp_s=1_700_000_000,
    timestamp_fraction=999_999,
    transit_delay_ns=1_500_000,
    namespace_data=0xDEADBEEF,
    queue_depth=30_280,
    checksum_complement=0x01020304,
    hop_limit_wide=63,
    node_id_wide=0x01020304050607,
    ingress_if_wide=0x00010002,
    egress_if_wide=0x00030004,
    namespace_data_wide=0xCAFEF00DCAFEF00D,
    buffer_occupancy=65_536,
    snapshot=State(
        queue_free_pkts=80,
        arrival_pkts_per_s=8333,
        flow_count=3,
        lost_pkts=7,
        link_rate_bytes_per_s=2_500_000,
        flow_missing_pkts=5,
        flow_dropped_pkts=2,
        snr_db=33.25,
        mcs=7,
    ),
)
SHOWN = {
    "hlim": "63",
    "id": "0x010203",
    "iif": "0x000b",
    "eif": "0x000c",
    "tss": "0x6553f100",
    "tsf": "0x000f423f",
    "trdelay": "0x0016e360",
    "nsdata": "0xdeadbeef",
    "qdepth": "0x00007648",
    "csum": "0x01020304",
    "id_wide": "0x01020304050607",
    "iif_wide": "0x00010002",
    "eif_wide": "0x00030004",
    "nsdata_wide": "0xcafef00dcafef00d",
    "bufoccup": "0x00010000",
    "oss.len": "9",
    "oss.scid": "0x636302",
    "oss.data": "000000500000208d0000000300000007002625a000050002ffff822dffffffff07ffffff",
}
"""Wireshark's name of a node's field -> how it shows FULL. Both hop limits have one name."""


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One packet each: empty trace, filled by one node, by three of other sizes, all kinds of options."""
    bare = packet(b"", 59)
    room = Trace(trace_type=EVERY_FIELD, remaining_words=61, namespace_id=123)
    many = insert(
        bare, [Trace(trace_type=TraceField.NODE | TraceField.SNAPSHOT, remaining_words=24, active=True)]
    )
    for node in (
        Node(node_id=1, hop_limit=64),
        Node(node_id=2, hop_limit=63, snapshot=OtherState(schema_id=5, data="0badcafe")),
        Node(node_id=3, hop_limit=62, snapshot=State(queue_free_pkts=1)),
        Node(node_id=4, snapshot=State(mcs=1)),
        Node(node_id=5, snapshot=State(mcs=1)),
    ):
        many = fill(many, node).packet
    edge = EdgeToEdge(e2e_type=E2eField.SEQUENCE_32 | E2eField.TIMESTAMP_S, sequence=5, timestamp_s=6)
    packets = [
        insert(bare, [room]),
        fill(insert(bare, [room]), FULL, 123).packet,
        many,
        insert(
            bare,
            [Trace(trace_type=TraceField.QUEUE_DEPTH, remaining_words=4), edge, TcpState(cwnd_bytes=14_480)],
        ),
    ]
    return write_pcap(tmp_path_factory.mktemp("ioam") / "ours.pcap", packets)


def test_wireshark_finds_nothing_malformed(capture: Path) -> None:
    assert len(tshark(capture)) == 4
    assert complaints(capture) == []


def test_wireshark_does_find_what_is_malformed(tmp_path: Path) -> None:
    wrong = bytearray(insert(packet(b"", 59), [Trace(trace_type=TraceField.NODE, remaining_words=4)]))
    wrong[51] = 5  # RemainingLen
    assert len(complaints(write_pcap(tmp_path / "wrong.pcap", [bytes(wrong)]))) == 1


def test_wireshark_shows_the_same_values(capture: Path) -> None:
    names = [f"ipv6.opt.ioam.trace.node.{name}" for name in SHOWN]
    rows = fields(capture, names)
    assert rows[0] == [""] * len(SHOWN)
    hop_limits, *rest = rows[1]
    assert hop_limits == "63,63"
    assert [int(value, 16) for value in rest] == [int(value, 16) for value in [*SHOWN.values()][1:]]
    header = ["ns", "nodelen", "remlen", "type", "flag.o"]
    rows = fields(capture, [f"ipv6.opt.ioam.trace.{name}" for name in header])
    assert rows[0] == ["123", "15", "61", "0xfff002", "0"]
    assert rows[1] == ["123", "15", "36", "0xfff002", "0"]


def test_wireshark_finds_every_node_in_the_order_of_the_wire(capture: Path) -> None:
    names = ["flag.o", "flag.a", "remlen", "node.id", "node.hlim", "node.oss.scid", "node.oss.len"]
    assert fields(capture, [f"ipv6.opt.ioam.trace.{name}" for name in names])[2] == [
        "1",
        "1",
        "0",
        "0x000004,0x000003,0x000002,0x000001",
        "255,62,63,64",
        "0x636302,0x636302,0x000005,0xffffff",
        "9,6,1,0",
    ]


def test_wireshark_goes_on_after_what_it_does_not_know(capture: Path) -> None:
    (row,) = fields(capture, ["ipv6.dstopts.nxt", "ipv6.opt.type", "ipv6.opt.experimental"])[3:]
    assert [int(kind, 0) for kind in row[1].split(",")] == [1, 0x31, 1, 0x11, 0x1E]
    assert (row[0], row[2]) == ("59", "63630101ffff00003890")


def test_wireshark_shows_our_own_options_with_our_dissector(tmp_path: Path) -> None:
    bare = packet(b"", 59)
    cut = bytearray(insert(bare, [ECHO]))
    cut[45] -= 1  # the option's length; a Pad1 takes the last octet
    cut[-1] = 0
    packets = [
        insert(bare, [TcpState(cwnd_bytes=14_480, wants_echo=True, first_sequence=0xABCD)]),
        insert(bare, [ECHO]),
        insert(bare, [PathEcho(free_pkts=0xFFFF_FFFE, hops=1, hop=1)]),
        bytes(cut),
    ]
    capture = write_pcap(tmp_path / "echoes.pcap", packets)
    shown = ["-X", f"lua_script:{DISSECTOR}"]
    names = [name for name in ECHO.__struct_fields__ if not name.startswith("sent_")]
    asked = [f"ccplane.echo.{name}" for name in [*names, "unlimited", "sent"]]
    tcp, echo, unlimited, broken = fields(
        capture,
        [*asked, "ccplane.tcp.first_sequence", "ccplane.tcp.cwnd_bytes", "ccplane.tcp.wants_echo"],
        shown,
    )
    yes = {"1", "True"}  # Wireshark's versions differ
    assert tcp[-3:-1] == [str(0xABCD), "14480"]
    assert tcp[-1] in yes
    values = dict(zip(asked, echo, strict=False))
    for name in names:
        value = getattr(ECHO, name)
        reported = yes if value is True else {"" if value is None else str(value)}
        assert values[f"ccplane.echo.{name}"] in reported, name
    assert "22:13:20.000009" in values["ccplane.echo.sent"]
    free, no_limit = (asked.index(f"ccplane.echo.{name}") for name in ("free_pkts", "unlimited"))
    assert (unlimited[free], echo[no_limit]) == ("", "")
    assert unlimited[no_limit] in yes
    assert set(broken) == {""}
    assert len(tshark(capture, *shown, "-Y", "ccplane.length")) == 1
