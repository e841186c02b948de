"""aioquic's connections under an agent, in virtual time; the test provides the agent's socket."""

from __future__ import annotations

import gc
import heapq
import logging
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import count, pairwise
from pathlib import Path

import pytest
from aioquic.quic.connection import QuicConnection

from ccplane.datapath import ebpf, wire
from ccplane.datapath.aioquic import Session, register
from ccplane.datapath.aioquic.controller import CcpCongestionControl
from ccplane.datapath.wire import ChangeProgram, Create, Field, Install, Measure, Message, Ready, Update
from tests.interop.agent_end import agent_at
from tests.quic_ends import Ends, ends

MSS_BYTES = 1200
ONE_WAY_S = 0.010
RATE_BYTES_PER_S = 2_000_000
PEER = ("the other end", 1)
TEXT = """(def (Report (volatile acked 0) (volatile lost 0) (volatile timeouts 0) (rtt 0)) (every 0))
(when true
    (:= Report.acked (+ Report.acked Ack.bytes_acked))
    (:= Report.lost (+ Report.lost Ack.lost_pkts_sample))
    (:= Report.rtt Flow.rtt_sample_us)
    (fallthrough))
(when (|| Flow.was_timeout false) (:= Report.timeouts (+ Report.timeouts 1)) (fallthrough))
(when (> Micros every) (report) (:= Micros 0))"""
ENDS = ends(client="ccp")


def window(cwnd_bytes: int) -> Field:
    return Field(wire.IMPLICIT, wire.CWND, cwnd_bytes)


def rate(bytes_per_s: int) -> Field:
    return Field(wire.IMPLICIT, wire.RATE, bytes_per_s)


class Upload:
    """A sending client, its server, and a bottleneck that drops selected packets, in virtual time.

    Attributes:
        windows: The client's window at each transmission [bytes].
    """

    def __init__(self, dropped: Callable[[int], bool] = lambda n: False, both: Ends = ENDS) -> None:
        self.client = QuicConnection(configuration=both.client)
        self.server = QuicConnection(
            configuration=both.server,
            original_destination_connection_id=self.client.original_destination_connection_id,
        )
        self.now_s = 0.0
        self.windows: list[int] = []
        self.n_dropped = 0
        self._is_met = False
        self._dropped, self._n_sent = dropped, 0
        self._idle_s = 0.0
        self._numbers = count()
        self._flying: list[tuple[float, int, QuicConnection, bytes]] = []
        self.client.connect(PEER, now=0.0)
        self.client.send_stream_data(0, bytes(50_000_000))

    def run(self, seconds: float) -> None:
        end_s = self.now_s + seconds
        while True:
            self._send(self.client, self.server)
            if self._is_met:
                self._send(self.server, self.client)
            due = [(at, end) for end in (self.client, self.server) if (at := end.get_timer()) is not None]
            at_s, end = min(due, key=lambda one: one[0], default=(end_s, None))
            if self._flying and self._flying[0][0] <= min(at_s, end_s):
                self.now_s, _, receiver, data = heapq.heappop(self._flying)
                receiver.receive_datagram(data, PEER, now=self.now_s)
                self._is_met = True
            elif end is not None and at_s < end_s:
                self.now_s = max(self.now_s, at_s)
                end.handle_timer(now=self.now_s)
            else:
                self.now_s = end_s
                return

    def _send(self, sender: QuicConnection, receiver: QuicConnection) -> None:
        for data, _ in sender.datagrams_to_send(now=self.now_s):
            left_s = self.now_s
            if sender is self.client:
                self.windows.append(self.cwnd_bytes)
                self._n_sent += 1
                if self._dropped(self._n_sent):
                    self.n_dropped += 1
                    continue
                left_s = self._idle_s = max(self.now_s, self._idle_s) + len(data) / RATE_BYTES_PER_S
            heapq.heappush(self._flying, (left_s + ONE_WAY_S, next(self._numbers), receiver, data))

    @property
    def cwnd_bytes(self) -> int:
        return self.client._loss.congestion_window

    def close(self) -> None:
        self.client.close()
        self.run(1.0)


class Agent:
    def __init__(self, made: socket.socket) -> None:
        self._socket = made
        self._socket.setblocking(False)
        self._peer = ""

    def reported(self) -> list[Message]:
        messages: list[Message] = []
        while True:
            try:
                datagram, self._peer = self._socket.recvfrom(65_536)
            except BlockingIOError:
                return messages
            messages.extend(wire.messages(datagram))

    def reported_until(self, upload: Upload, kind: type[Message]) -> list[Message]:
        """Messages up to the first of a kind, waiting in real time."""
        reported: list[Message] = []
        run_until(
            upload,
            lambda: (reported.extend(self.reported()), any(isinstance(one, kind) for one in reported))[1],
        )
        return reported

    def reports(self, upload: Upload, seconds: float) -> list[Measure]:
        end_s, reported = upload.now_s + seconds, self.reported()
        while upload.now_s < end_s:
            upload.run(0.01)
            reported += self.reported()
        return [one for one in reported if isinstance(one, Measure)]

    def says(self, *messages: Message) -> None:
        for message in messages:
            self._socket.sendto(message.to_bytes(), self._peer)


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    with closing(register(tmp_path / "agent")) as made:
        yield made


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    with agent_at(tmp_path / "agent") as made:
        yield Agent(made)


def installed() -> Install:
    return Install(1, *wire.to_bytecode(ebpf.compile_program(TEXT)))


def run_until(upload: Upload, done: Callable[[], object]) -> None:
    """Give the thread time to receive datagrams of the agent."""
    end_s = time.monotonic() + 30
    while not done():
        assert time.monotonic() < end_s
        time.sleep(0.001)
        upload.run(0.001)


def steered(session: Session, agent: Agent, upload: Upload, *values: Field) -> CcpCongestionControl:
    reported = agent.reported_until(upload, Create)
    flow = next(one.flow for one in reported if isinstance(one, Create))
    agent.says(installed(), ChangeProgram(flow, 1, values))
    run_until(upload, lambda: session.flows[flow].is_steered)
    return session.flows[flow]


@pytest.mark.parametrize("fallback", ["reno", "cubic"])
def test_without_an_agent_it_is_aioquics_own_fallback(tmp_path: Path, fallback: str) -> None:
    def windows(name: str) -> list[int]:
        upload = Upload(lambda n: n % 97 == 0, ends(client=name))
        upload.run(1.5)
        assert upload.n_dropped > 5
        return upload.windows

    with closing(register(tmp_path / "agent", name=f"ccp-{fallback}", fallback=fallback)):
        assert windows(f"ccp-{fallback}") == windows(fallback)


def test_a_flow_is_reported_with_its_reports_and_its_end(session: Session, agent: Agent) -> None:
    upload = Upload()
    ready, created = agent.reported_until(upload, Create)
    assert isinstance(ready, Ready)
    assert isinstance(created, Create)
    assert (created.flow, created.mss_bytes) == (1, MSS_BYTES)
    agent.says(installed(), ChangeProgram(1, 1, [window(24_000)]))
    run_until(upload, lambda: session.flows[1].is_steered)
    agent.reports(upload, 0.2)
    reports = agent.reports(upload, 1.0)
    assert {(one.flow, one.program) for one in reports} == {(1, 1)}
    acked, lost, timeouts, rtts_us = zip(*(one.fields for one in reports), strict=True)
    assert sum(acked) == pytest.approx(24_000 / (2 * ONE_WAY_S), rel=0.1)
    assert (sum(lost), sum(timeouts)) == (0, 0)
    assert min(rtts_us) == pytest.approx(2e6 * (ONE_WAY_S + MSS_BYTES / RATE_BYTES_PER_S / 2), rel=0.05)
    upload.close()
    assert agent.reported()[-1] == Measure(1, 0, [])
    assert not session.flows


def test_the_agents_window_holds_and_its_rate_bounds_it(session: Session, agent: Agent) -> None:
    upload = Upload()
    flow = steered(session, agent, upload, window(240_000))
    assert upload.cwnd_bytes == 240_000
    agent.reports(upload, 1.0)
    assert upload.cwnd_bytes == 240_000
    for measured_bytes_per_s, expected in ((600_000, 12_000), (2**32 - 1, 240_000), (1, 2 * MSS_BYTES)):
        agent.says(Update(flow.number, [rate(measured_bytes_per_s)]))
        run_until(
            upload,
            lambda expected=expected: (
                (agent.reported(), upload.cwnd_bytes)[1] == pytest.approx(expected, rel=0.1)
            ),
        )
    agent.says(Update(flow.number, [rate(2**32 - 1), window(0)]))  # 0 leaves it
    run_until(upload, lambda: upload.cwnd_bytes == 240_000)


def test_what_is_lost_is_reported_packet_by_packet(session: Session, agent: Agent) -> None:
    lost: set[int] = set()
    upload = Upload(lambda n: n in lost)
    steered(session, agent, upload, window(60_000))
    lost |= {len(upload.windows) + after for after in (100, 101, 102, 300)}
    reports = [one.fields for one in agent.reports(upload, 2.0)]
    assert upload.n_dropped == sum(fields[1] for fields in reports) == 4


def test_what_an_ack_delivered_may_be_sent_for_after_the_losses_that_it_shows(
    session: Session, agent: Agent
) -> None:
    lost: set[int] = set()
    upload = Upload(lambda n: n in lost)
    flow = steered(session, agent, upload, window(60_000))
    text = """(def (Report (now 0) (acked 0) (lost 0) (flight 0)))
    (when true
        (:= Report.now Ack.now) (:= Report.acked Ack.bytes_acked) (:= Report.lost Ack.lost_pkts_sample)
        (:= Report.flight Flow.bytes_in_flight) (report))"""
    agent.says(Install(2, *wire.to_bytecode(ebpf.compile_program(text))), ChangeProgram(flow.number, 2, []))
    agent.reports(upload, 0.5)
    lost |= {len(upload.windows) + after for after in (100, 151, 202, 253)}
    reports = [one.fields for one in agent.reports(upload, 1.0) if one.program == 2]
    shown = [
        (before, after) for before, after in pairwise(reports) if after[2] and before[0] == after[0]
    ]  # a timer finds others
    assert shown
    for (_, acked_bytes, _, before_bytes), (_, _, lost_pkts, after_bytes) in shown:
        assert before_bytes + acked_bytes - after_bytes == pytest.approx(lost_pkts * MSS_BYTES, abs=50)


def test_rates_and_what_is_in_flight_are_measured(session: Session, agent: Agent) -> None:
    upload = Upload()
    flow = steered(session, agent, upload, window(24_000))
    text = """(def (Report (incoming 0) (outgoing 0) (flight 0) (pending 0)))
    (when true
        (:= Report.incoming Flow.rate_incoming) (:= Report.outgoing Flow.rate_outgoing)
        (:= Report.flight Flow.bytes_in_flight) (:= Report.pending Flow.bytes_pending) (report))"""
    agent.says(Install(2, *wire.to_bytecode(ebpf.compile_program(text))), ChangeProgram(flow.number, 2, []))
    agent.reports(upload, 0.5)
    reports = [one.fields for one in agent.reports(upload, 0.5) if one.program == 2]
    incoming, outgoing, flight_bytes, pending_bytes = zip(*reports, strict=True)
    expected_bytes_per_s = pytest.approx(24_000 / (2 * ONE_WAY_S), rel=0.1)
    assert sum(incoming) / len(incoming) == expected_bytes_per_s
    assert sum(outgoing) / len(outgoing) == expected_bytes_per_s
    assert max(flight_bytes) < 24_000
    assert set(pending_bytes) == {MSS_BYTES}


def test_persistent_congestion_is_a_timeout(session: Session, agent: Agent) -> None:
    is_broken = False
    upload = Upload(lambda n: is_broken)
    steered(session, agent, upload, window(60_000))
    is_broken = True
    agent.reports(upload, 1.5)
    is_broken = False
    reports = [one.fields for one in agent.reports(upload, 2.0)]
    assert sum(fields[2] for fields in reports) >= 1


@pytest.mark.parametrize("loses", [False, True])
def test_an_agent_that_ends_leaves_its_window_and_another_takes_over(
    tmp_path: Path, session: Session, loses: bool
) -> None:
    lost: set[int] = set()
    upload = Upload(lambda n: n in lost)
    for _ in range(2):
        with agent_at(tmp_path / "agent") as made:
            agent = Agent(made)
            flow = steered(session, agent, upload, window(36_000))
            lost |= {len(upload.windows) + 100} if loses else set()
            agent.reports(upload, 1.0)
            assert upload.cwnd_bytes == 36_000
        upload.run(0.001)
        run_until(upload, lambda flow=flow: not flow.is_steered)
        assert flow.ssthresh == (36_000 if loses else None)
        before = upload.cwnd_bytes
        assert before >= 36_000
        upload.run(0.2)
        assert upload.cwnd_bytes > before


def test_an_agent_that_comes_is_reported_the_window_of_the_moment(
    session: Session, request: pytest.FixtureRequest
) -> None:
    upload = Upload()
    upload.run(0.2)
    agent = request.getfixturevalue("agent")
    before = upload.cwnd_bytes
    ready, created = agent.reported_until(upload, Create)
    assert isinstance(ready, Ready)
    assert isinstance(created, Create)
    assert created.init_cwnd_bytes >= before > 12_000


def test_an_agent_that_does_not_read_loses_its_flows_until_it_reads(session: Session, agent: Agent) -> None:
    upload = Upload()
    flow = steered(session, agent, upload, window(24_000))
    agent.reports(upload, 1.0)
    run_until(upload, lambda: not flow.is_steered)
    assert {type(one) for one in agent.reported()} == {Measure}
    reported = agent.reported_until(upload, Create)
    assert [type(one) for one in reported if not isinstance(one, Measure)] == [Ready, Create]


@pytest.mark.parametrize(
    "refused",
    [
        ChangeProgram(1, 5, []),
        Update(1, [Field(5, 0, 1), window(1_200_000)]),
        Update(1, [Field(0, 3, 1), window(1_200_000)]),
        Install(2, 1, 1, bytes(32)),
    ],
)
def test_what_cannot_be_done_is_logged_and_changes_nothing(
    session: Session, agent: Agent, caplog: pytest.LogCaptureFixture, refused: Message
) -> None:
    upload = Upload()
    flow = steered(session, agent, upload, window(24_000))
    with caplog.at_level(logging.ERROR):
        agent.says(refused)
        run_until(upload, lambda: caplog.records)
    assert flow.is_steered
    assert upload.cwnd_bytes == 24_000


def test_a_fold_that_an_operator_stops_leaves_the_window(session: Session, agent: Agent) -> None:
    upload = Upload()
    flow = steered(session, agent, upload, window(24_000))
    divides = "(def (Report (volatile x 0))) (when true (:= Cwnd 99999) (:= Report.x (/ 1 0)) (report))"
    agent.says(
        Install(2, *wire.to_bytecode(ebpf.compile_program(divides))), ChangeProgram(flow.number, 2, [])
    )
    agent.reports(upload, 0.5)
    time.sleep(0.2)
    assert not agent.reports(upload, 0.5)
    assert upload.cwnd_bytes == 24_000


def test_a_connection_that_was_dropped_is_reported_as_closed(session: Session, agent: Agent) -> None:
    first, second = Upload(), Upload()
    first.run(0.1)
    reported = agent.reported_until(first, Create)
    reported += agent.reported_until(second, Create)
    assert [one.flow for one in reported if isinstance(one, Create)] == [1, 2]
    del first
    gc.collect()
    second.run(0.1)
    assert Measure(1, 0, []) in agent.reported()
    assert list(session.flows) == [2]


def test_the_extra_is_named_where_aioquic_is_missing() -> None:
    code = "import sys; sys.modules['aioquic'] = None; import ccplane.datapath.aioquic"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "load.no_extra" in ended.stderr
    assert "ccplane[aioquic]" in ended.stderr
