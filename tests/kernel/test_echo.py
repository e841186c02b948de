"""Echoes of the path in ACKs, over real interfaces: source, transit with a queue, sink."""

from __future__ import annotations

import contextlib
import ipaddress
import re
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator

import msgspec
import pytest

from telemetry.inband import device
from telemetry.ioam import EdgeToEdge, Node, PathEcho, State, Trace, build, decode
from tests.kernel.driving import wait_until
from tests.kernel.echoes import (
    DSTOPTS,
    ECHO_BYTES,
    TCP,
    Chain,
    chained,
    echoes_in,
    newest_of,
    reported,
    transfer,
    untraced,
)
from tests.kernel.inband_hosts import captured, drained, packet_by_packet, shaped

pytestmark = [pytest.mark.kernel(struct_ops=False), pytest.mark.usefixtures("one_processor")]

PORT, UDP = 5000, 17
IPPROTO_IPV6, IPV6_DSTOPTS = 41, 59
ENOUGH_UNTRACED, MAX_TRANSFERS = 10, 30
PURGERS = 6
PURGING = """
import socket, time
SO_RCVBUFFORCE, ALL_PROTOCOLS = 33, 3
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
    sender.connect(("127.0.0.1", 9))
    while True:
        unread = [socket.socket(socket.AF_PACKET, socket.SOCK_RAW) for _ in range(16)]
        for one in unread:
            one.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 100_000_000)
            one.bind(("lo", ALL_PROTOCOLS))
        for _ in range(1000):
            try:
                sender.send(b"x")
            except ConnectionRefusedError:
                pass
        for one in unread:
            one.close()
"""
"""Closing a packet socket drops what nobody has read, and not in a softirq."""


@pytest.fixture(scope="module")
def chain() -> Iterator[Chain]:
    with chained() as chain:
        yield chain


def carried(data: list[bytes]) -> dict[tuple[int, int], list[tuple[Node, ...]]]:
    """When packets left -> what nodes wrote into them."""
    by_time: dict[tuple[int, int], list[tuple[Node, ...]]] = {}
    for packet in data:
        if packet[6] == 0:
            options = [placed.option for placed in decode(packet).options]
            (trace,) = (one for one in options if isinstance(one, Trace))
            (edge,) = (one for one in options if isinstance(one, EdgeToEdge))
            by_time.setdefault((edge.timestamp_s or 0, edge.timestamp_fraction or 0), []).append(trace.nodes)
    return by_time


def of_bottleneck(nodes: tuple[Node, ...]) -> PathEcho:
    """What an echo has to say of such a path, where not all rates are known."""
    hop, node = max(enumerate(nodes, 1), key=lambda one: (one[1].queue_depth or 0, -one[0]))
    said = node.snapshot
    assert isinstance(said, State)
    return PathEcho(
        hops=len(nodes),
        all_known=True,
        hop=hop,
        node_id=node.node_id,
        queue_pkts=node.queue_depth,
        free_pkts=said.queue_free_pkts,
        arrival_pkts_per_s=said.arrival_pkts_per_s,
        link_rate_bytes_per_s=said.link_rate_bytes_per_s,
        flow_count=said.flow_count,
    )


def test_acks_bring_the_sender_what_its_packets_found(chain: Chain) -> None:
    with (
        shaped(chain.transit, 1.25e6, 30_000) as shaper,
        captured(chain.source) as near,
        captured(chain.sink) as far,
        chain.nodes() as running,
        chain.connected() as (client, server),
    ):
        transfer(client, server, 600_000)
        wait_until(lambda: running.sink.counters().reflected == running.source.counters().received)
        counters = running.source.counters(), running.sink.counters()
        last = reported(client)
        acks, data = drained(near, chain.sink), drained(far, chain.source)
        assert shaper.stats().dropped_pkts
    echoes, packets = echoes_in(acks), carried(data)
    assert len(echoes) == counters[0].received == counters[0].removed == counters[1].reflected > 50
    assert {echo.hop for echo in echoes} == {1, 2}  # where nothing waits, it is the first
    assert max(echo.queue_pkts or 0 for echo in echoes) > 10
    for echo in echoes:
        expected = [of_bottleneck(nodes) for nodes in packets[echo.sent_s, echo.sent_us]]
        assert without_losses_and_time(echo) in [without_losses_and_time(one) for one in expected]
    assert last is not None
    assert 50 < last.echoes <= len(echoes)  # without those that were overtaken
    newest = newest_of(echoes)
    assert (last.hop, last.node_id, last.queue_pkts) == (newest.hop, newest.node_id, newest.queue_pkts)
    assert any(has_sack(packet) for packet in acks if packet[6] == DSTOPTS)


def test_true_echoes_are_all_believed_under_load(chain: Chain) -> None:
    """Both ends send, packets are lost, windows are closed at times, and the connection ends under load."""
    with (
        shaped(chain.transit, 12.5e6, 60_000),
        packet_by_packet(chain.source, "eth0"),
        chain.nodes() as running,
    ):
        for losing in (contextlib.nullcontext(), lossy(chain)):
            with losing, chain.connected() as (client, server):
                back = threading.Thread(target=transfer, args=(server, client, 2_000_000))
                back.start()
                transfer(client, server, 2_000_000)
                back.join()
                for sender, receiver in ((client, server), (server, client)):
                    sending = threading.Thread(target=sender.sendall, args=(bytes(2_000_000),))
                    sending.start()
                    time.sleep(0.3)  # until the receiver's window is closed
                    left_bytes = 2_000_000
                    while left_bytes:
                        left_bytes -= len(receiver.recv(1 << 16))
                    sending.join()
                client.sendall(bytes(100_000))
                client.shutdown(socket.SHUT_WR)
                while server.recv(1 << 16):
                    pass
        wait_until(lambda: running.sink.counters().reflected == running.source.counters().removed)
        counters = running.source.counters()
    refused = {name: n for name, n in msgspec.structs.asdict(counters).items() if name.startswith("refused")}
    assert set(refused.values()) == {0}, refused
    assert counters.received == running.sink.counters().reflected > 500


def test_window_probes_carry_no_echoes(chain: Chain) -> None:
    """TCP does not accept them, so their echoes would be refused, and the sender never get them."""
    with chain.nodes() as running, chain.connected() as (client, server):
        probes = window_probes(chain)
        server.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 0)
        client.sendall(b"question")
        assert server.recv(100) == b"question"
        server.setblocking(False)
        sent_bytes = 0

        def has_probed() -> bool:
            """Send as much as there is room for; the first packet acknowledges the question."""
            nonlocal sent_bytes
            with contextlib.suppress(BlockingIOError):
                while True:
                    sent_bytes += server.send(bytes(1 << 16))
            return window_probes(chain) > probes

        wait_until(has_probed)
        while sent_bytes:
            sent_bytes -= len(client.recv(1 << 16))
        server.setblocking(True)
        transfer(client, server, 1000)
        wait_until(lambda: running.sink.counters().reflected == running.source.counters().removed)
        counters = running.source.counters()
    assert (counters.received > 0, counters.refused_segment) == (True, 0)


def window_probes(chain: Chain) -> int:
    """Number of probes of closed windows that the sink's host has sent."""
    lines = chain.sink.run(["cat", "/proc/net/netstat"]).stdout.splitlines()
    names, values = (line.split() for line in lines if line.startswith("TcpExt:"))
    return int(values[names.index("TCPWinProbe")])


def without_losses_and_time(echo: PathEcho) -> tuple[object, ...]:
    """What does not depend on losses and time."""
    return (
        echo.hops,
        echo.all_known,
        echo.hop,
        echo.node_id,
        echo.queue_pkts,
        echo.free_pkts,
        echo.arrival_pkts_per_s,
        echo.link_rate_bytes_per_s,
        echo.flow_count,
    )


def has_sack(packet: bytes) -> bool:
    tcp = packet[40 + ECHO_BYTES :]
    options, at = tcp[20 : (tcp[12] >> 4) * 4], 0
    while at < len(options) and options[at]:
        if options[at] == 5:
            return True
        at += 1 if options[at] == 1 else options[at + 1]
    return False


@contextlib.contextmanager
def lossy(chain: Chain) -> Iterator[Callable[[], int]]:
    """Lose packets of the source between its node and the transit's; give how many it was."""
    rule = f"ip6 saddr {chain.source.ipv6} numgen inc mod 25 == 24 counter drop"
    hook = "type filter hook forward priority 0;"
    chain.transit.run(["nft", f"table ip6 lossy {{ chain forward {{ {hook} {rule}; }}; }}"])

    def lost_pkts() -> int:
        listed = chain.transit.run(["nft", "list", "table", "ip6", "lossy"]).stdout
        return int(re.findall(r"packets (\d+)", listed)[0])

    try:
        yield lost_pkts
    finally:
        chain.transit.run(["nft", "delete", "table", "ip6", "lossy"])


@contextlib.contextmanager
def purging() -> Iterator[None]:
    """Have processes drop packets all the time, outside softirqs, so that these interrupt it."""
    with contextlib.ExitStack() as ended:
        for _ in range(PURGERS):
            process = ended.enter_context(subprocess.Popen([sys.executable, "-c", PURGING]))
            ended.callback(process.kill)
        yield


@pytest.mark.parametrize("transit_reports", [True, False])
@pytest.mark.parametrize("on_link", [True, False])
def test_echoes_say_who_lost_packets(chain: Chain, on_link: bool, transit_reports: bool) -> None:
    """All that was lost before the last packet that came, by cause."""
    with (
        shaped(chain.transit, 1.25e6, 1_000_000 if on_link else 15_000) as shaper,
        packet_by_packet(chain.source, "eth0"),
        chain.nodes(transit_reports=transit_reports) as running,
        contextlib.ExitStack() as losing,
        chain.connected() as (client, server),
    ):
        lost = losing.enter_context(lossy(chain)) if on_link else lambda: shaper.stats().dropped_pkts
        transfer(client, server, 600_000)
        pkts = lost()
        losing.close()
        transfer(client, server, 1000)  # behind which nothing is lost any more
        wait_until(lambda: running.sink.counters().reflected == running.source.counters().received)
        received = reported(client)
    assert received is not None
    assert pkts > 5
    assert received.all_known == transit_reports
    assert sum(received.losses) == pkts
    congestion, link, unknown = received.losses
    if not transit_reports:
        assert unknown == pkts
    elif on_link:
        assert link == pkts
    else:
        assert congestion == pkts


@pytest.mark.emulated("it seldom interrupts one processor's tracing")
def test_drops_that_interrupt_the_tracing_of_others_are_counted(
    chain: Chain, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel does not show these to the program that is interrupted, and counts them: `untraced`."""
    # With steering, the processor that drops packets seldom has processes to interrupt.
    monkeypatch.setattr(device, "unsteered", lambda _: {})
    with (
        shaped(chain.transit, 12.5e6, 15_000) as shaper,
        packet_by_packet(chain.source, "eth0"),
        chain.nodes() as running,
        purging(),
        chain.connected() as (client, server),
    ):
        for _ in range(MAX_TRANSFERS):
            transfer(client, server, 6_000_000)
            if untraced() >= ENOUGH_UNTRACED:
                break
        missed, pkts = untraced(), shaper.stats().dropped_pkts
        transfer(client, server, 1000)
        wait_until(lambda: running.sink.counters().reflected == running.source.counters().received)
        received = reported(client)
    assert missed >= ENOUGH_UNTRACED
    assert received is not None
    assert received.losses == (pkts, 0, 0)


@pytest.mark.parametrize(("asks", "reflects"), [(True, False), (False, True)])
def test_none_echoes_unless_both_ends_want_it(chain: Chain, asks: bool, reflects: bool) -> None:
    with (
        captured(chain.source) as near,
        chain.nodes(asks=asks, reflects=reflects) as running,
        chain.connected() as (client, server),
    ):
        transfer(client, server, 100_000)
        assert reported(client) is None
        acks = drained(near, chain.sink)
    assert {packet[6] for packet in acks} == {TCP}
    assert running.sink.counters().reflected == running.source.counters().received == 0


@pytest.mark.parametrize("trusted", [None, ipaddress.IPv6Network("2001:db8::/32")])
def test_echoes_of_strangers_are_taken_off_unread(
    chain: Chain, trusted: ipaddress.IPv6Network | None
) -> None:
    with chain.nodes(trusted=trusted) as running, chain.connected() as (client, server):
        transfer(client, server, 100_000)
        wait_until(lambda: running.source.counters().foreign == running.sink.counters().reflected)
        assert reported(client) is None
    counters = running.source.counters()
    assert counters.removed == counters.foreign > 0
    assert counters.received == 0


def test_only_pure_acks_carry_echoes(chain: Chain) -> None:
    with (
        captured(chain.source) as near,
        chain.nodes() as running,
        chain.connected() as (client, server),
        chain.source.call(lambda: socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)) as asking,
        chain.sink.call(lambda: socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)) as answering,
    ):
        answering.bind(("::", PORT))
        for number in range(5):
            client.sendall(b"question")
            assert server.recv(100) == b"question"
            server.sendall(b"answer")
            assert client.recv(100) == b"answer"
            asking.sendto(bytes(number), (chain.sink.ipv6, PORT))
            _, back = answering.recvfrom(100)
            answering.sendto(b"datagram", back)
            assert asking.recv(100) == b"datagram"
        wait_until(lambda: running.sink.counters().reflected == running.source.counters().received)
        packets = drained(near, chain.sink)
    echoes_in(packets)
    plain = [decode(packet).flow.protocol for packet in packets if packet[6] != DSTOPTS]
    assert plain.count(UDP) == 5
    assert sum(b"answer" in packet for packet in packets if packet[6] == TCP) == 5


def header(option: bytes) -> bytes:
    """A Destination Options header around an option of 52 bytes."""
    assert len(option) == ECHO_BYTES - 4
    return bytes([TCP, ECHO_BYTES // 8 - 1, 1, 0]) + option


GOOD = build([PathEcho(hops=2, hop=1, node_id=7, queue_pkts=5, losses_link=3)])[1][4:]
"""An echo of a packet that left long ago."""


def left_now(option: bytes) -> bytes:
    """The same of a packet that leaves now."""
    return option[:-8] + struct.pack("!II", *divmod(time.time_ns() // 1000, 1_000_000))


@pytest.mark.parametrize(
    ("option", "is_received", "is_removed"),
    [
        pytest.param(GOOD, True, True, id="whole"),
        pytest.param(GOOD[:7] + bytes([3]) + GOOD[8:], False, True, id="a hop beyond the path"),
        pytest.param(bytes([0x1E, 49]) + GOOD[2:51] + bytes(1), False, True, id="too short"),
        pytest.param(GOOD[:4] + bytes([9]) + GOOD[5:], False, False, id="of a kind to come"),
        pytest.param(bytes([0x1E, 50, 0x12, 0x34]) + GOOD[4:], False, False, id="of somebody else"),
        pytest.param(bytes([0x1E, 6]) + GOOD[2:8] + bytes([0x1E, 42]) + GOOD[10:], False, False, id="cut"),
    ],
)
def test_whatever_an_option_says_tcp_goes_on(
    chain: Chain, option: bytes, is_received: bool, is_removed: bool
) -> None:
    """A host of the same network puts options into all packets of its connection."""
    with chain.nodes(reflects=False) as running, chain.connected() as (client, server):
        transfer(client, server, 20_000)
        server.setsockopt(IPPROTO_IPV6, IPV6_DSTOPTS, header(left_now(option) if is_received else option))
        server.sendall(b"with an option")
        assert client.recv(100) == b"with an option"
        received = reported(client)
        counters = running.source.counters()
    assert (counters.removed > 0, counters.received > 0) == (is_removed, is_received)
    if not is_received:
        assert received is None
        return
    assert received is not None
    assert (received.hops, received.hop, received.node_id, received.queue_pkts) == (2, 1, 7, 5)
    assert (received.free_pkts, received.losses) == (None, (0, 3, 0))


def test_losses_never_become_fewer_and_echoes_that_were_overtaken_are_passed_over(chain: Chain) -> None:
    """As a sink counts that forgot the flow, and counts from 0 again."""
    with chain.nodes(reflects=False) as running, chain.connected() as (client, server):
        transfer(client, server, 20_000)  # more packets than are lost
        start_s = int(time.time()) - 1

        def received(lost: int, sent_us: int, queue_pkts: int) -> None:
            count = running.source.counters().received
            echo = PathEcho(
                hops=1, hop=1, queue_pkts=queue_pkts, losses_congestion=lost, sent_s=start_s, sent_us=sent_us
            )
            server.setsockopt(IPPROTO_IPV6, IPV6_DSTOPTS, build([echo])[1])
            server.sendall(b"x")
            assert client.recv(1) == b"x"
            wait_until(lambda: running.source.counters().received > count)

        said = []
        for lost, sent_us, queue_pkts in ((5, 100, 1), (7, 200, 2), (6, 150, 3), (1, 300, 4), (2, 400, 5)):
            received(lost, sent_us, queue_pkts)
            now = reported(client)
            assert now is not None
            said.append((now.losses[0], now.queue_pkts))
    assert said == [(5, 1), (7, 2), (7, 2), (7, 4), (8, 5)]
