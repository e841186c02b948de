"""A subscriber that stops reading: what waits for it is bounded, the last of each topic stays."""

from __future__ import annotations

import socket
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import paho.mqtt.client as mqtt

from broker.embedded import EmbeddedBroker
from tests.interop.brokers import PATIENCE_S, wait_until
from tests.interop.test_brokers import raw_client

TOPICS = 1000
ROUNDS = 1000
PAYLOAD_BYTES = 200
BOUND_KIB = 32 * 1024
"""For 8 MiB that wait and what the allocator keeps besides."""


def packet(control: int, body: bytes) -> bytes:
    """Return a packet of less than 16 KiB."""
    length = len(body)
    assert length < 16384
    coded = bytes([length]) if length < 128 else bytes([length % 128 | 128, length // 128])
    return bytes([control]) + coded + body


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


def test_memory_is_bounded_and_the_last_stays_when_a_subscriber_does_not_read() -> None:
    with EmbeddedBroker() as broker:
        slow = connect(broker.options.port, "slow")
        slow.sendall(packet(0x82, b"\x00\x01\x00" + text("t/#") + b"\x00"))
        fast = connect(broker.options.port, "fast")
        counted: dict[str, int] = {}

        def count(_client: mqtt.Client, _data: object, message: mqtt.MQTTMessage) -> None:
            counted[message.topic.rpartition("/")[2]] = int(message.payload)

        watch = raw_client(broker.options)
        watch.on_message = count
        watch.subscribe("$SYS/broker/#")
        assert broker.pid is not None
        before_kib = resident_kib(broker.pid)
        most_kib = 0
        for number in range(ROUNDS):
            fast.sendall(messages(number))
            if number % 50 == 0:
                most_kib = max(most_kib, resident_kib(broker.pid))
        fast.sendall(packet(0xC0, b""))
        assert next(packets(fast))[0] == 0xD0  # it has read all
        most_kib = max(most_kib, resident_kib(broker.pid))
        print(f"{before_kib} KiB before, {most_kib} KiB at most")
        assert most_kib - before_kib < BOUND_KIB

        wait_until(lambda: counted.get("received", 0) >= TOPICS * ROUNDS, "the counters")
        last: dict[str, int] = {}
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
            if len(last) == TOPICS and set(last.values()) == {ROUNDS - 1}:
                break
        print(f"{came} of {TOPICS * ROUNDS} came, {counted['dropped']} were dropped")
        assert came + counted["dropped"] == TOPICS * ROUNDS
        assert counted["dropped"] > TOPICS * ROUNDS / 2
        # Nothing of it disturbed the others.
        heard = subprocess.run(
            [
                "mosquitto_sub", "-V", "5", "-p", str(broker.options.port), "-C", "1", "-W", "20",
                "-t", "$SYS/broker/clients/connected",
            ],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert int(heard.stdout) >= 3
        watch.disconnect()
        watch.loop_stop()
        slow.close()
        fast.close()


def test_a_client_that_reads_no_answers_is_not_read_from_any_more() -> None:
    with EmbeddedBroker() as broker:
        greedy = connect(broker.options.port, "greedy")
        greedy.settimeout(1.0)
        pings = packet(0xC0, b"") * 10_000
        sent = 0
        try:
            while sent < 1 << 30:
                sent += greedy.send(pings)
        except TimeoutError:
            pass
        assert broker.pid is not None
        assert sent < 1 << 28  # buffers of the kernel, at both ends
        assert resident_kib(broker.pid) < 100 * 1024
        greedy.close()
        other = connect(broker.options.port, "other")
        other.close()
