"""CUBIC with in-band telemetry on real sockets: which loss is answered how, switched live, and corrections.

The test itself says what a sink would: losses are real, and what telemetry tells of them is what is tried.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any, Final

import pytest

from broker.embedded import EmbeddedBroker
from ccp_algs.episodes import CUT, UNDO
from ccplane.agent.client import Client
from ccplane.agent.client_stream import Stream
from ccplane.agent.control import control_socket
from experiments.agent_process import PIN_DIR, running_agent
from experiments.netlab import Host
from experiments.netlab.emulated import EmulatedNetwork, emulated
from experiments.netlab.spec import Direction, Pattern
from experiments.netlab.topologies import point_to_point
from telemetry.bus import Bus
from telemetry.schema import FlowId, IntHop, IntSummary
from tests.kernel.driving import Start, ccp, wait_until

CLIENT_PORT: Final = 40_100
SERVER_PORT: Final = 5_300
RTT_US: Final = 10_000
STALE_MS: Final = 300
LOSSY: Final = Direction(12.5e6, delay_us=RTT_US // 2, loss=Pattern(drop=(100,), repeat_every_pkts=300))
"""A loss every 300 packets: at the rate of the test about 6 a second, each repaired before the next."""
RATE_BYTES_PER_S: Final = 2.5e6
ROOM: Final = IntHop(queue_depth_pkts=0, queue_free_pkts=100, arrival_pkts_per_s=2000, flow_count=1)


class Sink:
    """Says the same of the flow every 10 ms, until it is to say something else.

    Attributes:
        cause: Cause of losses; None for silence.
    """

    def __init__(self, bus: Bus, flow: FlowId) -> None:
        self.cause: str | None = None
        self._bus = bus
        self._flow = flow
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def say(self, cause: str, interval_us: int = 10_000) -> None:
        """Publish one summary."""
        summary: Any = IntSummary(flow=self._flow, interval_us=interval_us, loss_cause=cause, hops=(ROOM,))  # type: ignore[arg-type]
        self._bus.publish(summary)

    def stop(self) -> None:
        """Be silent for good."""
        self._end.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._end.wait(0.01):
            if (cause := self.cause) is not None:
                self.say(cause)


class Reports:
    """Reports of the flow under test, in order."""

    def __init__(self, client: Client, stream: Stream) -> None:
        self.rows: list[dict[str, Any]] = []
        self._stream = stream
        self._client = client
        self.flow_id = 0

    def take(self) -> None:
        """Take what has come."""
        if not self.flow_id:
            flows = self._client.flows()
            own = flows[flows["src_port"] == CLIENT_PORT] if len(flows) else flows
            if not len(own):
                return
            self.flow_id = int(own.index[0])
        for row in self._stream.ready():
            if row["flow_id"] == self.flow_id:
                self.rows.append({**row, **row["fields"]})

    def next(self, wanted: Callable[[dict[str, Any]], bool], count: int = 1) -> list[dict[str, Any]]:
        """Wait until so many reports of a kind have come from now on; return all that came."""
        self.take()
        seen = len(self.rows)

        def done() -> bool:
            self.take()
            return sum(wanted(row) for row in self.rows[seen:]) >= count

        wait_until(done)
        return self.rows[seen:]

    def next_cut(self) -> dict[str, Any]:
        """Wait for a reduction to 0.7 of the window, or to what is delivered if that is less."""
        cut = self.next(is_cut)[-1]
        assert cut["cwnd_bytes"] <= 0.7 * cut["prior_bytes"]
        return cut


def is_cut(row: dict[str, Any]) -> bool:
    return bool(row["event"] == CUT)


def is_spared(row: dict[str, Any]) -> bool:
    return bool(row["spared_pkts"] > 0 and row["event"] == 0)


@pytest.fixture
def net() -> Iterator[EmulatedNetwork]:
    """One lossy link."""
    with emulated(point_to_point(LOSSY, Direction(delay_us=RTT_US // 2))) as network:
        yield network


def flow_between(sender: Host, receiver: Host) -> FlowId:
    return FlowId(src=sender.ipv6, src_port=CLIENT_PORT, dst=receiver.ipv6, dst_port=SERVER_PORT)


def test_losses_are_answered_as_telemetry_and_mode_say(net: EmulatedNetwork, start_transfer: Start) -> None:
    sender, receiver = net.hosts["sender"], net.hosts["receiver"]
    with ExitStack() as stack:
        broker = stack.enter_context(EmbeddedBroker())
        url = f"mqtt://{broker.options.host}:{broker.options.port}"
        agent = stack.enter_context(
            running_agent("int_cubic", "--broker", url, "--param", f"stale_ms={STALE_MS}")
        )
        client = stack.enter_context(Client(control_socket(PIN_DIR)))
        reports = Reports(client, stack.enter_context(client.stream()))
        bus = Bus(broker.options, sender="sink-1", on_sample=lambda sample: None, kinds=())
        bus.start()
        stack.callback(bus.stop)
        bus.wait_connected(10.0)
        sink = Sink(bus, flow_between(sender, receiver))
        stack.callback(sink.stop)
        start_transfer(
            sender, receiver, congestion="ccp.int_cubic", duration_s=60, family="ipv6",
            client_port=CLIENT_PORT, server_port=SERVER_PORT,
            rate_bytes_per_s=RATE_BYTES_PER_S, write_bytes=14_480,
        )  # fmt: skip

        # No telemetry so far: plain CUBIC.
        assert reports.next_cut()["blind"]

        # New L1: telemetry finds nothing full, so nothing is reduced.
        sink.cause = "none"
        reports.next(is_spared)
        for row in reports.next(is_spared, count=5):
            assert row["event"] == 0
        before, after = reports.rows[-2:]
        assert after["cwnd_bytes"] >= before["cwnd_bytes"]

        # A loss that was spared was overflow: it is answered late, and not again while it is repaired.
        reports.next(is_spared)
        sink.say("overflow")
        assert not reports.next_cut()["blind"]

        # New L2, for this flow, by the command line.
        flow_id = str(reports.flow_id)
        assert "1 running flow" in ccp("set", "wireless_loss=mild", "--flow", flow_id)
        reports.next(is_spared)
        mild = reports.next(lambda row: row["mild_prior_bytes"] > 0, count=2)[-1]
        assert mild["cwnd_bytes"] / mild["mild_prior_bytes"] == pytest.approx(0.95, abs=0.03)
        assert mild["event"] == 0

        # Plain CUBIC, though telemetry goes on.
        ccp("set", "wireless_loss=cubic", "--flow", flow_id)
        reports.next(is_cut)
        rows = reports.next(is_cut, count=2)
        assert sum(row["spared_pkts"] for row in rows) == 0

        # Back again; then telemetry ends: plain CUBIC once more, with no word from anybody.
        ccp("set", "wireless_loss=keep", "--flow", flow_id)
        reports.next(is_spared, count=2)
        sink.cause = None
        reports.next(is_cut)
        cut = reports.next_cut()
        assert cut["blind"]

        # The cause of that comes late: wireless. The reduction is taken back.
        sink.say("wireless", interval_us=1_000_000)
        undo = reports.next(lambda row: row["event"] == UNDO)[-1]
        assert undo["cuts"] == cut["cuts"]
        assert undo["cwnd_bytes"] >= cut["prior_bytes"]
        assert agent.running
