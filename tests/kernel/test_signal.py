"""End to end: a receiver's signal, through a broker, changes the window of a real flow at the sender."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from broker.options import BusOptions
from ccp_algs import Algorithm
from ccplane.agent.agent_loop import AgentLoop
from ccplane.agent.description import Description
from ccplane.agent.inbox import Inbox
from ccplane.agent.telemetry_dispatch import TelemetryDispatch
from experiments.agent_process import agent_here
from experiments.netlab import Host, TcpWatch, start_iperf3
from experiments.netlab.brokers import add_broker_host, broker_on
from experiments.netlab.emulated import EmulatedNetwork, emulated
from experiments.netlab.iperf import IperfOptions
from experiments.netlab.spec import Direction
from experiments.netlab.topologies import point_to_point
from telemetry.schema import ReceiverSignal, Sample


@contextmanager
def receiving(host: Host, *options: str) -> Iterator[subprocess.Popen[str]]:
    """Run `ccp telemetry receive` on a host, without output."""
    ccp = str(Path(sys.executable).with_name("ccp"))
    running = host.popen([ccp, "telemetry", "receive", "--quiet", *options])
    try:
        yield running
    finally:
        running.terminate()
        running.wait()


@contextmanager
def listening(agent_loop: AgentLoop, host: Host, broker: str) -> Iterator[TelemetryDispatch]:
    """Let a plane of this process hear a broker that a host can reach."""
    inbox = Inbox(BusOptions(host=broker), sender="sender", wake=agent_loop.datapath.wake)
    dispatch = TelemetryDispatch(agent_loop, inbox, "sender")
    host.call(inbox.start)  # its thread stays in the host's namespace
    try:
        yield dispatch
    finally:
        inbox.stop()


MSS = 1448
NEAR_US, FAR_US = 5_000, 40_000
SENDER = "far-end"


class Reacts(Algorithm):
    """A window that depends on what the receiver says of the RTT only."""

    name = "test_reacts"
    program = """
    (def (Report (volatile acked 0)))
    (when true
        (:= Report.acked (+ Report.acked Ack.bytes_acked))
        (fallthrough))
    (when (> Micros 10000)
        (report)
        (:= Micros 0))
    """
    lost: ClassVar[list[tuple[str, str]]] = []

    def on_report(self, report: Any) -> None:
        """Leave the window as the signals made it."""

    def on_telemetry(self, sample: Sample) -> None:
        """Be small where the path is long."""
        if isinstance(sample.body, ReceiverSignal) and sample.body.rtt_p50_us is not None:
            self.flow.set(cwnd_bytes=(10 if sample.body.rtt_p50_us > FAR_US else 30) * MSS)

    def on_telemetry_lost(self, kind: str, sender: str) -> None:
        """Be careful."""
        self.lost.append((kind, sender))
        self.flow.set(cwnd_bytes=4 * MSS)


class Listens(Algorithm):
    """Keeps what each flow hears, and leaves its window as it is."""

    name = "test_listens"
    program = Reacts.program
    received: ClassVar[dict[int, list[ReceiverSignal]]] = {}

    def on_report(self, report: Any) -> None:
        """Nothing to do."""

    def on_telemetry(self, sample: Sample) -> None:
        """Remember it by our port."""
        if isinstance(sample.body, ReceiverSignal):
            self.received.setdefault(self.flow.info.src_port, []).append(sample.body)


@dataclass
class Scene:
    """A plane that hears a receiver, and a flow that it steers."""

    net: EmulatedNetwork
    agent_loop: AgentLoop
    watch: TcpWatch
    start_receiver: Callable[..., Any]
    start_broker: Callable[[], Any]
    stop_broker: Callable[[], Any]

    def until(self, done: Callable[[], object], timeout_s: float = 45.0) -> None:
        """Serve the flow until something holds."""
        end_s = time.monotonic() + timeout_s
        while not done():
            assert time.monotonic() < end_s, self.watch.read()
            self.agent_loop.turn(20)

    def window_is(self, segments: int) -> bool:
        """Return whether the kernel says so."""
        info = self.watch.read()
        return info is not None and info.cwnd_bytes == segments * MSS


@contextmanager
def scene(
    ttl_ms: int = 600_000,
    algorithm: type[Algorithm] = Reacts,
    client_ports: Sequence[int] = (0,),
) -> Iterator[Scene]:
    """Build everything but the receiver agent; a flow from each port (0: any) is under way."""
    Reacts.lost.clear()
    Listens.received.clear()
    with ExitStack() as stack:
        net = stack.enter_context(emulated(point_to_point(Direction(delay_us=NEAR_US))))
        sender, receiver = net.hosts["sender"], net.hosts["receiver"]
        host, for_sender, for_receiver = add_broker_host(net.lab, sender, receiver)
        brokers = stack.enter_context(ExitStack())
        brokers.enter_context(broker_on(host))
        agent_loop = stack.enter_context(agent_here(Description([algorithm]), max_flows=64))
        stack.enter_context(listening(agent_loop, sender, for_sender))
        options = ["--peer", sender.ipv4, "--interval", "100", "--probe-interval", "10", "--sender", SENDER]
        options += ["--broker", f"mqtt://{for_receiver}", "--ttl", str(ttl_ms)]
        watch = stack.enter_context(TcpWatch(sender))
        for number, port in enumerate(client_ports):
            bound: IperfOptions = {"client_port": port} if port else {}
            run = start_iperf3(
                sender, receiver, congestion="ccp", duration_s=90, server_port=5201 + number, **bound
            )
            stack.enter_context(run)
        yield Scene(
            net,
            agent_loop,
            watch,
            start_receiver=lambda *more: stack.enter_context(receiving(receiver, *options, *more)),
            start_broker=lambda: brokers.enter_context(broker_on(host)),
            stop_broker=brokers.close,
        )


def test_a_flow_follows_its_receivers_signals_and_its_death() -> None:
    with scene() as at:
        first = at.start_receiver()
        at.until(lambda: at.window_is(30))
        at.net.change("link", delay_us=FAR_US)
        at.until(lambda: at.window_is(10))
        at.net.change("link", delay_us=NEAR_US)
        at.until(lambda: at.window_is(30))
        assert Reacts.lost == []
        first.send_signal(signal.SIGKILL)  # its last will comes long before its last signal expires
        at.until(lambda: at.window_is(4))
        assert set(Reacts.lost) == {("receiver_signal", SENDER)}
        at.start_receiver()
        at.until(lambda: at.window_is(30))
        assert at.agent_loop.counters.algorithm_errors == 0


def test_a_flow_goes_on_while_the_broker_is_away() -> None:
    with scene(ttl_ms=1_000) as at:
        at.start_receiver()
        at.until(lambda: at.window_is(30))
        at.stop_broker()
        at.until(lambda: at.window_is(4))  # the last signal has expired
        assert ("receiver_signal", SENDER) in Reacts.lost
        before = at.watch.read()
        at.start_broker()
        at.until(lambda: at.window_is(30))  # both sides are back, nobody has asked them to
        after = at.watch.read()
        assert before is not None
        assert after is not None
        assert after.bytes_acked > before.bytes_acked, "the transfer never stopped"
        assert at.agent_loop.counters.algorithm_errors == 0


def test_each_flow_receives_of_itself_and_of_its_peer_and_of_no_other_flow() -> None:
    ports = 6001, 6002
    with scene(algorithm=Listens, client_ports=ports) as at:
        at.start_receiver("--per-flow")
        at.until(
            lambda: all(
                len([one for one in Listens.received.get(port, []) if one.flow is not None]) >= 3
                and any(one.flow is None for one in Listens.received[port])
                for port in ports
            )
        )
        addresses = at.net.hosts["sender"].ipv4, at.net.hosts["receiver"].ipv4
    for port in ports:
        flows = {one.flow for one in Listens.received[port]} - {None}
        assert [(flow.src, flow.src_port, flow.dst) for flow in flows if flow] == [
            (addresses[0], port, addresses[1])
        ]
        assert any(one.owd_variation_us is not None for one in Listens.received[port] if one.flow is not None)
