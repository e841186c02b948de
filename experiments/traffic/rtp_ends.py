"""The two programs of media over RTP (RFC 3550): a source of paced frames, and a sink that reports.

Both programs are run by path, on the hosts, with the Python of this process, and import only the standard
library. RTP and RTCP share a port (RFC 5761). Packets carry their number and the time of sending; both ends
have the same clock. The programs print their results as JSON, at the end of the media or on SIGTERM.
"""

from __future__ import annotations

import contextlib
import json
import select
import signal
import socket
import struct
import sys
import time
from collections.abc import Iterator
from types import FrameType
from typing import Any, NoReturn

SSRC = 0x63637031
PAYLOAD_TYPE = 96  # the first dynamic one (RFC 3551, section 6)
CLOCK_HZ = 90_000
SENDER_REPORT, RECEIVER_REPORT, DESCRIPTION = 200, 201, 202
RTP = struct.Struct("!BBHII")
MARK = struct.Struct("!IQ")
"""Start of the payload: number of the packet, and time of sending [ns, monotonic]."""

BUFFER_BYTES = 1 << 22
_MAX_BYTES = 65535
_NTP_EPOCH_S = 2_208_988_800  # 1900 to 1970
_TIMESTAMPNS = 35  # SO_TIMESTAMPNS in <asm-generic/socket.h>
_TIMESPEC = struct.Struct("qq")
_FAMILIES = {"ipv4": socket.AF_INET, "ipv6": socket.AF_INET6}


class _Ended(Exception):  # noqa: N818 - not an error
    """SIGTERM was received."""


def description(ssrc: int) -> bytes:
    """Return the source description that every compound packet has (section 6.5)."""
    items = struct.pack("!IBB", ssrc, 1, 7) + b"ccplane" + b"\0\0\0"
    return struct.pack("!BBH", 0x81, DESCRIPTION, len(items) // 4) + items


def ntp(now_ns: int) -> int:
    """Return a time as 64 bits of NTP."""
    return ((now_ns // 10**9 + _NTP_EPOCH_S) << 32) | (now_ns % 10**9 << 32) // 10**9


def sender_report(now_ns: int, media_time: int, packets: int, octets: int) -> bytes:
    """Return a sender report without blocks (section 6.4.1)."""
    counts = (media_time & 0xFFFFFFFF, packets & 0xFFFFFFFF, octets & 0xFFFFFFFF)
    body = struct.pack("!BBHIQIII", 0x80, SENDER_REPORT, 6, SSRC, ntp(now_ns), *counts)
    return body + description(SSRC)


class Receiver:
    """What a receiver knows of the sender (sections 6.4.1 and A.3, A.8)."""

    def __init__(self) -> None:
        self.base = self.highest = -1
        self.received = 0
        self._before = (0, 0)
        self._transit: int | None = None
        self._jitter = 0.0
        self.sender_report: tuple[int, int] | None = None
        """Middle 32 bits of its NTP time, and its arrival [ns]."""

    def on_packet(self, sequence: int, media_time: int, now_ns: int) -> None:
        """Count a packet, and measure the jitter."""
        if self.highest < 0:
            self.base = self.highest = sequence
        ahead = (sequence - self.highest + 0x8000) % 0x10000 - 0x8000
        self.highest += max(0, ahead)
        self.received += 1
        transit = now_ns * CLOCK_HZ // 10**9 - media_time
        if self._transit is not None:
            self._jitter += (abs(transit - self._transit) - self._jitter) / 16
        self._transit = transit

    def report(self, now_ns: int) -> bytes:
        """Return a receiver report with one block (section 6.4.2)."""
        expected = self.highest - self.base + 1
        newly = expected - self._before[0]
        lost = newly - (self.received - self._before[1])
        self._before = (expected, self.received)
        fraction = min(255, (max(0, lost) << 8) // newly) if newly else 0
        total = max(-(1 << 23), min(expected - self.received, (1 << 23) - 1)) & 0xFFFFFF
        last, delay = 0, 0
        if self.sender_report is not None:
            last = self.sender_report[0]
            delay = (now_ns - self.sender_report[1]) * 65536 // 10**9
        block = (fraction << 24 | total, self.highest & 0xFFFFFFFF, int(self._jitter), last, delay)
        body = struct.pack("!BBHIIIIIII", 0x81, RECEIVER_REPORT, 7, SSRC + 1, SSRC, *block)
        return body + description(SSRC + 1)


def is_rtcp(packet: bytes) -> bool:
    """Return whether a packet is RTCP (RFC 5761, section 4)."""
    return 64 <= packet[1] & 0x7F <= 95


def read_report(packet: bytes, now_ns: int) -> dict[str, Any]:
    """Return what a receiver report says, with the RTT by its echo of the sender's (section 6.4.1)."""
    _, _, _, _, _, lost, highest, _, last, delay = struct.unpack_from("!BBHIIIIIII", packet)
    rtt_us = None
    if last:
        now = ntp(now_ns) >> 16 & 0xFFFFFFFF
        rtt_us = ((now - last - delay) & 0xFFFFFFFF) * 10**6 // 65536
    return {"fraction_lost": lost >> 24, "highest": highest, "rtt_us": rtt_us}


def source(order: dict[str, Any]) -> None:
    """Send frames until `end_s` [s, monotonic]; collect the reports."""
    signal.signal(signal.SIGTERM, _end)
    sent: list[tuple[int, int, int]] = []
    reports: list[dict[str, Any]] = []
    complete = False
    with socket.socket(_FAMILIES[order["family"]], socket.SOCK_DGRAM) as sock:
        sock.bind(("", order["own_port"]))
        sock.connect((order["address"], order["port"]))
        start_ns = time.monotonic_ns()
        with contextlib.suppress(_Ended):
            for frame, due_ns in _due(order, start_ns):
                _receive(sock, due_ns, reports)
                if frame is None:
                    media_time = (time.monotonic_ns() - start_ns) * CLOCK_HZ // 10**9
                    octets = sum(one[2] for one in sent)
                    _send(sock, sender_report(time.monotonic_ns(), media_time, len(sent), octets))
                else:
                    _send_frame(sock, order["frame"], frame, round(frame * CLOCK_HZ / order["fps"]), sent)
            complete = True
            _receive(sock, time.monotonic_ns() + order["drain_ns"], reports)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print(json.dumps({"complete": complete, "start_ns": start_ns, "sent": sent, "reports": reports}))


def _due(order: dict[str, Any], start_ns: int) -> Iterator[tuple[int | None, int]]:
    """Yield frames, and None for reports, each with its time [ns, monotonic]."""
    frame, report_ns = 0, start_ns
    end_ns = round(order["end_s"] * 1e9)
    while True:
        frame_ns = start_ns + round(frame * 1e9 / order["fps"])
        if min(frame_ns, report_ns) >= end_ns:
            return
        if report_ns <= frame_ns:
            yield None, report_ns
            report_ns += order["report_ns"]
        else:
            yield frame, frame_ns
            frame += 1


def _send_frame(
    sock: socket.socket, sizes: list[int], frame: int, media_time: int, sent: list[tuple[int, int, int]]
) -> None:
    for n, size in enumerate(sizes, 1):
        number, now_ns = len(sent), time.monotonic_ns()
        marker = 0x80 if n == len(sizes) else 0  # the end of a frame
        header = RTP.pack(0x80, marker | PAYLOAD_TYPE, number & 0xFFFF, media_time & 0xFFFFFFFF, SSRC)
        sent.append((frame, now_ns, size))
        _send(sock, header + MARK.pack(number, now_ns) + bytes(size - MARK.size))


def _send(sock: socket.socket, packet: bytes) -> None:
    with contextlib.suppress(ConnectionRefusedError, BlockingIOError):  # the sink is gone: lost
        sock.send(packet)


def _receive(sock: socket.socket, until_ns: int, reports: list[dict[str, Any]]) -> None:
    """Collect reports until a time."""
    while (left_ns := until_ns - time.monotonic_ns()) > 0:
        if not select.select([sock], [], [], left_ns / 1e9)[0]:
            return
        with contextlib.suppress(ConnectionRefusedError):
            packet = sock.recv(_MAX_BYTES)
            now_ns = time.monotonic_ns()
            if len(packet) >= 32 and packet[1] == RECEIVER_REPORT:
                reports.append({"arrived_us": now_ns // 1000, **read_report(packet, now_ns)})


def sink(order: dict[str, Any]) -> None:
    """Receive packets until SIGTERM, and report on them; print a line when the port is open."""
    receiver = Receiver()
    arrived: dict[int, int] = {}
    with socket.socket(_FAMILIES[order["family"]], socket.SOCK_DGRAM) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
        sock.setsockopt(socket.SOL_SOCKET, _TIMESTAMPNS, 1)
        sock.bind((order["address"], order["port"]))
        signal.signal(signal.SIGTERM, _end)
        print("open", flush=True)
        report_ns: int | None = None
        peer: Any = None
        with contextlib.suppress(_Ended):
            while True:
                wait_s = None if report_ns is None else max(0.0, (report_ns - time.monotonic_ns()) / 1e9)
                if select.select([sock], [], [], wait_s)[0]:
                    packet, ancillary, _, peer = sock.recvmsg(_MAX_BYTES, 64)
                    now_ns = _arrival_ns(ancillary)
                    if is_rtcp(packet):
                        if packet[1] == SENDER_REPORT:
                            middle = struct.unpack_from("!I", packet, 10)[0]
                            receiver.sender_report = (middle, now_ns)
                        continue
                    _, _, sequence, media_time, _ = RTP.unpack_from(packet)
                    number, _ = MARK.unpack_from(packet, RTP.size)
                    if number not in arrived:
                        arrived[number] = now_ns
                        receiver.on_packet(sequence, media_time, now_ns)
                    if report_ns is None:
                        report_ns = now_ns + order["report_ns"]
                if report_ns is not None and report_ns <= time.monotonic_ns():
                    report_ns += order["report_ns"]
                    _report(sock, receiver, peer)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print(json.dumps({"arrived": list(arrived.items())}))


def _report(sock: socket.socket, receiver: Receiver, peer: Any) -> None:
    with contextlib.suppress(ConnectionRefusedError, BlockingIOError):  # the source is gone
        sock.sendto(receiver.report(time.monotonic_ns()), peer)


def _arrival_ns(ancillary: list[tuple[int, int, bytes]]) -> int:
    """Return when the kernel received a packet [ns, monotonic]: it states the wall-clock time."""
    now_ns, wall_ns = time.monotonic_ns(), time.time_ns()
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == _TIMESTAMPNS:
            seconds: int
            rest_ns: int
            seconds, rest_ns = _TIMESPEC.unpack_from(data)
            return now_ns - max(0, wall_ns - (seconds * 10**9 + rest_ns))
    return now_ns


def _end(_number: int, _frame: FrameType | None) -> NoReturn:
    raise _Ended


if __name__ == "__main__":
    {"source": source, "sink": sink}[sys.argv[1]](json.loads(sys.argv[2]))
