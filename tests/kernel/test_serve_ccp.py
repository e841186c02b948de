"""An agent that speaks portus' messages steers a real flow, ends, and another one takes over."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path as FilePath

import pytest

from ccplane.datapath import ebpf, wire
from ccplane.datapath.wire import ChangeProgram, Create, Field, Install, Measure, Message, Ready, Update
from experiments.netlab import IperfRun, Path, iperf3
from tests.kernel.driving import wait_until

WINDOW = """
(def (Report (volatile acked 0) (window 0)))
(when true
    (:= Report.acked (+ Report.acked Ack.bytes_acked))
    (:= Report.window Cwnd)
    (fallthrough))
(when (> Micros 5000) (report) (:= Micros 0))
"""
STEP = """
(def (Report (volatile acked 0) (window 0) (step 0)) (step 1))
(when true
    (:= Report.acked (+ Report.acked Ack.bytes_acked))
    (:= Report.window Cwnd)
    (:= Report.step step)
    (fallthrough))
(when (> Micros 5000) (report) (:= Micros 0))
"""
CWND = 30 * 1448


class Agent:
    """An agent as portus makes them: programs for who is ready, a program for who comes."""

    def __init__(self, path: FilePath) -> None:
        path.unlink(missing_ok=True)
        self.seen: list[Message] = []
        self.datapath = ""
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(os.fspath(path))
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            datagram, sender = self._socket.recvfrom(1024)  # portus has no more room
            if not datagram:
                return
            self.datapath = sender
            for message in wire.messages(datagram):
                if isinstance(message, Ready):
                    for number, text in ((1, WINDOW), (2, STEP)):
                        self.emit(Install(number, *wire.to_bytecode(ebpf.compile_program(text))))
                elif isinstance(message, Create):
                    self.emit(ChangeProgram(message.flow, 1, []))
                self.seen.append(message)

    def emit(self, message: Message) -> None:
        self._socket.sendto(message.to_bytes(), self.datapath)

    def measures(self, program: int) -> list[Measure]:
        return [
            one for one in self.seen if isinstance(one, Measure) and one.program == program and one.fields
        ]

    def busiest(self) -> int | None:
        acked: dict[int, int] = {}
        for one in self.measures(1):
            acked[one.flow] = acked.get(one.flow, 0) + one.fields[0]
        return max(acked, key=lambda flow: acked[flow]) if max(acked.values(), default=0) > 100_000 else None

    def end(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._socket.close()


@contextmanager
def serving(agent: FilePath, own: FilePath) -> Iterator[subprocess.Popen[str]]:
    program = "from ccplane.agent.entry import main; main()"
    options = ["--agent", agent, "--bind", own, "--unload"]
    running = subprocess.Popen(
        [sys.executable, "-c", program, "serve-ccp", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert running.stdout is not None
        assert "waiting for the agent" in running.stdout.readline()
        yield running
    finally:
        running.send_signal(signal.SIGTERM)
        try:
            running.communicate(timeout=20)
        except subprocess.TimeoutExpired:
            running.kill()
            ebpf.unload()


def test_agents_steer_end_and_come_again(
    path_100mbit: Path, tmp_path: FilePath, start_transfer: Callable[..., IperfRun]
) -> None:
    there = tmp_path / "portus"
    with serving(there, tmp_path / "ccplane"):
        agent = Agent(there)
        transfer = start_transfer(path_100mbit.sender, path_100mbit.receiver, congestion="ccp", duration_s=60)
        wait_until(agent.busiest)
        flow = agent.busiest()
        assert flow is not None
        created = next(one for one in agent.seen if isinstance(one, Create) and one.flow == flow)
        address = socket.inet_aton(path_100mbit.receiver.ipv4)
        assert created.dst_ip == int.from_bytes(address, sys.byteorder)
        assert created.algorithm == ""

        agent.emit(Update(flow, [Field(2, wire.CWND, CWND)]))
        wait_until(lambda: any(one.flow == flow and one.fields[1] == CWND for one in agent.measures(1)))

        agent.emit(ChangeProgram(flow, 2, [Field(0, 0, 5)]))
        wait_until(lambda: any(one.flow == flow and one.fields[2] == 5 for one in agent.measures(2)))
        agent.emit(Update(flow, [Field(0, 0, 7), Field(2, wire.CWND, CWND + 1448)]))
        after = (CWND + 1448, 7)
        wait_until(lambda: any(tuple(one.fields[1:]) == after for one in agent.measures(2)))

        agent.end()
        view = ebpf.observe()
        wait_until(lambda: {one.fallback for one in view.all_stats()} == {True})
        sender = max(view.all_stats(), key=lambda one: one.bytes_acked)
        assert sender.fallback_cause == "no_program"

        other = Agent(there)
        wait_until(other.busiest)
        flow = other.busiest()
        transfer.stop()
        wait_until(
            lambda: any(
                isinstance(one, Measure) and one.flow == flow and not one.fields for one in other.seen
            )
        )
        other.end()


@pytest.mark.long
@pytest.mark.timeout(900)
def test_an_agent_made_with_portus_itself_fills_the_path(path_100mbit: Path, tmp_path: FilePath) -> None:
    root = FilePath(__file__).parents[2]
    path = f"{FilePath.home()}/.cargo/bin:{os.environ['PATH']}"
    build = ["scripts/cargo.sh", "build", "--release", "--package", "ccp-lang", "--example", "portus_agent"]
    subprocess.run(build, cwd=root, env={**os.environ, "PATH": path}, check=True)
    name = f"ccplane-test-{os.getpid()}"
    with serving(FilePath("/tmp/ccp") / name, tmp_path / "ccplane"):
        agent = subprocess.Popen(
            [root / "native/target/release/examples/portus_agent", name], stdout=subprocess.PIPE, text=True
        )
        try:
            done = iperf3(path_100mbit.sender, path_100mbit.receiver, congestion="ccp", duration_s=5)
            assert agent.stdout is not None
            said = list(takewhile(lambda line: line != "closed\n", agent.stdout))
        finally:
            agent.kill()
            agent.communicate()
            (FilePath("/tmp/ccp") / name).unlink(missing_ok=True)
    windows = [int(line) for line in said]
    assert max(windows) > 2 * windows[0]
    assert done.goodput_bit_per_s > 70e6
