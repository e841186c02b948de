from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telemetry.ioam import (
    CaptureReader,
    EdgeToEdge,
    IoamError,
    Node,
    OtherOption,
    OtherState,
    State,
    Trace,
    TraceField,
    arrival_ns,
    build,
    decode,
    errors,
    fill,
    insert,
    remove,
)
from tests.unit.telemetry.ioam.packets import (
    DST,
    EDGE,
    FIELDS,
    NODE,
    OPTIONS,
    SRC,
    TCP_STATE,
    TRACE,
    packet,
    udp,
)
from tests.unit.telemetry.ioam.packets import write_pcap as write

HERE = Path(__file__).parent
SHORT = {
    "hop_limit": 8,
    "node_id": 24,
    "ingress_if": 16,
    "egress_if": 16,
    "hop_limit_wide": 8,
    "node_id_wide": 56,
}
ALL_FIELDS = TraceField((1 << 24) - (1 << 12)) | TraceField.SNAPSHOT


def missing_or(bits: int) -> st.SearchStrategy[int | None]:
    return st.none() | st.integers(0, (1 << bits) - 2)


def any_node() -> st.SearchStrategy[Node]:
    state = st.builds(
        State,
        queue_free_pkts=missing_or(32),
        flow_count=missing_or(32),
        lost_pkts=missing_or(32),
        snr_db=st.none() | st.integers(-30_000, 35_534).map(lambda steps: steps / 100),
        mcs=missing_or(8),
    )
    other = st.builds(
        OtherState, schema_id=st.integers(0, 1000), data=st.binary().map(lambda b: (b * 4).hex())
    )
    fields = {
        name: missing_or(SHORT.get(name, 64 if name == "namespace_data_wide" else 32))
        for name in Node.__struct_fields__
        if name not in {"snapshot", "transit_delay_ns"}
    }
    delay_ns = st.none() | st.integers(0, 1 << 31)
    return st.builds(Node, **fields, transit_delay_ns=delay_ns, snapshot=st.none() | state | other)


@given(any_node())
def test_every_field_of_a_node_comes_out_as_it_went_in(node: Node) -> None:
    room = Trace(trace_type=ALL_FIELDS, remaining_words=60)
    filled = fill(insert(udp(), [room]), node)
    (found,) = decode(filled.packet).options
    assert isinstance(found.option, Trace)
    if filled.filled:
        assert found.option.nodes == (node,)
    else:
        assert found.option.overflow
        assert found.option.nodes == ()


def test_packets_carry_options_and_lose_them_again() -> None:
    with_options = insert(udp(), OPTIONS)
    decoded = decode(with_options)
    assert tuple(placed.option for placed in decoded.options) == OPTIONS
    assert [placed.header for placed in decoded.options] == ["hop_by_hop", "destination", "destination"]
    assert [with_options[placed.offset] for placed in decoded.options] == [0x31, 0x11, 0x1E]
    flow = decoded.flow
    assert (flow.src, flow.src_port, flow.dst, flow.dst_port, flow.protocol) == (SRC, 4000, DST, 4001, 17)
    assert remove(with_options) == udp()
    assert with_options[40:-16] == b"".join(build(OPTIONS, next_header=17))
    assert build([TCP_STATE])[0] == b""


@pytest.mark.parametrize(
    ("timestamps", "seconds", "fraction", "expected_ns"),
    [
        ("posix", 1_700_000_000, 999_999, 1_700_000_000_999_999_000),
        ("ptp", 1_700_000_000, 999_999_999, 1_700_000_000_999_999_999),
        ("ntp", 2_208_988_800, 1 << 31, 500_000_000),
        ("posix", None, 5, None),
        ("posix", 5, None, None),
    ],
)
def test_timestamps_become_nanoseconds_since_1970(
    timestamps: Any, seconds: int | None, fraction: int | None, expected_ns: int | None
) -> None:
    for what in (
        Node(timestamp_s=seconds, timestamp_fraction=fraction),
        EdgeToEdge(e2e_type=0, timestamp_s=seconds, timestamp_fraction=fraction),
    ):
        assert arrival_ns(what, timestamps) == expected_ns


def test_a_file_is_read_to_its_end(tmp_path: Path) -> None:
    malformed = bytearray(insert(udp(), OPTIONS))
    malformed[50] ^= 0x08
    reader = CaptureReader(write(tmp_path / "a.pcap", [udp(), insert(udp(), [EDGE]), bytes(malformed)]))
    records = list(reader)
    assert [(one.packet, one.time_ns, len(one.options), len(one.errors)) for one in records] == [
        (2, 2_000_005_000, 1, 0),
        (3, 3_000_005_000, 2, 1),
    ]
    assert records[1].errors[0].slug == "ioam.bad_value"
    assert records[1].errors[0].where == "NodeLen, byte 50 of the packet"
    summary = reader.summary()
    assert (summary.packets, summary.ipv6, summary.with_options, summary.malformed) == (3, 3, 2, 1)
    assert summary.broken is None


def test_a_file_that_was_cut_off_is_read_until_there(tmp_path: Path) -> None:
    packets = [insert(udp(), OPTIONS)] * 3
    reader = CaptureReader(write(tmp_path / "a.pcap", packets, cut_bytes=10))
    assert len(list(reader)) == 2
    broken = reader.summary().broken
    assert broken is not None
    assert broken.slug == "ioam.broken_file"
    assert broken.where == f"{tmp_path / 'a.pcap'}, after packet 2"


def refused(what: Any, *arguments: Any, **named: Any) -> IoamError:
    with pytest.raises(IoamError) as caught:
        what(*arguments, **named)
    return caught.value


def test_errors_name_the_field() -> None:
    too_many = refused(fill, insert(udp(), [TRACE]), Node(hop_limit=300))
    assert (too_many.slug, too_many.where) == ("ioam.cannot_write", "$.hop_limit")
    all_ones = refused(insert, udp(), [TRACE, Trace(trace_type=FIELDS, nodes=(Node(node_id=0xFFFFFF),))])
    assert (all_ones.slug, all_ones.where) == ("ioam.cannot_write", "$[1].nodes[0].node_id")
    wide = refused(fill, insert(udp(), [TRACE]), Node(namespace_data_wide=2**64 - 1))
    assert (wide.slug, wide.where) == ("ioam.cannot_write", "namespace_data_wide")
    assert refused(insert, udp(), [OtherOption(ioam_type=2)]).slug == "ioam.cannot_write"
    assert refused(insert, udp(), [object()]).slug == "ioam.cannot_write"


def test_packets_that_cannot_be_are_refused(tmp_path: Path) -> None:
    fragment = packet(bytes([17, 0, 0, 0, 0, 0, 0, 1]) + bytes(8), next_header=44)
    assert refused(insert, fragment, OPTIONS).slug == "ioam.cannot_insert"
    assert refused(decode, b"\x45" + bytes(60)).slug == "ioam.not_ipv6"
    assert refused(remove, packet(bytes([17, 9]), next_header=0)).slug == "ioam.truncated"
    lengths = bytes([17, 1, 1, 0, 0x1E, 4, 0x63, 0x63, 1, 0, 1, 4, 0, 0, 0, 0])
    assert refused(fill, packet(lengths, next_header=0), NODE).slug == "ioam.bad_length"
    assert refused(CaptureReader, tmp_path / "none.pcap").slug == "ioam.cannot_read"
    assert refused(CaptureReader, Path(__file__)).slug == "ioam.no_capture"


def test_without_the_native_module_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ccplane.base", None)
    assert refused(decode, udp()).slug == "ioam.not_built"


def test_every_slug_has_a_test() -> None:
    tests = "".join(file.read_text() for file in HERE.glob("test_*.py"))
    assert [slug for slug in errors.SLUGS if f'"{slug}"' not in tests] == []
