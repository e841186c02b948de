"""The formats and counters of RTP and RTCP (RFC 3550)."""

from __future__ import annotations

import json
import socket
import struct
import subprocess
import sys
import time

from experiments.traffic import rtp_ends
from experiments.traffic.rtp_ends import Receiver, is_rtcp, read_report, sender_report
from experiments.traffic.spec import Rtp

MS = 10**6


def test_a_report_has_the_loss_since_the_last_one_and_the_highest_number() -> None:
    receiver = Receiver()
    for sequence in (100, 101, 103):
        receiver.on_packet(sequence, 0, 0)
    first = receiver.report(0)
    assert read_report(first, 0) == {"fraction_lost": 256 // 4, "highest": 103, "rtt_us": None}
    assert struct.unpack_from("!I", first, 12)[0] & 0xFFFFFF == 1
    assert read_report(receiver.report(0), 0)["fraction_lost"] == 0
    receiver.on_packet(102, 0, 0)  # late: nothing is lost any more
    assert struct.unpack_from("!I", receiver.report(0), 12)[0] == 0


def test_sequence_numbers_wrap() -> None:
    receiver = Receiver()
    for sequence in (65_534, 65_535, 0, 1):
        receiver.on_packet(sequence, 0, 0)
    assert read_report(receiver.report(0), 0) == {"fraction_lost": 0, "highest": 65_537, "rtt_us": None}


def test_the_rtt_leaves_the_delay_at_the_receiver_out() -> None:
    receiver = Receiver()
    receiver.on_packet(0, 0, 0)
    sent_ns = 5 * 10**9 + 250 * MS
    report = sender_report(sent_ns, 0, 0, 0)
    receiver.sender_report = (struct.unpack_from("!I", report, 10)[0], sent_ns + 30 * MS)
    answer = receiver.report(sent_ns + 1030 * MS)
    rtt_us = read_report(answer, sent_ns + 1080 * MS)["rtt_us"]
    assert abs(rtt_us - 80_000) <= 50  # in units of 15 us


def test_jitter_is_smoothed_over_sixteen_packets() -> None:
    receiver = Receiver()
    for n, late_ms in enumerate((0, 16, 16)):
        receiver.on_packet(n, n * 1800, n * 20 * MS + late_ms * MS)
    # 16 ms are 1440 units: a sixteenth of them, less a sixteenth.
    assert struct.unpack_from("!I", receiver.report(0), 20)[0] == int(1440 / 16 * 15 / 16)


def test_compound_packets_have_whole_words_and_are_not_media() -> None:
    receiver = Receiver()
    receiver.on_packet(0, 0, 0)
    for packet, size in ((sender_report(1, 2, 3, 4), 48), (receiver.report(0), 52)):
        assert (len(packet), is_rtcp(packet)) == (size, True)
        first = 4 * (struct.unpack_from("!H", packet, 2)[0] + 1)
        assert packet[first + 1] == rtp_ends.DESCRIPTION
        assert first + 4 * (struct.unpack_from("!H", packet, first + 2)[0] + 1) == size
    assert not is_rtcp(rtp_ends.RTP.pack(0x80, 0x80 | rtp_ends.PAYLOAD_TYPE, 1, 2, 3))


def test_a_frame_is_split_into_packets_of_nearly_equal_size() -> None:
    assert Rtp().packets_bytes == [160]
    assert Rtp(frame_bytes=1200).packets_bytes == [1200]
    assert Rtp(frame_bytes=1201).packets_bytes == [600, 601]
    assert sum(Rtp(frame_bytes=10_000).packets_bytes) == 10_000


def test_reports_come_as_often_as_the_rate_allows() -> None:
    assert Rtp().reports_every_s == 360 / 80  # 64 kbit/s and headers
    assert Rtp(frame_bytes=12).reports_every_s == 5.0
    assert Rtp(report_s=0.5).reports_every_s == 0.5


def test_media_passes_between_the_programs() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    order = {
        "family": "ipv4",
        "address": "127.0.0.1",
        "port": port,
        "own_port": 0,
        "fps": 100.0,
        "frame": [600, 601],
        "report_ns": 100 * MS,
        "drain_ns": 50 * MS,
    }

    def start(part: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-I", "-S", rtp_ends.__file__, part, json.dumps(order)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    with start("sink") as sink:
        assert sink.stdout is not None
        assert sink.stdout.readline() == "open\n"
        order["end_s"] = time.monotonic() + 1.0
        with start("source") as source:
            sent = json.loads(source.communicate(timeout=30)[0])
        sink.terminate()
        arrived = json.loads(sink.communicate(timeout=30)[0])["arrived"]
    assert sent["complete"]
    assert 20 <= len(sent["sent"]) <= 200
    assert [number for number, _ in arrived] == list(range(len(sent["sent"])))
    delays_ns = [at_ns - sent["sent"][number][1] for number, at_ns in arrived]
    assert min(delays_ns) >= -50_000  # the wall clock and the monotonic one are read one after the other
    assert max(delays_ns) < 10**9
    assert sent["reports"]
    assert all(one["fraction_lost"] == 0 for one in sent["reports"])
    assert sent["reports"][-1]["rtt_us"] is not None
