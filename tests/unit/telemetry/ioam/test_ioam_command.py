from __future__ import annotations

import json
import signal
import socket
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from telemetry.ioam import CaptureReader, Node, OtherState, TcpState, Trace, TraceField, fill, insert
from telemetry.ioam.commands import app
from telemetry.ioam.show import time as as_text
from tests.unit.telemetry.ioam.packets import ECHO, EDGE, OPTIONS, TRACE, udp, write_pcap


def decode(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["decode", *map(str, arguments)])


def malformed() -> bytes:
    wrong = bytearray(insert(udp(), [TRACE]))
    wrong[50] ^= 0x08
    return bytes(wrong)


def test_people_read_a_line_an_option_and_a_node(tmp_path: Path) -> None:
    other = Trace(trace_type=TraceField.SNAPSHOT | TraceField.QUEUE_DEPTH, remaining_words=4)
    foreign = fill(
        insert(udp(), [other]), Node(queue_depth=1514, snapshot=OtherState(schema_id=5, data="0badcafe"))
    )
    overflowed = fill(foreign.packet, Node())
    packets = [udp(), insert(udp(), OPTIONS), malformed(), overflowed.packet]
    result = decode(write_pcap(tmp_path / "a.pcap", packets))
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "packet 2  1970-01-01T00:00:02.000005000Z  udp [fd00::1]:4000 > [fd00::2]:4001",
        "  hop-by-hop at 44: trace, namespace 0, type 0xb00002, room for 12 words",
        "    node 1: hop limit 63, node id 7, 2023-11-14T22:13:20.000025000Z, queue free 80 packets, "
        "arrival 8333 packets/s, flow count 2, link rate 2500000 bytes/s, flow missing 5 packets, "
        "flow dropped 2 packets, rssi -61.5 dBm",
        "  destination at 164: edge to edge, namespace 0: sequence 9, timestamp 1700000000 s",
        "  destination at 180: sender's TCP: cwnd 14480 bytes, mss 1448 bytes",
        "packet 3  1970-01-01T00:00:03.000005000Z  udp [fd00::1]:4000 > [fd00::2]:4001",
        "  malformed: ioam.bad_value: invalid value at NodeLen, byte 50 of the packet (it is 2, and "
        "fields of trace type 0xb00002 have 3 words)",
        "packet 4  1970-01-01T00:00:04.000005000Z  udp [fd00::1]:4000 > [fd00::2]:4001",
        "  hop-by-hop at 44: trace, namespace 0, type 0x020002, overflow, room for 1 words",
        "    node 1: queue depth 1514, schema 0x5: 0badcafe",
    ]
    assert result.stderr == "4 packets, 4 are IPv6, 2 with telemetry, 1 malformed\n"


def test_programs_read_an_object_a_packet(tmp_path: Path) -> None:
    result = decode(write_pcap(tmp_path / "a.pcap", [insert(udp(), OPTIONS), malformed()]), "--json")
    assert result.exit_code == 0
    good, bad = map(json.loads, result.stdout.splitlines())
    assert good["packet"] == 1
    assert good["time_ns"] == 1_000_005_000
    assert good["flow"] == {
        "src": "fd00::1",
        "dst": "fd00::2",
        "protocol": 17,
        "src_port": 4000,
        "dst_port": 4001,
    }
    trace, edge, tcp_state = (placed["option"] for placed in good["options"])
    assert trace["nodes"][0]["snapshot"]["queue_free_pkts"] == 80
    assert trace["nodes"][0]["queue_depth"] is None
    assert (edge["sequence"], edge["timestamp_fraction"]) == (9, None)
    assert tcp_state == {
        "kind": "tcp_state",
        "cwnd_bytes": 14_480,
        "mss_bytes": 1448,
        "wants_echo": False,
        "first_sequence": None,
    }
    assert bad["options"] == []
    assert bad["errors"][0]["where"] == "NodeLen, byte 50 of the packet"


def test_echoes_are_read_by_people_too(tmp_path: Path) -> None:
    result = decode(write_pcap(tmp_path / "a.pcap", [insert(udp(), [TcpState(wants_echo=True), ECHO])]))
    assert result.stdout.splitlines()[1:] == [
        "  destination at 44: sender's TCP: not traced, wants echoes",
        "  destination at 56: path echo: hops 3, hop 2, node id 7, queue 12 packets, free 88 packets, "
        "link rate 12500000 bytes/s, losses congestion 5, losses link 6, losses unknown 0, all known, "
        "sent 2023-11-14T22:13:20.000009000Z",
    ]


def test_the_dissector_is_where_the_command_says() -> None:
    result = CliRunner().invoke(app, ["dissector"])
    assert Path(result.stdout.strip()).read_text().startswith("-- Wireshark")


def test_the_domain_says_what_its_timestamps_are(tmp_path: Path) -> None:
    path = write_pcap(tmp_path / "a.pcap", [insert(udp(), OPTIONS)])
    assert "1953-11-14T22:13:20.000000005Z" in decode(path, "--timestamps", "ntp").stdout
    assert "2023-11-14T22:13:20.000000025Z" in decode(path, "--timestamps", "ptp").stdout
    refused = decode(path, "--timestamps", "swatch")
    assert refused.exit_code == 1
    assert refused.stderr.partition(":")[0] == "ioam.bad_option"
    assert "no timestamp format `swatch`" in refused.stderr


def test_a_file_that_was_cut_off_fails_after_what_could_be_read(tmp_path: Path) -> None:
    path = write_pcap(tmp_path / "a.pcap", [insert(udp(), [EDGE])] * 2, cut_bytes=1)
    result = decode(path)
    assert result.exit_code == 1
    assert "packet 1 " in result.stdout
    assert "ioam.broken_file: cannot read the capture to its end" in result.stderr
    assert f"{path}, after packet 1" in result.stderr


def test_what_is_no_capture_is_refused(tmp_path: Path) -> None:
    result = decode(tmp_path / "none.pcap")
    assert result.exit_code == 1
    assert result.stderr.startswith("ioam.cannot_read: cannot read a capture\n")
    assert "Traceback" not in result.output


COMMAND = [sys.executable, "-c", "from telemetry.ioam.commands import app; app()", "decode"]


@pytest.mark.parametrize("path", ["-", "/dev/stdin"])
def test_captures_come_through_pipes(path: str, tmp_path: Path) -> None:
    content = write_pcap(tmp_path / "a.pcap", [insert(udp(), OPTIONS)] * 300).read_bytes()
    done = subprocess.run([*COMMAND, path, "--json"], input=content, capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 300
    assert done.stderr == b"300 packets, 300 are IPv6, 300 with telemetry, 0 malformed\n"


def test_packets_of_a_live_capture_are_printed_as_they_come(tmp_path: Path) -> None:
    """Standard input is a socket, as of programs that inetd or a remote shell starts."""
    content = write_pcap(tmp_path / "a.pcap", [insert(udp(), OPTIONS)] * 2).read_bytes()
    near, far = socket.socketpair()
    with (
        near,
        subprocess.Popen([*COMMAND, "-", "--json"], stdin=far, stdout=-1, stderr=-1) as process,
    ):
        far.close()
        assert process.stdout is not None
        assert process.stderr is not None
        near.sendall(content)
        numbers = [json.loads(process.stdout.readline())["packet"] for _ in range(2)]
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
        summary = process.stderr.read()
    assert numbers == [1, 2]
    assert summary == b"2 packets, 2 are IPv6, 2 with telemetry, 0 malformed\n"


def test_malformed_blocks_of_a_file_are_reported(tmp_path: Path) -> None:
    def block(kind: int, body: bytes) -> bytes:
        body += bytes(-len(body) % 4)
        length = struct.pack("<I", len(body) + 12)
        return struct.pack("<I", kind) + length + body + length

    data = insert(udp(), OPTIONS)
    section = block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1)) + block(
        1, struct.pack("<HHI", 101, 0, 0)
    )
    good = block(6, struct.pack("<IIIII", 0, 0, 5, len(data), len(data)) + data)
    bad = block(6, struct.pack("<IIIII", 3, 0, 5, len(data), len(data)) + data)
    path = tmp_path / "a.pcapng"
    path.write_bytes(section + good + bad + block(0xBAD, b"custom") + bad + good)
    result = decode(path)
    assert result.exit_code == 1
    assert result.stdout.count("packet ") == 2
    counts = (
        "2 packets, 2 are IPv6, 2 with telemetry, 0 malformed, 1 blocks without packets, 2 malformed blocks"
    )
    assert result.stderr.startswith(counts)
    reader = CaptureReader(path)
    assert len(list(reader)) == 2
    problem = reader.summary().malformed_block
    assert problem is not None
    assert problem.slug == "ioam.bad_block"
    assert "ioam.bad_block: a block of the capture is malformed" in result.stderr
    assert f"{path}, after packet 1" in result.stderr


@pytest.mark.parametrize("arguments", [["--help"], ["decode", "--help"]])
def test_help_says_what_it_does(arguments: list[str]) -> None:
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0
    assert "captured packets" in result.output or "telemetry in a capture" in result.output


def test_times_beyond_the_calendar_are_numbers() -> None:
    assert as_text(2**64 - 1) == "2554-07-21T23:34:33.709551615Z"
    assert as_text(10**21) == f"{10**21} ns"
