"""Traffic of flows: programs send what was asked for, on the sockets they say, and leave nothing behind."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path as FilePath
from typing import Any

import numpy as np
import pytest

from ccplane.base._native import TcpTrace
from experiments.netlab import LabError, Path
from experiments.netlab.lab import list_namespaces
from experiments.netlab.spec import Family
from experiments.traffic import Http, Iperf3, OnOff, RunningTraffic, Traffic, start_traffic
from experiments.traffic.web import HttpTraffic
from tests.kernel.driving import wait_until

pytestmark = pytest.mark.kernel(struct_ops=False)

RATE_BYTES_PER_S = 12.5e6
Start = Callable[..., RunningTraffic]
KINDS = [Iperf3(parallel=2), Http(objects=(10**10,), connections=2), OnOff(on_s=0.1, off_s=0.05)]


@pytest.fixture
def start() -> Iterator[Start]:
    """Start traffic over a path; what still runs ends with the test."""
    with contextlib.ExitStack() as stack:

        def begin(spec: Traffic, path: Path, **options: Any) -> RunningTraffic:
            options = {"congestion": "reno", "duration_s": 30.0, **options}
            traffic = start_traffic(spec, path.sender, path.receiver, **options)
            stack.callback(_stop_quietly, traffic)
            return traffic

        yield begin


def _stop_quietly(traffic: RunningTraffic) -> None:
    with contextlib.suppress(LabError):
        traffic.stop()


@pytest.fixture(autouse=True)
def _nothing_stays(_clean_machine: None) -> Iterator[None]:
    before = left_behind()
    yield
    assert left_behind() == before


def left_behind() -> tuple[set[str], set[str]]:
    """Return the temporary folders of traffic, and the commands of our own that run."""
    own = f"ccplane-traffic-ccp-{os.getpid()}-*"
    folders = {path.name for path in FilePath(tempfile.gettempdir()).glob(own)}
    listed = subprocess.run(["ps", "-eo", "ppid=,args="], capture_output=True, text=True, check=True).stdout
    rows = (line.split(None, 1) for line in listed.splitlines())
    return folders, {args for ppid, args in rows if int(ppid) == os.getpid() and not args.startswith("ps ")}


def flow_rows(trace: TcpTrace, traffic: RunningTraffic) -> np.ndarray[Any, Any]:
    rows = trace.drain()
    return rows[traffic.sockets.has(rows["netns"], rows["sport"], rows["dport"])]


@pytest.mark.parametrize("family", ["ipv4", "ipv6"])
@pytest.mark.parametrize("spec", KINDS, ids=lambda spec: type(spec).__name__)
def test_the_senders_sockets_are_the_flows_and_have_its_congestion_control(
    path_100mbit: Path, start: Start, spec: Traffic, family: Family
) -> None:
    with TcpTrace(20_000) as trace:
        traffic = start(spec, path_100mbit, family=family, congestion="cubic", duration_s=1.25)
        assert traffic.running
        traffic.wait()
        assert not traffic.running
        rows = flow_rows(trace, traffic)
    n_sockets = 1 if isinstance(spec, OnOff) else 2
    assert len(set(rows["cookie"])) == n_sockets
    for cookie in set(rows["cookie"]):
        flow = rows[rows["cookie"] == cookie]
        assert set(flow["congestion"][1:]) == {b"cubic"}
        assert flow["bytes_acked"].max() > 50 * flow["bytes_received"].max()  # the sender sends
    share = rows["bytes_acked"].max() / (1.25 * RATE_BYTES_PER_S)
    assert 0.02 < share * n_sockets < 2.0


def test_iperf3_ends_by_itself_after_whole_seconds(path_100mbit: Path, start: Start) -> None:
    result = start(Iperf3(), path_100mbit, duration_s=1.0).wait()
    assert result.complete
    assert result.goodput_bytes_per_s == pytest.approx(0.95 * RATE_BYTES_PER_S, rel=0.08)
    assert result.retrans_pkts is not None


def test_iperf3_is_interrupted_at_a_fraction(path_100mbit: Path, start: Start) -> None:
    result = start(Iperf3(), path_100mbit, duration_s=0.5).wait()
    assert not result.complete
    assert result.received_bytes is None
    assert result.duration_s >= 0.5
    assert result.retrans_pkts is not None


def test_iperf3_sends_so_much_and_not_faster_than_asked(path_100mbit: Path, start: Start) -> None:
    result = start(Iperf3(total_bytes=500_000, rate_bytes_per_s=1e6), path_100mbit).wait()
    assert result.complete
    assert result.received_bytes == pytest.approx(500_000, rel=0.3)
    assert result.goodput_bytes_per_s is not None
    assert result.goodput_bytes_per_s < 2e6


@pytest.mark.parametrize("family", ["ipv4", "ipv6"])
def test_downloads_come_one_after_the_other_on_one_connection(
    path_100mbit: Path, start: Start, family: Family
) -> None:
    spec = Http(objects=(50_000, 2_000_000, 1_000), gaps_s=(0.2, 0.0), connections=2)
    result = start(spec, path_100mbit, family=family).wait()
    assert result.complete
    assert result.received_bytes == 2 * sum(spec.objects)
    for connection in (0, 1):
        mine = [one for one in result.objects if one.connection == connection]
        assert [one.number for one in mine] == [0, 1, 2]
        assert tuple(one.size_bytes for one in mine) == spec.objects
        assert [one.new_connection for one in mine] == [True, False, False]
        gap_us = mine[1].start_us - mine[0].start_us - 1e6 * mine[0].completion_s
        assert gap_us > 150_000  # 200 ms, from one report of curl to the next
        assert all(0 < one.first_byte_s <= one.completion_s for one in mine)
        assert mine[1].completion_s > 2_000_000 / RATE_BYTES_PER_S


def test_objects_are_repeated(wire: Path, start: Start) -> None:
    result = start(Http(objects=(1000, 2000), repeat=50), wire).wait()
    assert [one.size_bytes for one in result.objects] == [1000, 2000] * 50
    assert sum(one.new_connection for one in result.objects) == 1


def test_a_download_has_a_connection_of_its_own_where_they_do_not_persist(wire: Path, start: Start) -> None:
    result = start(Http(objects=(1000, 2000), gaps_s=(0.1,), persistent=False), wire).wait()
    assert [one.size_bytes for one in result.objects] == [1000, 2000]
    assert all(one.new_connection for one in result.objects)


def test_downloads_that_take_too_long_are_cut_off(path_100mbit: Path, start: Start) -> None:
    result = start(Http(objects=(1000, 10**9)), path_100mbit, duration_s=0.5).wait()
    assert not result.complete
    assert result.received_bytes is None
    assert [one.size_bytes for one in result.objects] == [1000]


def test_a_gap_ends_with_the_flow(wire: Path, start: Start) -> None:
    traffic = start(Http(objects=(1000, 1000), gaps_s=(3600.0,)), wire, duration_s=0.3)
    result = traffic.wait()
    assert not result.complete
    assert len(result.objects) == 1


def test_several_servers_of_a_host_differ_in_congestion_control(path_100mbit: Path, start: Start) -> None:
    with TcpTrace(0) as trace:
        traffic = {
            name: start(Http(objects=(100_000,)), path_100mbit, congestion=name) for name in ("reno", "cubic")
        }
        for one in traffic.values():
            assert one.wait().complete
        rows = trace.drain()
    for name, one in traffic.items():
        mine = rows[one.sockets.has(rows["netns"], rows["sport"], rows["dport"])]
        assert set(mine["congestion"]) == {name.encode()}


@pytest.mark.parametrize("spec", KINDS, ids=lambda spec: type(spec).__name__)
def test_flows_of_a_host_to_the_same_port_of_two_others_are_reported_apart(
    path_100mbit: Path, start: Start, spec: Traffic
) -> None:
    first, second = (start(spec, path_100mbit, port=port).sockets.sports for port in (7001, 7002))
    assert first is not None
    assert second is not None
    assert not set(range(first[0], first[1] + 1)) & set(range(second[0], second[1] + 1))


def test_pulses_send_only_while_on(path_100mbit: Path, start: Start) -> None:
    spec = OnOff(on_s=0.2, off_s=0.3, distribution="fixed", rate_bytes_per_s=2e6)
    with TcpTrace(0) as trace:
        traffic = start(spec, path_100mbit, duration_s=3.0)
        result = traffic.wait()
        rows = flow_rows(trace, traffic)
    assert result.complete
    assert result.received_bytes is not None
    assert 0 < result.received_bytes <= 6 * 0.2 * 2e6
    times_us = rows["t_us"][rows["state"] == 1].astype(np.int64)
    pauses = [gap_us for gap_us in np.diff(times_us) if gap_us > 200_000]
    assert 0 < len(pauses) < 6


@pytest.mark.parametrize("spec", KINDS, ids=lambda spec: type(spec).__name__)
def test_one_thread_waits_and_another_one_stops(wire: Path, start: Start, spec: Traffic) -> None:
    traffic = start(spec, wire)
    with ThreadPoolExecutor(1) as waiting:
        result = waiting.submit(traffic.wait)
        with TcpTrace(0) as trace:
            wait_until(lambda: (flow_rows(trace, traffic)["bytes_acked"] > 100_000).any())
        assert not result.done()
        traffic.stop()
        assert result.result(10) is traffic.wait()
    assert not traffic.running
    assert not traffic.wait().complete
    assert 0 < traffic.wait().duration_s < 30
    traffic.stop()


@pytest.mark.parametrize("spec", KINDS, ids=lambda spec: type(spec).__name__)
def test_it_can_be_stopped_before_it_has_begun(wire: Path, start: Start, spec: Traffic) -> None:
    traffic = start(spec, wire)
    traffic.stop()
    assert not traffic.wait().complete


@pytest.mark.parametrize("spec", KINDS, ids=lambda spec: type(spec).__name__)
def test_a_congestion_control_that_is_not_there_is_named(wire: Path, start: Start, spec: Traffic) -> None:
    with pytest.raises(LabError) as caught:
        start(spec, wire, congestion="nope").wait()
    assert caught.value.slug == "lab.no_congestion_control"
    assert "nope" in caught.value.message


def test_a_port_that_is_taken_is_said(wire: Path, start: Start) -> None:
    with wire.sender.tcp_socket() as other:
        other.bind((wire.sender.ipv4, 7000))
        other.listen()
        with pytest.raises(LabError) as caught:
            start(Http(objects=(1000,)), wire, port=7000)
    assert caught.value.slug == "lab.not_listening"
    assert "7000" in caught.value.message


def test_a_failing_download_says_what_curl_says(wire: Path, start: Start) -> None:
    with TcpTrace(0) as trace:
        traffic = start(Http(objects=(1000, 10**10)), wire)
        wait_until(lambda: (flow_rows(trace, traffic)["bytes_acked"] > 100_000).any())
    assert isinstance(traffic, HttpTraffic)
    traffic.server.stop()  # as if it had crashed
    for _ in range(2):
        with pytest.raises(LabError) as caught:
            traffic.wait()
    assert caught.value.slug == "lab.command_failed"
    assert "curl: (" in caught.value.why


INTERRUPTED = """
import sys
from experiments.netlab import bottleneck
from experiments.traffic import Http, Iperf3, OnOff, start_traffic
with bottleneck(12.5e6, 250_000) as path:
    specs = Iperf3(), Http(objects=(1000, 10**10), gaps_s=(0.1,), connections=2), OnOff(on_s=1, off_s=1)
    hosts = path.sender, path.receiver
    running = [start_traffic(spec, *hosts, congestion="reno", duration_s=60.0) for spec in specs]
    print("ready", flush=True)
    try:
        running[1].wait()
    finally:
        for one in running:
            one.stop()
"""


def test_nothing_stays_after_ctrl_c() -> None:
    child = subprocess.Popen([sys.executable, "-c", INTERRUPTED], stdout=subprocess.PIPE, text=True)
    with child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        (folder,) = FilePath(tempfile.gettempdir()).glob(f"ccplane-traffic-ccp-{child.pid}-*")
        child.send_signal(signal.SIGINT)
        assert child.wait(30) == -signal.SIGINT
    assert not folder.exists()
    assert not [found for found in list_namespaces() if found.pid == child.pid]
    commands = subprocess.run(["ps", "-eo", "args="], capture_output=True, text=True, check=True).stdout
    assert folder.name not in commands
