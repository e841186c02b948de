"""Connections with each setting of `tcp_ecn` over an emulated path that marks, and the marks of both."""

from __future__ import annotations

import contextlib
import socket
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ccplane.base import _native
from experiments.netlab import Host, LabError, pcapng
from experiments.netlab.emulated import EmulatedNetwork, emulated
from experiments.netlab.spec import Buffer, Direction, DropTail
from experiments.netlab.topologies import point_to_point
from tests.kernel.driving import Driver, loaded

MARKS: Final = """
(def (Report (volatile acked 0) (volatile marked 0) (volatile marked_pkts 0) (has_ecn false)))
(when true
    (:= Report.acked (+ Report.acked Ack.bytes_acked))
    (:= Report.marked (+ Report.marked Ack.ecn_bytes))
    (:= Report.marked_pkts (+ Report.marked_pkts Ack.ecn_packets))
    (:= Report.has_ecn Flow.ecn_ok)
    (:= Cwnd 80000)
    (report))
"""
MODES: Final = ("none", "rfc3168", "accecn")
ASKS: Final = dict(enumerate(("none", "rfc3168", "none", "accecn", "rfc3168", "none")))
"""`tcp_ecn` of the client -> the mode that its SYN asks for (enum tcp_ecn_mode in net/tcp_ecn.h)."""
ACCEPTS: Final = dict(enumerate(("none", "rfc3168", "rfc3168", "accecn", "accecn", "accecn")))
"""`tcp_ecn` of the server -> the best mode that it accepts."""
BURSTS: Final = ([1300] * 14, [1], [1300] * 6 + [700] * 6 + [1300] * 3, [900, 1300])
"""Payloads of packets [bytes]."""
CE: Final = 3
PATH: Final = Direction(
    rate_bytes_per_s=250e3, delay_us=1000, buffer=Buffer(packets=200), queue=DropTail(ce_threshold_us=15_000)
)
"""Marks the packets of a burst after the first 4 kB. Slow, for an emulated processor."""


@dataclass(frozen=True)
class Marks:
    """Packets with a CE mark, and their payload."""

    pkts: int
    payload_bytes: int


@dataclass
class Ends:
    """A listening server and its clients, of which a driver sees the flows.

    Attributes:
        net: The emulated network.
        driver: Gives the flows their program.
        congestion: Congestion control of clients.
        listener: Socket of the server.
    """

    net: EmulatedNetwork
    driver: Driver
    congestion: str
    listener: socket.socket = field(init=False)

    def listen(self, congestion: str) -> None:
        """Listen with a congestion control."""
        server = self.net.hosts["receiver"]
        self.listener = server.tcp_socket(congestion=congestion)
        self.listener.bind((server.ipv4, 0))
        self.listener.listen()

    def set_ecn(self, client: int, server: int) -> None:
        """Set `tcp_ecn` of both."""
        for name, value in (("sender", client), ("receiver", server)):
            self.net.hosts[name].set_sysctl("net.ipv4.tcp_ecn", value)

    def send(self, bursts: Sequence[Sequence[int]], **registers: int) -> Client:
        """Send bursts of packets over a new connection, and wait until all is acknowledged."""
        with contextlib.ExitStack() as stack:
            sender = stack.enter_context(self.net.hosts["sender"].tcp_socket(congestion=self.congestion))
            sender.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
            sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sender.connect(self.listener.getsockname())
            receiver = stack.enter_context(self.listener.accept()[0])
            receiver.settimeout(60)
            client = Client(self.driver, sender.getsockname()[1])
            # ACKs of single packets, which are not marked, until the flow has its program.
            while not client.reports:
                exchange(sender, receiver, [100])
                self.driver.turn()
            if registers:
                self.driver.datapath.update(client.info.flow_id, registers=registers)
            goal_bytes = client.acked_bytes + sum(map(sum, bursts)) + 500
            for sizes in bursts:
                exchange(sender, receiver, sizes)
            while client.acked_bytes < goal_bytes:
                exchange(sender, receiver, [100])
                self.driver.turn()
        return client


@dataclass(frozen=True)
class Client:
    """A flow that sends from a port, as its reports describe it."""

    driver: Driver
    port: int

    @property
    def info(self) -> _native.FlowInfo:
        """Return what is known from its start."""
        return next(info for info in self.driver.seen.created if info.src_port == self.port)

    @property
    def reports(self) -> list[_native.Report]:
        """Return its reports so far."""
        if all(info.src_port != self.port for info in self.driver.seen.created):
            return []
        return self.driver.seen.of(self.info.flow_id)

    @property
    def acked_bytes(self) -> int:
        """Return the acknowledged bytes that it reported."""
        return sum(report.acked for report in self.reports)

    @property
    def marks(self) -> Marks:
        """Return the marks that it reported."""
        return Marks(sum(r.marked_pkts for r in self.reports), sum(r.marked for r in self.reports))


def exchange(sender: socket.socket, receiver: socket.socket, sizes: Sequence[int]) -> None:
    """Send packets and receive their bytes.

    No host or link merges them: an AccECN receiver counts a super-packet of a virtual device as one packet.
    """
    for size in sizes:
        assert sender.send(bytes(size), socket.MSG_EOR) == size
    left = sum(sizes)
    while left:
        left -= len(receiver.recv(left))


def known_settings(host: Host) -> list[int]:
    """Return the values of `tcp_ecn` that this kernel knows: 0 to 2 before Linux 7.0, 0 to 5 since."""
    known = []
    for value in ASKS:
        with contextlib.suppress(LabError):
            host.set_sysctl("net.ipv4.tcp_ecn", value)
            known.append(value)
    assert known[:3] == [0, 1, 2]
    return known


def marks_at_the_end(capture: Path) -> dict[int, Marks]:
    """Return the marks in a capture of IPv4 packets, by TCP source port."""
    pkts, payload_bytes = Counter[int](), Counter[int]()
    for _, packet in pcapng.packets(capture.read_bytes()):
        tcp = packet[(packet[0] & 15) * 4 :]
        if packet[0] >> 4 == 4 and packet[9] == socket.IPPROTO_TCP and packet[1] & CE == CE:
            port = int.from_bytes(tcp[:2], "big")
            pkts[port] += 1
            payload_bytes[port] += len(tcp) - (tcp[12] >> 4) * 4
    return {port: Marks(count, payload_bytes[port]) for port, count in pkts.items()}


@contextlib.contextmanager
def marking_path() -> Iterator[tuple[EmulatedNetwork, dict[int, Marks]]]:
    """Make a path that marks; after the block, the marks at its end are known by TCP source port."""
    at_the_end: dict[int, Marks] = {}
    with tempfile.TemporaryDirectory() as folder:
        capture = Path(folder) / "link.pcapng"
        with emulated(point_to_point(PATH), pcap={"link>": capture}) as net:
            yield net, at_the_end
        at_the_end.update(marks_at_the_end(capture))


def differences(pairs: Iterable[tuple[int, int]]) -> list[str]:
    """Return where the datapath differs from what ends with these `tcp_ecn` negotiate and the path marks.

    Args:
        pairs: Settings of client and server; those that the kernel does not know are left out.
    """
    by_link, clients = {}, {}
    with marking_path() as (net, at_the_end), loaded() as datapath:
        ends = Ends(net, Driver(datapath, datapath.install(_native.compile(MARKS))), "ccp")
        ends.listen("cubic")
        known = known_settings(net.hosts["sender"])
        for pair in [pair for pair in pairs if set(pair) <= set(known)]:
            ends.set_ecn(*pair)
            before = net.stats()["link>"].marked_pkts
            clients[pair] = ends.send(BURSTS)
            by_link[pair] = net.stats()["link>"].marked_pkts - before
    wrong = []
    for pair, client in clients.items():
        mode = min(ASKS[pair[0]], ACCEPTS[pair[1]], key=MODES.index)
        has_ecn = mode != "none"
        marked = at_the_end.get(client.port, Marks(0, 0))
        seen = {bool(report.has_ecn) for report in client.reports}
        # Without AccECN, ECE stays until CWR arrives: it tells that there were marks, not how many.
        is_exact = mode != "rfc3168"
        holds = {
            "the path marked": by_link[pair] == marked.pkts and (marked.pkts > 5) == has_ecn,
            "mode": client.info.ecn_mode == mode,
            "ecn_ok": (client.info.ecn_ok, seen) == (has_ecn, {has_ecn}),
            "marks": client.marks == marked if is_exact else min(vars(client.marks).values()) > 0,
        }
        found = f"{client.info.ecn_mode} {client.info.ecn_ok} {seen} {client.marks}"
        wrong += [
            f"{name} with tcp_ecn {pair}: expected {mode}, {marked}, {by_link[pair]}; found {found}"
            for name, does in holds.items()
            if not does
        ]
    return wrong
