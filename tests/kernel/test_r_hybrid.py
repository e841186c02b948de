"""R-Hybrid on real sockets: one process, two peers, each flow with the control that its receiver decides.

The test says itself what the two receivers would; that they say it is tested in test_receive_regime.py.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from typing import Any, Final, Literal

import pytest

from broker.embedded import EmbeddedBroker
from ccp_algs.episodes import STARTED
from ccplane.agent.client import Client
from ccplane.agent.client_stream import Stream
from ccplane.agent.control import control_socket
from experiments.agent_process import PIN_DIR, running_agent
from experiments.netlab import Host
from experiments.netlab.emulated import EmulatedNetwork, emulated
from experiments.netlab.spec import Buffer, Direction, DropTail, Link, Topology
from telemetry.bus import Bus
from telemetry.schema import RegimeDecision
from telemetry.status import online
from tests.kernel.driving import wait_until

CONGESTION: Final = "ccp.r_hybrid"
STALE_MS: Final = 300
RATE_BYTES_PER_S: Final = 5e6
MARKING: Final = Direction(
    RATE_BYTES_PER_S, delay_us=2_500, buffer=Buffer(packets=300), queue=DropTail(ce_threshold_us=2_000)
)
TWO_PEERS: Final = Topology(
    hosts=("sender", "near", "far"),
    routers=("hub",),
    links=(
        Link(name="uplink", a="sender", b="hub", forward=Direction()),
        Link(name="to-near", a="hub", b="near", forward=MARKING),
        Link(name="to-far", a="hub", b="far", forward=MARKING),
    ),
)
Regime = Literal["SINGLE_OWNER", "SHARED"]


class Receiver:
    """What a receiver says of its path; the broker keeps it."""

    def __init__(self, bus: Bus, sender: Host, own: Host) -> None:
        self._bus = bus
        self._path = {"peer": sender.ipv4, "address": own.ipv4}

    def decide(self, regime: Regime, reason: str = "") -> None:
        """Decide so from now on."""
        self._bus.publish(RegimeDecision(**self._path, regime=regime, reason=reason), ttl_ms=600_000)

    def go(self) -> None:
        """Be gone."""
        self._bus.stop()


class Flows:
    """What the agent knows of the flows, by the port they go to."""

    def __init__(self, client: Client, stream: Stream) -> None:
        self.starts: dict[int, int] = {}
        self._client = client
        self._stream = stream

    def programs(self) -> dict[int, str]:
        """Return which program each flow runs."""
        table = self._client.flows()
        return {} if not len(table) else dict(zip(table["dst_port"], table["program"], strict=True))

    def run(self, wanted: dict[int, str]) -> None:
        """Wait until the flows run these programs."""

        def done() -> bool:
            self.started()  # before the stream is full
            mine = {port: program for port, program in self.programs().items() if port in wanted}
            return mine == wanted

        wait_until(done)

    def started(self) -> dict[int, int]:
        """Return how often the kernel has started a program anew, by flow."""
        table = self._client.flows()
        for row in self._stream.ready():
            if row["flow_id"] in table.index and row["fields"]["event"] == STARTED:
                port = int(table.loc[row["flow_id"]]["dst_port"])
                self.starts[port] = self.starts.get(port, 0) + 1
        return dict(self.starts)

    def events(self, port: int) -> list[dict[str, Any]]:
        """Return what was told of a flow's regime."""
        return [
            {"event": one["kind"].partition(":")[2], **one["detail"]}
            for one in self._client.events(1000)
            if one["kind"].startswith("regime:") and one["flow"].endswith(f" {port}")
        ]


@pytest.fixture
def net() -> Iterator[EmulatedNetwork]:
    """A sender and two receivers, each behind a bottleneck of its own that marks."""
    with emulated(TWO_PEERS) as network:
        yield network


def connection(stack: ExitStack, sender: Host, receiver: Host, accepting: str) -> tuple[int, socket.socket]:
    """Send without end to a receiver that accepts with this congestion control; returns port and socket."""
    listener = receiver.tcp_socket(congestion=accepting)
    listener.bind((receiver.ipv4, 0))
    listener.listen()
    sending = sender.tcp_socket(congestion=CONGESTION)
    sending.connect(listener.getsockname())
    receiving, _ = listener.accept()

    def send() -> None:
        with suppress(OSError):
            while True:
                sending.sendall(bytes(1 << 16))

    def receive() -> None:
        with suppress(OSError):
            while receiving.recv(1 << 18):
                pass

    threads = [threading.Thread(target=what, daemon=True) for what in (send, receive)]
    for thread in threads:
        thread.start()

    def end() -> None:
        for one in (sending, receiving):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        for thread in threads:
            thread.join()
        for one in (sending, receiving, listener):
            one.close()

    stack.callback(end)
    return int(listener.getsockname()[1]), sending


def sent(sock: socket.socket) -> int:
    """Return how many bytes of a socket were acknowledged (tcpi_bytes_acked)."""
    return int.from_bytes(sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 232)[120:128], "little")


def test_each_flow_of_a_process_follows_its_own_receiver(net: EmulatedNetwork) -> None:
    sender, near_host, far_host = (net.hosts[name] for name in TWO_PEERS.hosts)
    with ExitStack() as stack:
        broker = stack.enter_context(EmbeddedBroker())
        url = f"mqtt://{broker.options.host}:{broker.options.port}"
        options = "--broker", url, "--param", f"stale_ms={STALE_MS}"
        # On a busy machine an agent that is late would have its programs started anew.
        agent = stack.enter_context(running_agent("r_hybrid", *options, "--heartbeat-timeout", "5000"))
        client = stack.enter_context(Client(control_socket(PIN_DIR)))
        flows = Flows(client, stack.enter_context(client.stream()))

        def receiver(own: Host) -> Receiver:
            bus = Bus(broker.options, sender=own.name, status=online("receiver"))
            bus.start()
            stack.callback(bus.stop)
            bus.wait_connected(10.0)
            return Receiver(bus, sender, own)

        near_receiver, far_receiver = receiver(near_host), receiver(far_host)
        near, near_socket = connection(stack, sender, near_host, CONGESTION)
        far, far_socket = connection(stack, sender, far_host, CONGESTION)
        plain, _ = connection(stack, sender, far_host, "reno")
        flows.run({near: "cubic", far: "cubic", plain: "cubic"})

        # One peer decides: its flow changes, the other flow of the process does not.
        near_receiver.decide("SINGLE_OWNER", "quiet")
        flows.run({near: "dctcp", far: "cubic", plain: "cubic"})
        assert flows.events(near) == [
            {
                "event": "switched",
                "before": "cubic",
                "after": "dctcp",
                "regime": "SINGLE_OWNER",
                "reason": "quiet",
            }
        ]
        assert flows.events(far) == []

        # The other peer decides, too. A flow of it has no ECN, and says so.
        far_receiver.decide("SINGLE_OWNER")
        flows.run({near: "dctcp", far: "dctcp", plain: "cubic"})
        refused = flows.events(plain)
        assert [one["event"] for one in refused] == ["refused"]
        assert refused[0]["wanted"] == "dctcp"
        assert "ECN" in refused[0]["why"]

        # Back and forth under one flow: the other's program is never started anew.
        wait_until(lambda: flows.started().get(far, 0) >= 2)
        for regime, program in (("SHARED", "cubic"), ("SINGLE_OWNER", "dctcp"), ("SHARED", "cubic")):
            before = flows.started()
            near_receiver.decide(regime)  # type: ignore[arg-type]
            flows.run({near: program, far: "dctcp", plain: "cubic"})
            wait_until(lambda before=before: flows.started()[near] > before[near])  # type: ignore[misc]
            assert flows.started()[far] == before[far]
        assert len(flows.events(plain)) == 1, "refused once"

        # The far receiver goes away: SHARED, with a reason. The near one is not concerned.
        near_receiver.decide("SINGLE_OWNER")
        flows.run({near: "dctcp"})
        far_receiver.go()
        flows.run({near: "dctcp", far: "cubic"})
        assert [one["event"] for one in flows.events(far)][-2:] == ["fail_safe", "switched"]
        assert "far" in flows.events(far)[-2]["why"]
        assert "fail_safe" not in [one["event"] for one in flows.events(near)]

        # BBR in place of CUBIC: where that runs, and nowhere else.
        before = flows.started()
        client.params["shared"] = "bbr3"
        flows.run({near: "dctcp", far: "bbr3", plain: "bbr3"})
        wait_until(lambda: flows.started()[far] > before[far])
        assert flows.started()[near] == before[near]

        # All of this without a pause, on the sockets that were there from the beginning.
        before_bytes = [sent(sock) for sock in (near_socket, far_socket)]
        wait_until(
            lambda: all(
                sent(sock) > was for sock, was in zip((near_socket, far_socket), before_bytes, strict=True)
            )
        )
        for sock in (near_socket, far_socket):
            name = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16)
            assert name.rstrip(b"\0").decode() == CONGESTION
        assert agent.running
        assert client.status()["counters"]["algorithm_errors"] == 0
