"""Windows over an idle time, of flows that an agent steers and of the fallback: as of the kernel's CUBIC."""

from __future__ import annotations

import socket
import struct
import threading
from dataclasses import dataclass

import pytest

from ccplane.base import _native
from experiments.netlab.emulated import EmulatedNetwork, emulated
from experiments.netlab.spec import Direction
from experiments.netlab.topologies import point_to_point
from tests.kernel.driving import Driver, loaded

MSS_BYTES = 1448
INITIAL_PKTS = 10
AFTER_IDLE = "net.ipv4.tcp_slow_start_after_idle"
TCPI_SND_CWND = 80
SLOW_START = """
(def (Report (window 0)) (rate 0))
(when true
    (:= Report.window Cwnd)
    (:= Cwnd (+ Cwnd Ack.bytes_acked))
    (:= Rate rate)
    (report))
"""


@dataclass
class Used:
    """A connection that is used, idle, and used again.

    Attributes:
        before: Window at the end of the idle time [packets].
        after: Window behind the first bytes after it [packets].
    """

    client: socket.socket
    server: socket.socket
    before: int = 0
    after: int = 0

    def __post_init__(self) -> None:
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        while self.server.recv(1 << 20):
            pass

    def window_pkts(self) -> int:
        info = self.client.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, TCPI_SND_CWND + 4)
        return int(struct.unpack_from("=I", info, TCPI_SND_CWND)[0])

    def use_again(self) -> None:
        self.before = self.window_pkts()
        self.client.sendall(bytes(30 * MSS_BYTES))
        self.after = self.window_pkts()


def connect(network: EmulatedNetwork, congestion: str) -> Used:
    sender, receiver = network.hosts["sender"], network.hosts["receiver"]
    with receiver.tcp_socket() as listener:
        listener.bind((receiver.ipv4, 0))
        listener.listen(1)
        client = sender.tcp_socket(congestion=congestion)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 << 20)
        client.connect((receiver.ipv4, listener.getsockname()[1]))
        return Used(client, listener.accept()[0])


@pytest.mark.parametrize("sysctl", ["1", "0"])
def test_a_window_restarts_after_an_idle_time_as_the_kernels(sysctl: str) -> None:
    with loaded() as datapath, emulated(point_to_point(Direction(125e6, delay_us=20_000))) as network:
        network.hosts["sender"].set_sysctl(AFTER_IDLE, sysctl)
        driver = Driver(datapath, None)
        program = datapath.install(_native.compile(SLOW_START))
        used = {name: connect(network, name) for name in ("cubic", "ccp")}
        used["fallback"] = used.pop("ccp")
        for name, registers in (("steered", {}), ("paced", {"rate": 12_500_000})):
            known = len(driver.seen.created)
            used[name] = connect(network, "ccp")
            driver.until(lambda known=known: len(driver.seen.created) > known)  # type: ignore[misc]
            flow_id = driver.seen.created[-1].flow_id
            datapath.update(flow_id, program=program, registers=registers)
        steered = driver.seen.created[-2].flow_id
        for one in used.values():
            one.client.sendall(bytes(1 << 20))
        driver.run_for(3)  # half a second of transfer; then silence for longer than 7 RTOs
        reports = len(driver.seen.of(steered))
        for one in used.values():
            one.use_again()
        before = {name: one.before for name, one in used.items()}
        assert min(before.values()) > 12 * INITIAL_PKTS, before
        restarted = {"cubic", "fallback", "steered"} if sysctl == "1" else set()
        after = {name: INITIAL_PKTS if name in restarted else one.before for name, one in used.items()}
        assert {name: one.after for name, one in used.items()} == after, before
        driver.until(lambda: len(driver.seen.of(steered)) > reports)
        assert driver.seen.of(steered)[reports].window // MSS_BYTES == after["steered"]
        for one in used.values():
            one.client.close()
