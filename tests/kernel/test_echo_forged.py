"""Forged echoes of the path, from a raw socket in the trusted network."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from ccplane.base import _native
from telemetry.inband.node import NodeCounters
from telemetry.ioam import PathEcho, build
from tests.kernel.driving import Driver, loaded, wait_until
from tests.kernel.echoes import DSTOPTS, INBAND, TCP, Chain, Running, chained, reported, transfer
from tests.kernel.inband_hosts import captured, drained

FIN, SYN, RST, PSH, ACK = 1, 2, 4, 8, 16
FAR = 1 << 30
"""Further than any window reaches, and a rate that no link of the chain has."""
MINUTE_US = 60_000_000
SEGS_OUT_AT = 136
"""Offset of `tcpi_segs_out` in `struct tcp_info`."""

PENDING = INBAND.replace("(unknown 7)", "(unknown 7) (pending 0)").replace(
    "(report)", "(:= Report.pending Flow.bytes_pending)\n    (report)"
)
"""`INBAND`, and the data that the application wrote and nobody acknowledged."""


@pytest.fixture(scope="module")
def chain() -> Iterator[Chain]:
    with chained() as chain:
        yield chain


@dataclass(frozen=True, kw_only=True)
class Forged:
    """A forged segment, relative to a true pure ACK.

    Attributes:
        sequence: Distance from the receiver's next sequence number.
        acknowledged: Distance from the last acknowledgment.
        flags: TCP flags.
        words: Length of the TCP header [4 bytes], as it claims.
        ahead_us: How much later than now the packet of the echo left, as it claims [us].
        lost_pkts: Losses on links that it claims.
        hop: The bottleneck, of one node.
        port_offset: Distance from the connection's local port.
    """

    sequence: int = 0
    acknowledged: int = 0
    flags: int = ACK
    words: int = 5
    ahead_us: int = -1000
    lost_pkts: int = 0
    hop: int = 1
    port_offset: int = 0

    def packet(self, like: bytes, now_us: int) -> bytes:
        """Build the IPv6 packet, with an echo of a fast path."""
        source, destination, tcp = like[8:24], like[24:40], like[40:]
        seconds, microseconds = divmod(now_us + self.ahead_us, 1_000_000)
        echo = PathEcho(
            hops=1,
            hop=1,
            all_known=True,
            node_id=7,
            queue_pkts=0,
            link_rate_bytes_per_s=FAR,
            losses_link=self.lost_pkts,
            sent_s=seconds,
            sent_us=microseconds,
        )
        option = bytearray(build([echo])[1])
        assert option[11] == 1
        option[11] = self.hop
        ports = struct.unpack_from("!HH", tcp)
        sequence, acknowledged = struct.unpack_from("!II", tcp, 4)
        numbers = ((sequence + self.sequence) % (1 << 32), (acknowledged + self.acknowledged) % (1 << 32))
        head = struct.pack(
            "!HHIIBB", ports[0], ports[1] + self.port_offset, *numbers, self.words << 4, self.flags
        )
        head += tcp[14:16]
        pseudo = source + destination + struct.pack("!II", len(head) + 4, TCP)
        total = sum(struct.unpack(f"!{(len(pseudo) + len(head)) // 2}H", pseudo + head))
        while total > 0xFFFF:
            total = (total & 0xFFFF) + (total >> 16)
        segment = head + struct.pack("!HH", ~total & 0xFFFF, 0)
        fixed = struct.pack("!IHBB", 6 << 28, len(option) + len(segment), DSTOPTS, 64)
        return fixed + source + destination + bytes([TCP]) + option[1:] + segment


@dataclass(frozen=True)
class Forger:
    """A host of the trusted network that sends echoes for a connection."""

    chain: Chain
    running: Running
    raw: socket.socket
    near: socket.socket

    def like(self) -> bytes:
        """Return the last segment that reached the sender without an option."""
        return [packet for packet in drained(self.near, self.chain.sink) if packet[6] == TCP][-1]

    def send(self, forged: Forged, like: bytes) -> NodeCounters:
        """Send it; return the counters of the sender's node after it passed."""
        before = self.running.source.counters().removed
        self.raw.sendto(forged.packet(like, time.time_ns() // 1000), (self.chain.source.ipv6, 0))
        wait_until(lambda: self.running.source.counters().removed > before)
        return self.running.source.counters()


@contextlib.contextmanager
def forging(chain: Chain, *, reflects: bool = False) -> Iterator[Forger]:
    with (
        chain.nodes(reflects=reflects) as running,
        captured(chain.source) as near,
        chain.sink.call(lambda: socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_RAW)) as raw,
    ):
        yield Forger(chain, running, raw, near)


NOT_TCPS = [
    pytest.param(Forged(sequence=FAR), "refused_segment", id="sequence number beyond the window"),
    pytest.param(Forged(sequence=-1), "refused_segment", id="sequence number of old data"),
    pytest.param(Forged(sequence=-FAR), "refused_segment", id="sequence number of far older data"),
    pytest.param(Forged(acknowledged=1), "refused_segment", id="acknowledges what was not sent"),
    pytest.param(Forged(acknowledged=FAR), "refused_segment", id="acknowledges far more"),
    pytest.param(Forged(acknowledged=-FAR), "refused_segment", id="old acknowledgment"),
    pytest.param(Forged(flags=PSH), "refused_segment", id="no acknowledgment"),
    pytest.param(Forged(flags=0), "refused_segment", id="no flags"),
    pytest.param(Forged(flags=SYN), "refused_segment", id="a connection's first packet"),
    pytest.param(Forged(flags=SYN | ACK), "refused_segment", id="a connection's second packet"),
    pytest.param(Forged(words=4), "refused_segment", id="a header shorter than TCP's"),
    pytest.param(Forged(words=15), "refused_segment", id="a header longer than the packet"),
    pytest.param(Forged(flags=RST | ACK, sequence=1), "refused_segment", id="a reset"),
    pytest.param(Forged(ahead_us=900_000), "refused_time", id="a packet of the future"),
    pytest.param(Forged(ahead_us=5_000), "refused_time", id="a packet of the near future"),
    pytest.param(Forged(ahead_us=-2 * MINUTE_US), "refused_time", id="a packet of long ago"),
    pytest.param(Forged(hop=2), "refused_malformed", id="a hop beyond the path"),
    pytest.param(Forged(port_offset=1), "refused_no_socket", id="no such connection"),
]


@pytest.mark.kernel(struct_ops=False)
@pytest.mark.usefixtures("one_processor")
@pytest.mark.parametrize(("forged", "counter"), NOT_TCPS)
def test_forged_echoes_are_refused_and_do_not_suppress_true_ones(
    chain: Chain, forged: Forged, counter: str
) -> None:
    """The forger knows the ports, but not the numbers."""
    with forging(chain) as forger, chain.connected() as (client, server):
        transfer(client, server, 1000)
        like = forger.like()
        counters = forger.send(forged, like)
        assert reported(client) is None
        assert (counters.received, getattr(counters, counter)) == (0, 1)
        counters = forger.send(Forged(), like)
        true = reported(client)
        assert true is not None
        assert (true.echoes, true.hop, true.node_id, counters.received) == (1, 1, 7, 1)
        forger.send(forged, like)
        assert reported(client) == true
        forger.send(Forged(), like)
        true = reported(client)
        assert true is not None
        assert true.echoes == 2
        transfer(client, server, 1000)


@pytest.mark.kernel(struct_ops=False)
@pytest.mark.usefixtures("one_processor")
def test_sockets_that_listen_get_no_echoes(chain: Chain) -> None:
    with forging(chain) as forger, chain.connected() as (client, server):
        transfer(client, server, 1000)
        with chain.source.tcp_socket("ipv6") as listener:
            listener.bind(("::", 0))
            listener.listen()
            offset = listener.getsockname()[1] - client.getsockname()[1]
            counters = forger.send(Forged(port_offset=offset), forger.like())
            assert reported(listener) is None
        assert (counters.received, counters.refused_no_socket) == (0, 1)


@pytest.mark.kernel(struct_ops=False)
@pytest.mark.usefixtures("one_processor")
@pytest.mark.parametrize("lost_pkts", [1000, (1 << 31) - 1, (1 << 32) - 1])
def test_a_flow_loses_no_more_than_it_sent(chain: Chain, lost_pkts: int) -> None:
    """The receiver lies: its segments are those that TCP accepts."""
    with forging(chain) as forger, chain.connected() as (client, server):
        transfer(client, server, 20_000)
        like = forger.like()
        for lost in (0, lost_pkts, lost_pkts // 2, lost_pkts):
            forger.send(Forged(lost_pkts=lost), like)
        info = client.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
        known = reported(client)
    assert known is not None
    (sent_pkts,) = struct.unpack_from("=I", info, SEGS_OUT_AT)
    assert sum(known.losses) <= sent_pkts < 1000


@pytest.mark.usefixtures("one_processor")
def test_folds_see_nothing_of_forged_echoes(chain: Chain) -> None:
    """Next to true ones."""
    with (
        loaded() as datapath,
        forging(chain, reflects=True) as forger,
        chain.connected("ccp") as (client, server),
    ):
        driver = Driver(datapath, datapath.install(_native.compile(INBAND)))
        driver.until(lambda: driver.seen.created)

        def busy(total_bytes: int) -> None:
            sending = threading.Thread(target=transfer, args=(client, server, total_bytes))
            sending.start()
            driver.until(lambda: not sending.is_alive())
            sending.join()

        for parameters in NOT_TCPS:
            busy(20_000)
            forged = parameters.values[0]
            assert isinstance(forged, Forged)
            before = forger.send(forged, like_of(forger)).received
            busy(20_000)
            assert forger.running.source.counters().received > before
        reports = driver.seen.of(driver.seen.busiest())
    assert sum(report.fresh for report in reports) >= len(NOT_TCPS)
    assert all(report.link != FAR for report in reports)


def like_of(forger: Forger) -> bytes:
    """Return a pure ACK without its echo."""
    packet = drained(forger.near, forger.chain.sink)[-1]
    return packet if packet[6] == TCP else packet[:6] + bytes([TCP]) + packet[7:40] + packet[96:]


@pytest.mark.usefixtures("one_processor")
def test_folds_take_an_echo_when_tcp_has_taken_its_acknowledgment(chain: Chain) -> None:
    """Data that the application has written, and TCP not sent, may be acknowledged: TCP ignores that."""
    with (
        loaded() as datapath,
        forging(chain) as forger,
        chain.connected("ccp") as (client, server),
    ):
        driver = Driver(datapath, datapath.install(_native.compile(PENDING)))
        driver.until(lambda: driver.seen.created)
        client.setblocking(False)
        with contextlib.suppress(BlockingIOError):  # until the receiver's window and the buffer are full
            while True:
                client.send(bytes(1 << 16))
                driver.turn()
        driver.turn()
        like = forger.like()
        total_bytes = client.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) // 4
        before = len(driver.seen.reports)
        counters = forger.send(Forged(acknowledged=total_bytes), like)
        assert counters.received == 1
        server.setblocking(False)

        def drain() -> bool:
            with contextlib.suppress(BlockingIOError):
                while server.recv(1 << 16):
                    pass
            return driver.seen.reports[before:] != [] and driver.seen.reports[-1].pending == 0

        driver.until(drain)
    reports = driver.seen.reports[before:]
    early = [report for report in reports if report.link == FAR]
    assert early[0].pending < reports[0].pending - total_bytes // 2
    assert reports[0].link == 0
