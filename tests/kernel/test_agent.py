"""`ccp run` as users start it: algorithms steer real flows, and what happens when something dies."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
import time
from pathlib import Path as FilePath

import pytest

from ccp_algs import registry
from ccplane.agent.algorithms import compile_programs
from ccplane.base.errors import LoadError
from ccplane.datapath import ebpf
from ccplane.datapath.ebpf import DEFAULT_PIN_DIR
from experiments.agent_process import PIN_DIR, AgentProcess, running_agent
from experiments.netlab import Path, bottleneck, iperf3, start_iperf3
from tests.kernel.driving import Start, ccp
from tests.waiting import wait_until


def write(tmp_path: FilePath, name: str, text: str) -> str:
    """Write an algorithm's file and return its path."""
    path = tmp_path / name
    path.write_text(textwrap.dedent(text))
    return str(path)


@pytest.mark.kernel(struct_ops=False)
@pytest.mark.parametrize("algorithm", registry.names())
def test_the_verifier_takes_every_algorithm_that_is_shipped(algorithm: str) -> None:
    programs = compile_programs(registry.get(algorithm), ebpf.compile_program)
    assert programs
    for program in programs.values():
        ebpf.verify(program)


def test_const_holds_window_and_rate(path_100mbit: Path) -> None:
    with running_agent("const", "--param", "rate_bytes_per_s=2000000"):
        result = iperf3(path_100mbit.sender, path_100mbit.receiver, congestion="ccp", duration_s=3)
    assert result.goodput_bytes_per_s == pytest.approx(2e6, rel=0.08)


def test_dctcp_asks_for_ecn_and_others_do_not(wire: Path) -> None:
    """ECN is agreed on with the SYN, so both sockets must choose before it (iperf3 does so afterwards)."""
    with running_agent("cubic", "dctcp"):
        listener = wire.receiver.tcp_socket(congestion="ccp.dctcp")
        listener.bind((wire.receiver.ipv4, 0))
        listener.listen()
        for name in ("ccp.cubic", "ccp.dctcp"):
            wire.sender.tcp_socket(congestion=name).connect(listener.getsockname())
        view = ebpf.observe(PIN_DIR)
        wait_until(lambda: len(view.flows()) == 4)
        own = [info for info in view.flows() if info.src_addr == wire.sender.ipv4]
        assert {info.cc_name: info.ecn_ok for info in own} == {"ccp.cubic": False, "ccp.dctcp": True}


def test_an_exception_costs_one_flow_its_algorithm_and_no_other(
    path_100mbit: Path, start_transfer: Start, tmp_path: FilePath
) -> None:
    fragile = write(
        tmp_path,
        "fragile.py",
        """
        from ccp_algs import Algorithm

        class Fragile(Algorithm):
            n = 0
            program = '''
            (def (Report (volatile acked 0)))
            (when true (:= Report.acked (+ Report.acked Ack.bytes_acked)) (:= Cwnd 28960) (fallthrough))
            (when (> Micros 5000) (report) (:= Micros 0))
            '''
            def on_report(self, report):
                self.n += 1
                if self.n == 20 and self.flow.info.dst_port % 2 == 0:
                    raise ValueError("on purpose")
        """,
    )
    with running_agent(fragile) as agent:
        for _ in range(2):
            start_transfer(path_100mbit.sender, path_100mbit.receiver, congestion="ccp", duration_s=60)
        view = ebpf.observe(PIN_DIR)
        # one of two consecutive ports is even
        wait_until(lambda: "on purpose" in agent.log())
        time.sleep(1.0)
        ports = {info.flow_id: info.dst_port for info in view.flows() if info.dst_port in range(5000, 6000)}
        stats = {ports[s.flow_id]: s for s in view.all_stats() if s.flow_id in ports}
        assert sorted(port % 2 == 0 for port in stats) == [False, True]
        for port, one in stats.items():
            assert one.fallback == (port % 2 == 0)
            assert (one.cwnd_bytes == 28960) == (port % 2 == 1)
        assert "Traceback" in agent.log()
        shown = ccp("flows")
        assert re.search(r"fallback \(its algorithm raised for [\d.]+ s\)", shown)
        assert re.search(r"fragile\.on_report: ValueError: on purpose \(.*fragile\.py:\d+\): 1 flows", shown)
        assert re.search(r"flow \d+ .*10\.77\.", agent.log())
        acked = {one.flow_id: one.bytes_acked for one in view.all_stats() if one.flow_id in ports}
        wait_until(lambda: all(view.stats(flow).bytes_acked > bytes_ + 1e6 for flow, bytes_ in acked.items()))


@pytest.mark.parametrize("n_kills", [2, pytest.param(20, marks=pytest.mark.long)])
def test_a_killed_agent_costs_no_flow_and_the_next_one_takes_over(n_kills: int) -> None:
    """kill -9 in the middle of a transfer."""
    with bottleneck(12.5e6, 250_000) as path:
        kernel = iperf3(path.sender, path.receiver, congestion="cubic", duration_s=3)
        agent = AgentProcess(["cubic"])
        try:
            view = ebpf.observe(PIN_DIR)
            # Longer than the slowest machine needs; it ends when all is seen.
            with start_iperf3(
                path.sender, path.receiver, congestion="ccp", duration_s=600, timeout_s=660
            ) as transfer:
                wait_until(lambda: any(s.bytes_acked > 1e6 and not s.fallback for s in view.all_stats()))
                (flow_id,) = (s.flow_id for s in view.all_stats() if s.bytes_acked > 1e6)
                began = view.stats(flow_id)
                without: list[float] = []
                for _ in range(n_kills):
                    agent.kill()
                    time.sleep(0.3)
                    assert view.stats(flow_id).fallback, "without a heartbeat the fallback controls it"
                    without.append(_rate(view, flow_id, 0.7))
                    agent = AgentProcess(["cubic"])
                    assert not agent.greeting.endswith(" 0 flows adopted")
                    wait_until(lambda: not view.stats(flow_id).fallback)
                ended = view.stats(flow_id)
                transfer.stop()
            goodput = (ended.bytes_acked - began.bytes_acked) / (ended.now_us - began.now_us) * 1e6
            assert goodput > 0.85 * kernel.goodput_bytes_per_s
            without.sort()
            assert without[len(without) // 2] >= 0.9 * kernel.goodput_bytes_per_s
        finally:
            agent.kill()
            ebpf.unload(PIN_DIR)


def _rate(view: ebpf.DatapathView, flow_id: int, seconds: float) -> float:
    """Return what a flow got acknowledged over some time [bytes/s]."""
    before = view.stats(flow_id)
    time.sleep(seconds)
    after = view.stats(flow_id)
    return float((after.bytes_acked - before.bytes_acked) / ((after.now_us - before.now_us) / 1e6))


def test_without_privilege_one_line_says_what_is_missing() -> None:
    command = [
        sys.executable,
        "-c",
        "from ccplane.agent.entry import main; main()",
        "run",
        "cubic",
        "--pin-dir",
        PIN_DIR,
    ]
    without = ["setpriv", "--inh-caps=-all", "--ambient-caps=-all", "--bounding-set=-all"]
    done = subprocess.run([*without, *command], capture_output=True, text=True, timeout=30)
    assert done.returncode == 2
    assert "CAP_BPF" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_second_agent_is_refused_and_the_first_one_goes_on() -> None:
    with running_agent("cubic") as first:
        with pytest.raises(LoadError) as caught:
            AgentProcess(["reno"])
        assert str(first.pid) in str(caught.value)
        assert first.running


def test_pyportus_scripts_run_with_their_import_changed(path_100mbit: Path, tmp_path: FilePath) -> None:
    script = write(
        tmp_path,
        "old_script.py",
        """
        import ccplane.pyportus as portus

        class Flow:
            def __init__(self, datapath, info):
                self.datapath = datapath
                self.cwnd = float(info.init_cwnd)
                self.mss = info.mss
                self.datapath.set_program("default", [("Cwnd", int(self.cwnd))])

            def on_report(self, r):
                if r.lost > 0:
                    self.cwnd /= 2
                else:
                    self.cwnd += self.mss * (r.acked / self.cwnd)
                self.cwnd = max(self.cwnd, 10 * self.mss)
                self.datapath.update_field("Cwnd", int(self.cwnd))

        class Aimd(portus.AlgBase):
            def datapath_programs(self):
                return {
                    "default": \"\"\"
                    (def (Report (volatile acked 0) (volatile lost 0)))
                    (when true
                        (:= Report.acked (+ Report.acked Ack.bytes_acked))
                        (:= Report.lost (+ Report.lost Ack.lost_pkts_sample))
                        (fallthrough))
                    (when (> Micros Flow.rtt_sample_us)
                        (report)
                        (:= Micros 0))
                    \"\"\"
                }

            def new_flow(self, datapath, datapath_info):
                return Flow(datapath, datapath_info)

        portus.start("unix", Aimd())
        """,
    )
    ebpf.unload(DEFAULT_PIN_DIR)
    root = str(FilePath(__file__).parents[2])
    running = subprocess.Popen(
        [sys.executable, script], env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "PYTHONPATH": root}
    )
    try:
        wait_until(
            lambda: (
                "ccp" in FilePath("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text().split()
            )
        )
        result = iperf3(path_100mbit.sender, path_100mbit.receiver, congestion="ccp", duration_s=5)
        assert running.poll() is None
    finally:
        running.terminate()
        running.wait(timeout=10)
        ebpf.unload(DEFAULT_PIN_DIR)
    assert result.goodput_bit_per_s > 80e6
