"""What is about all flows of a host at once hands none of them to the fallback."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from ccplane.datapath import ebpf
from experiments.agent_process import PIN_DIR, running_agent
from experiments.bench.flows import load_environment, open_load
from experiments.netlab import Path as NetPath
from experiments.netlab.sockets import free_port
from tests.kernel.driving import wait_until

ALGORITHM = '''
import time
from pathlib import Path

from ccp_algs import Algorithm

HERE = Path(__file__).parent


def work(what):
    end_s = time.perf_counter() + 200e-6
    while time.perf_counter() < end_s:
        pass
    with (HERE / what).open("a") as reported:
        reported.write(".")


class Listening(Algorithm):
    """Takes its time over each sample, and writes a window, as a busy algorithm would."""

    program = """
    (def (Report (volatile acked 0)))
    (when true (:= Report.acked (+ Report.acked Ack.bytes_acked)) (fallthrough))
    (when (|| Flow.was_timeout false) (report))
    """

    def on_telemetry(self, sample):
        work("heard")
        self.flow.set(cwnd_bytes=29_200)

    def on_telemetry_lost(self, kind, sender):
        work("lost")
        self.flow.set(cwnd_bytes=14_600)
'''

RECEIVER = """
import sys, time
from broker.options import BusOptions
from telemetry.bus import Bus
from telemetry.schema import AgentStatus, ReceiverSignal

online = AgentStatus(status="online", role="receiver")
bus = Bus(BusOptions(port=int(sys.argv[1])), sender="recv", status=online)
bus.start()
bus.wait_connected(10)
bus.publish(ReceiverSignal(peer=sys.argv[2], rtt_p50_us=20_000, rtt_samples=100))
time.sleep(300)
"""
"""Says one thing about all flows of a host, and is killed: the broker tells its last will."""


@pytest.mark.parametrize("count", [1500, pytest.param(10_000, marks=pytest.mark.long)])
def test_a_sample_and_a_last_will_hand_no_flow_to_the_fallback(
    wire: NetPath, tmp_path: Path, count: int
) -> None:
    wire.sender.set_sysctl("net.ipv4.ip_local_port_range", "1024 65535")
    wire.receiver.set_sysctl("net.core.somaxconn", str(2 * count))
    algorithm, port = tmp_path / "listening.py", free_port()
    algorithm.write_text(ALGORITHM)

    def reported(what: str) -> int:
        file = tmp_path / what
        return file.stat().st_size if file.exists() else 0

    with running_agent(str(algorithm), "--broker", f"embedded:{port}") as agent:
        view = ebpf.observe(PIN_DIR)
        pace = ["--seconds", str(4 + count / 500), "--bytes-per-s", "100e6"]
        with open_load(wire, "ccp", count, *pace) as send:
            sending = threading.Thread(target=send)
            sending.start()
            wait_until(lambda: sum(not one.fallback for one in view.all_stats()) >= count)
            before = view.counters()["fallback_entries"]
            receiver = subprocess.Popen(
                [sys.executable, "-c", RECEIVER, str(port), wire.sender.ipv4], env=load_environment()
            )
            try:
                wait_until(lambda: reported("heard") >= count)
            finally:
                receiver.kill()
                receiver.wait()
            wait_until(lambda: reported("lost") >= count)
            assert sending.is_alive(), "the flows went on sending meanwhile"
            assert view.counters()["fallback_entries"] == before
            sending.join()
        assert "ERROR" not in agent.log()
