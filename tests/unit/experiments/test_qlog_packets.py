"""Packets in qlog files, from captures of known packets."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import pytest
from typer.testing import CliRunner

from experiments.commands import app
from experiments.errors import ResultError
from experiments.netlab import pcapng
from experiments.netlab.spec import Direction
from experiments.qlog import to_qlog
from experiments.qlog_packets import Captured, segments
from experiments.results import METADATA, SCENARIO, Result
from experiments.run import run
from experiments.scenario import Dumbbell, FlowSpec, Scenario

OUT, BACK = "access-s1>", "access-s1<"
START_US = 1_790_000_000_000_000
DELAY_US = 2000
"""Propagation delay of the sender's link."""
PORTS = (40_001, 5201)
ISN = 0xFFFFFF00
"""The numbers wrap around during the connection."""
MSS = 1000
SYN, ACK, FIN = 0x02, 0x10, 0x01

Unsigned = Annotated[int, msgspec.Meta(ge=0)]


class Header(msgspec.Struct, forbid_unknown_fields=True):
    """`PacketHeader` of draft-ietf-quic-qlog-quic-events-03; TCP has the required fields only."""

    packet_type: Literal["1RTT"]
    packet_number: Unsigned


class Raw(msgspec.Struct, forbid_unknown_fields=True):
    """`RawInfo` of draft-ietf-quic-qlog-main-schema-04."""

    length: Annotated[int, msgspec.Meta(ge=40)]
    payload_length: Unsigned


class Stream(msgspec.Struct, forbid_unknown_fields=True, tag_field="frame_type", tag="stream"):
    """`StreamFrame`."""

    stream_id: Unsigned
    offset: Unsigned
    length: Annotated[int, msgspec.Meta(ge=1)]


class Ack(msgspec.Struct, forbid_unknown_fields=True, tag_field="frame_type", tag="ack"):
    """`AckFrame`; ranges are left out, never empty."""

    acked_ranges: (
        Annotated[list[tuple[Unsigned, Unsigned]], msgspec.Meta(min_length=1)] | msgspec.UnsetType
    ) = msgspec.UNSET


class Sent(msgspec.Struct, forbid_unknown_fields=True):
    """`QUICPacketSent`."""

    header: Header
    raw: Raw
    frames: list[Stream]


class Received(msgspec.Struct, forbid_unknown_fields=True):
    """`QUICPacketReceived`."""

    header: Header
    raw: Raw
    frames: list[Ack]


class Lost(msgspec.Struct, forbid_unknown_fields=True):
    """`RecoveryPacketLost`."""

    header: Header


SCHEMA: dict[str, Any] = {
    "transport:packet_sent": Sent,
    "transport:packet_received": Received,
    "recovery:packet_lost": Lost,
}


def parsed(trace: dict[str, Any]) -> list[tuple[float, Any]]:
    """Time [ms] and data of the events of packets, checked against the schema."""
    times = [event["time"] for event in trace["events"]]
    assert times == sorted(times)
    return [
        (event["time"], msgspec.convert(event["data"], SCHEMA[event["name"]]))
        for event in trace["events"]
        if event["name"] in SCHEMA
    ]


def tcp(
    at_ms: float,
    *,
    position: int = 0,
    ack: int = 0,
    flags: int = ACK,
    payload: int = 0,
    sacks: tuple[tuple[int, int], ...] = (),
    back: bool = False,
    ipv6: bool = False,
) -> tuple[float, bytes]:
    """A segment and its time; positions count from the sender's SYN."""
    options = b""
    if sacks:
        ranges = b"".join(struct.pack(">II", *[(ISN + end) & 0xFFFFFFFF for end in one]) for one in sacks)
        options = b"\x01\x01\x05" + bytes([2 + len(ranges)]) + ranges
    ports = PORTS[::-1] if back else PORTS
    seq, acked = (7, (ISN + ack) & 0xFFFFFFFF) if back else ((ISN + position) & 0xFFFFFFFF, 8)
    head = struct.pack(">HHIIBBHHH", *ports, seq, acked, (20 + len(options)) << 2, flags, 1, 0, 0)
    body = head + options + bytes(payload)
    if ipv6:  # with a hop-by-hop header, as of in-band telemetry
        return at_ms, bytes([0x60, 0, 0, 0]) + struct.pack(">HBB", 8 + len(body), 0, 64) + bytes(32) + bytes(
            [6, 0, 1, 4, 0, 0, 0, 0]
        ) + body
    return at_ms, struct.pack(">BBHHHBBH8x", 0x45, 0, 20 + len(body), 0, 0, 64, 6, 0) + body


def capture(packets: list[tuple[float, bytes]]) -> bytes:
    """A file as the emulator writes it."""

    def block(kind: int, content: bytes) -> bytes:
        content += bytes(-len(content) % 4)
        return struct.pack(">II", kind, 12 + len(content)) + content + struct.pack(">I", 12 + len(content))

    file = block(pcapng.SECTION, struct.pack(">IHHQ", 0x1A2B3C4D, 1, 0, (1 << 64) - 1))
    file += block(1, struct.pack(">HHI", 101, 0, 0))
    for at_ms, packet in packets:
        t_ns = START_US * 1000 + round(at_ms * 1e6)
        size = len(packet)
        file += block(6, struct.pack(">IIIII", 0, t_ns >> 32, t_ns & 0xFFFFFFFF, size, size) + packet)
    return file


UDP = (5.0, struct.pack(">BBHHHBBH8x", 0x45, 0, 28, 0, 0, 64, 17, 0) + bytes(8))
# Three packets and the end; the second one is lost, reported by SACK, and sent again. Captures are later by
# `DELAY_US`.
FORTH = [
    tcp(12.0, flags=SYN),
    tcp(22.0, position=1),
    UDP,
    tcp(22.1, position=1, payload=MSS),
    tcp(22.2, position=1001, payload=MSS),
    tcp(22.3, position=2001, payload=MSS),
    tcp(42.5, position=1001, payload=MSS),
    tcp(62.0, position=3001, flags=ACK | FIN),
]
ACKS = [
    tcp(20.0, ack=1, flags=SYN | ACK, back=True),
    tcp(40.0, ack=1001, back=True),
    tcp(40.2, ack=1001, back=True, sacks=((2001, 3001),)),
    tcp(60.0, ack=3001, back=True),
    tcp(80.0, ack=3002, back=True),
]


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("qlog") / "run"
    flow = FlowSpec("f", "s1", "r1", "kernel/cubic")
    bottleneck = Direction(rate_bytes_per_s=1.25e6, delay_us=10_000)
    shape = Dumbbell(1, bottleneck, access=Direction(delay_us=DELAY_US))
    run(Scenario(name="q", topology=shape, flows=(flow,), duration_s=1.0, datapath="sim"), place)
    return place


def captured(simulated: Path, place: Path, files: dict[str, bytes], **changes: Any) -> Result:
    """The result of a run on real sockets, with these captures."""
    place.mkdir()
    for file in simulated.iterdir():
        (place / file.name).write_bytes(file.read_bytes())
    plain = Result.load(simulated).scenario.plain() | {"datapath": "ebpf", "captures": list(files)} | changes
    Scenario.parse(plain).save(place / SCENARIO)
    facts = json.loads((place / METADATA).read_text())
    facts["captures"] = {"start_unix_us": START_US, "connections": {"f": [list(PORTS)]}}
    (place / METADATA).write_text(json.dumps(facts))
    for name, data in files.items():
        (place / f"{name}.pcapng").write_bytes(data)
    return Result.load(place)


def test_packets_are_sent_acknowledged_and_lost(simulated: Path, tmp_path: Path) -> None:
    result = captured(simulated, tmp_path / "run", {OUT: capture(FORTH), BACK: capture(ACKS)})
    (trace,) = to_qlog(result)["traces"]
    found = parsed(trace)
    sent = [(time, one) for time, one in found if isinstance(one, Sent)]
    assert [(time, one.header.packet_number, one.raw.payload_length) for time, one in sent] == [
        (10.0, 0, 0),
        (20.1, 1, MSS),
        (20.2, 2, MSS),
        (20.3, 3, MSS),
        (40.5, 4, MSS),
        (60.0, 5, 0),
    ]
    assert [frame.offset for _, one in sent for frame in one.frames] == [0, 1000, 2000, 1000]
    assert all(one.raw.length == one.raw.payload_length + 40 for _, one in sent)
    assert [(time, one.header.packet_number) for time, one in found if isinstance(one, Lost)] == [(40.5, 2)]
    acks = [(time, one.frames[0].acked_ranges) for time, one in found if isinstance(one, Received)]
    assert acks == [
        (20.0, [(0, 0)]),
        (40.0, [(1, 1)]),
        (40.2, [(3, 3)]),
        (60.0, [(4, 4)]),
        (80.0, [(5, 5)]),
    ]
    # The samples are still there.
    assert {event["name"] for event in trace["events"]} > set(SCHEMA)


def test_a_duplicate_ack_acknowledges_nothing_and_a_long_one_a_range(simulated: Path, tmp_path: Path) -> None:
    forth = [tcp(2, flags=SYN), *(tcp(3 + n, position=1 + n * MSS, payload=MSS) for n in range(5))]
    back = [tcp(50, ack=1, back=True), tcp(51, ack=1, back=True), tcp(52, ack=5001, back=True)]
    result = captured(simulated, tmp_path / "run", {OUT: capture(forth), BACK: capture(back)})
    frames = [one.frames[0] for _, one in parsed(to_qlog(result)["traces"][0]) if isinstance(one, Received)]
    assert [frame.acked_ranges for frame in frames] == [[(0, 0)], msgspec.UNSET, [(1, 5)]]


def test_larger_and_smaller_repetitions_replace_what_they_overlap(simulated: Path, tmp_path: Path) -> None:
    forth = [
        tcp(2, flags=SYN),
        *(tcp(3 + n, position=1 + n * 500, payload=500) for n in range(4)),
        tcp(20, position=1, payload=1000),
        tcp(21, position=1, payload=400),
    ]
    result = captured(simulated, tmp_path / "run", {OUT: capture(forth), BACK: capture([])})
    found = parsed(to_qlog(result)["traces"][0])
    assert [one.header.packet_number for _, one in found if isinstance(one, Lost)] == [1, 2, 5]


def test_segments_are_found_behind_extension_headers() -> None:
    at_ms, packet = tcp(1, position=5, payload=10, ipv6=True)
    one, same = segments(
        capture([(at_ms, packet), (at_ms, packet[:-10])])
    )  # the second one without its payload
    assert one == same
    assert (one.ports, one.seq, one.payload_bytes, one.len_bytes) == (PORTS, ISN + 5, 10, 40 + 8 + 20 + 10)
    assert one.t_us == START_US + 1000


@pytest.mark.parametrize("cut", [4, 40, -3])
def test_a_broken_capture_is_reported(simulated: Path, tmp_path: Path, cut: int) -> None:
    whole = capture(FORTH)
    result = captured(simulated, tmp_path / "run", {OUT: whole[:cut], BACK: capture(ACKS)})
    with pytest.raises(ResultError, match="pcapng") as caught:
        to_qlog(result)
    assert caught.value.slug == "result.broken"


def test_the_command_says_why_there_are_no_packets(simulated: Path, tmp_path: Path) -> None:
    def said(result: Path) -> str:
        written = CliRunner().invoke(app, ["qlog", str(result)])
        assert written.exit_code == 0, written.output
        return " ".join(written.output.split())

    both = {OUT: capture(FORTH), BACK: capture(ACKS)}
    assert "keeps no packets" in said(simulated)
    one = captured(simulated, tmp_path / "one", {OUT: capture(FORTH)})
    assert f"add `{BACK}` to `captures`" in said(tmp_path / "one")
    assert not any(isinstance(event, Sent) for _, event in parsed(to_qlog(one)["traces"][0]))
    event = {"kind": "set_link", "at_s": 0.5, "link": "access-s1", "fields": {"rate_bytes_per_s": 1e6}}
    captured(simulated, tmp_path / "changed", both, events=[event])
    assert "loses or queues packets" in said(tmp_path / "changed")
    older = captured(simulated, tmp_path / "older", both)
    older.metadata.pop("captures")
    assert "earlier version" in Captured(older).why_not("f")
    captured(simulated, tmp_path / "both", both)
    assert "no packets" not in said(tmp_path / "both")
