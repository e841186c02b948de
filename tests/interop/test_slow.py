"""Memory of an embedded broker is bounded: a subscriber that stops reading, retained messages without end."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.embedded import EmbeddedBroker
from tests.interop.brokers import PATIENCE_S

TOPICS = 1000
ROUNDS = 1000
PAYLOAD_BYTES = 200
SLOW_KIB = 32 * 1024
"""More than the 10,000 messages that may wait for a subscriber take."""
LIMIT_KIB = 300 * 1024
"""`memory_limit` in broker/mosquitto/mosquitto.conf, and the program itself."""


def packet(control: int, body: bytes) -> bytes:
    coded, length = [], len(body)
    while length >= 128:
        coded.append(length % 128 | 128)
        length //= 128
    return bytes([control, *coded, length]) + body


def text(value: str) -> bytes:
    return struct.pack("!H", len(value)) + value.encode()


def connect(port: int, name: str) -> socket.socket:
    """Return a connection whose CONNACK was read; nothing more is read of it by itself."""
    stream = socket.create_connection(("127.0.0.1", port))
    stream.settimeout(PATIENCE_S)
    stream.sendall(packet(0x10, text("MQTT") + bytes([5, 2]) + struct.pack("!H", 0) + b"\x00" + text(name)))
    assert next(packets(stream))[0] == 0x20
    return stream


def packets(stream: socket.socket) -> Iterator[tuple[int, bytes]]:
    """Read packets, for as long as there are some."""
    with stream.makefile("rb") as file:
        while True:
            control = file.read(1)
            if not control:
                return
            length = shift = 0
            while True:
                (byte,) = file.read(1)
                length |= (byte & 127) << shift
                shift += 7
                if byte < 128:
                    break
            yield control[0], file.read(length)


def resident_kib(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))


def messages(number: int) -> bytes:
    """Return one message for each topic."""
    payload = struct.pack("!I", number).ljust(PAYLOAD_BYTES, b".")
    return b"".join(packet(0x30, text(f"t/{topic}") + b"\x00" + payload) for topic in range(TOPICS))


def ping(stream: socket.socket) -> None:
    """Wait until the broker has read all that was sent to it."""
    stream.sendall(packet(0xC0, b""))
    assert next(packets(stream))[0] == 0xD0


def test_memory_is_bounded_when_a_subscriber_does_not_read() -> None:
    with EmbeddedBroker() as broker:
        slow = connect(broker.options.port, "slow")
        slow.sendall(packet(0x82, b"\x00\x01\x00" + text("t/#") + b"\x00"))
        assert next(packets(slow))[0] == 0x90
        fast = connect(broker.options.port, "fast")
        assert broker.pid is not None
        before_kib = resident_kib(broker.pid)
        most_kib = 0
        for number in range(ROUNDS):
            fast.sendall(messages(number))
            if number % 50 == 0:
                most_kib = max(most_kib, resident_kib(broker.pid))
        ping(fast)
        assert max(most_kib, resident_kib(broker.pid)) - before_kib < SLOW_KIB

        # The oldest were kept, in order; once the subscriber reads again, it gets the newest.
        last: dict[str, int] = {}
        fast.sendall(packet(0x30, text("t/0") + b"\x00" + struct.pack("!I", ROUNDS)))
        came = 0
        for control, body in packets(slow):
            if control & 0xF0 != 0x30:
                continue
            came += 1
            (length,) = struct.unpack_from("!H", body)
            topic = body[2 : 2 + length].decode()
            (number,) = struct.unpack_from("!I", body, 3 + length)
            assert last.get(topic, -1) < number
            last[topic] = number
            if number >= ROUNDS:
                break
            if came % 1000 == 0:
                fast.sendall(packet(0x30, text("t/0") + b"\x00" + struct.pack("!I", ROUNDS + came)))
        assert TOPICS < came < TOPICS * ROUNDS / 2
        slow.close()
        fast.close()


def test_retained_messages_without_end_cost_their_publisher_only() -> None:
    with EmbeddedBroker() as broker:
        assert broker.pid is not None
        greedy = connect(broker.options.port, "greedy")
        with pytest.raises(OSError, match=r"reset|Broken pipe"):  # noqa: PT012
            for number in range(4 * LIMIT_KIB // 100):
                greedy.sendall(packet(0x31, text(f"r/{number}") + b"\x00" + b"." * 100_000))
        assert resident_kib(broker.pid) < LIMIT_KIB
        other = connect(broker.options.port, "other")
        ping(other)
        assert broker.restarts == 0
        other.close()
        greedy.close()
