from __future__ import annotations

import select
import socket
import threading
from collections.abc import Iterator
from functools import partialmethod
from types import SimpleNamespace
from typing import Any

import pytest
from paho.mqtt import client as paho

from broker.client import MAX_DECISIONS, BusClient
from broker.errors import BusError
from broker.messages import Outgoing
from broker.options import BusOptions


@pytest.fixture
def nobody() -> Iterator[BusOptions]:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
        yield BusOptions(port=port, backoff_min_s=0.01, backoff_max_s=0.02, queue_samples=3)


def test_a_full_queue_drops_the_oldest_samples_and_no_decision(nobody: BusOptions) -> None:
    client = BusClient(nobody)
    for number in range(10):
        client.publish(Outgoing("s", b"%d" % number))
        client.publish(Outgoing("d", b"%d" % number, qos=1, decision=True))
    assert client.queued == 13
    assert client.counters.samples_dropped == 7
    assert [message.payload for message in client._samples.clear()] == [b"7", b"8", b"9"]
    assert [message.payload for message in client._decisions.clear()] == [b"%d" % n for n in range(10)]


def test_an_hour_without_a_broker_costs_no_memory(nobody: BusOptions) -> None:
    """Decisions on 100 paths per second, and parameter changes, for an hour."""
    client = BusClient(nobody)
    for second in range(3600):
        for path in range(100):
            client.publish(Outgoing(f"regime/{path}", b"%d" % second, qos=1, retain=True, decision=True))
        for _ in range(4):
            client.publish(Outgoing("param", b"%d" % second, qos=1, decision=True))
    assert client.queued == MAX_DECISIONS
    assert client.counters.decisions_replaced == 3599 * 100
    assert client.counters.decisions_dropped == 4 * 3600 + 100 - MAX_DECISIONS
    waiting = client._decisions.clear()
    last = {message.topic: message.payload for message in waiting}
    assert len(last) == 101
    assert set(last.values()) == {b"3599"}


def test_it_tries_again_until_it_is_stopped(nobody: BusOptions) -> None:
    now_s = 100.0
    client = BusClient(nobody, clock=lambda: now_s)
    assert client.away_s == 0
    client.start()
    with pytest.raises(BusError) as caught:
        client.wait_connected(0.2)
    now_s = 107.0
    assert client.away_s == 7.0
    client.stop(Outgoing("last", b"", decision=True))
    assert client.counters.failures > 1
    assert not client.connected
    assert caught.value.slug == "bus.not_connected"
    assert "refused" in caught.value.why


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"", "closed the connection without an answer"),
        (b"\x20\x02\x00\x01", "Unsupported protocol version"),  # of MQTT 3.1.1
        (b"\x20\x03\x00\x84\x00", "Unsupported protocol version"),
    ],
)
def test_brokers_that_do_not_speak_mqtt_5_are_named_as_a_cause(answer: bytes, why: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(1000)
                    connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        client = BusClient(BusOptions(port=server.getsockname()[1], backoff_min_s=0.01, backoff_max_s=0.02))
        client.start()
        with pytest.raises(BusError) as caught:
            client.wait_connected(0.5)
        client.stop()
        server.shutdown(socket.SHUT_RDWR)
    thread.join()
    assert why in caught.value.why
    assert "MQTT 5" in caught.value.why


def test_stopping_what_never_started_is_no_error(nobody: BusOptions) -> None:
    client = BusClient(nobody)
    client.stop()
    assert not client.flush(0)
    assert not client.ready


CONNACK = b"\x20\x03\x00\x00\x00"


def test_message_of_another_thread_wakes_the_network_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise it would wait for the next poll of the network thread: here an hour."""
    idle = threading.Event()

    def watched(read: Any, write: Any, *others: Any) -> Any:
        if client.connected and not write:
            idle.set()  # waiting ends here: later messages do not count
        return select.select(read, write, *others)

    monkeypatch.setattr(paho, "select", SimpleNamespace(select=watched))
    monkeypatch.setattr(paho.Client, "loop_forever", partialmethod(paho.Client.loop_forever, timeout=3600.0))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(30)
        client = BusClient(BusOptions(port=listener.getsockname()[1], keepalive_s=3600))
        client.start()
        broker, _ = listener.accept()
        with broker:
            broker.settimeout(30)
            assert broker.recv(1000)[:1] == b"\x10", "CONNECT"
            broker.sendall(CONNACK)
            assert idle.wait(30)
            client.publish(Outgoing("topic", b"at once"))
            assert b"at once" in broker.recv(1000)
            client.stop(timeout_s=30)
            assert broker.recv(1000)[:1] == b"\xe0", "DISCONNECT"
