"""The kernel datapath by itself: flows, programs, updates, on real sockets."""

from __future__ import annotations

import socket
import struct
import threading
import time

import pytest

from ccplane.base import _native
from ccplane.base.errors import CcpError
from experiments.netlab import Host, Path
from tests.kernel.driving import CONST, EVERY_ACK, PIN_DIR, Driver, Start, loaded

TCPI_UNACKED = 24
"""Offset of the packets in flight in `struct tcp_info` (<linux/tcp.h>)."""


def test_python_sets_the_window_of_a_live_flow(path_100mbit: Path, start_transfer: Start) -> None:
    with loaded() as datapath:
        handle = datapath.install(_native.compile(CONST))
        driver = Driver(datapath, handle)
        transfer = start_transfer(path_100mbit.sender, path_100mbit.receiver, congestion="ccp", duration_s=3)
        driver.until(lambda: len(driver.seen.reports) > 50)
        flow_id = driver.seen.busiest()
        assert datapath.update(flow_id, registers={"target": 20 * 1448})
        before = len(driver.seen.reports)
        driver.until(lambda: len(driver.seen.reports) > before + 20)
        stats = datapath.stats(flow_id)
        assert stats is not None
        assert stats.cwnd_bytes == 20 * stats.mss_bytes
        assert driver.seen.reports[-1].window == 20 * 1448
        driver.until(lambda: not transfer.running)
        # iperf3 asks the kernel (TCP_INFO): what we set is what the socket has
        assert transfer.wait().intervals[-1].cwnd_bytes == 20 * stats.mss_bytes


@pytest.mark.parametrize("v6", [False, True], ids=["ipv4", "ipv6"])
def test_a_flow_carries_its_addresses(wire: Path, v6: bool, start_transfer: Start) -> None:
    with loaded() as datapath:
        driver = Driver(datapath, None)
        transfer = start_transfer(
            wire.sender, wire.receiver, congestion="ccp", total_bytes=1 << 20, family="ipv6" if v6 else "ipv4"
        )
        driver.until(lambda: not transfer.running)
        driver.until(lambda: len(driver.seen.closed) == len(driver.seen.created) > 0)
        info = driver.seen.sender()
        host: Host = wire.sender
        assert (info.src_addr, info.dst_addr) == (
            (host.ipv6, wire.receiver.ipv6) if v6 else (host.ipv4, wire.receiver.ipv4)
        )
        assert info.family == (socket.AF_INET6 if v6 else socket.AF_INET)
        assert info.src_port != info.dst_port
        assert info.dst_port in range(1024, 65536)
        assert info.cc_name == "ccp"
        assert info.netns_inum > 0
        assert (
            driver.seen.closed[info.flow_id].bytes_acked >= 1 << 18
        )  # what was under way when iperf3 closed is not


def test_the_largest_expression_fits_on_the_stack_alongside_the_primitives() -> None:
    levels = 24  # MAX_LIVE_TMPS of ccp-lang
    value = "1"
    for _ in range(levels):
        value = f"(+ (+ Report.x 1) {value})"
    _native.verify(_native.compile(f"(def (Report (x 0))) (when true (:= Report.x {value}) (report))"))


def test_flow_ids_are_never_used_twice(wire: Path, start_transfer: Start) -> None:
    with loaded(max_flows=4) as datapath:
        driver = Driver(datapath, None)
        for _ in range(3):
            transfer = start_transfer(wire.sender, wire.receiver, congestion="ccp", total_bytes=100 << 10)
            driver.until(lambda transfer=transfer: not transfer.running)
        driver.until(lambda: len(driver.seen.closed) == len(driver.seen.created))
        ids = [info.flow_id for info in driver.seen.created]
        assert len(ids) >= 6  # more than there are slots
        assert len(set(ids)) == len(ids)
        assert all(not datapath.update(flow_id, cwnd_bytes=100_000) for flow_id in ids), "they are gone"
        assert datapath.stats(ids[0]) is None


def test_an_idle_flow_sends_with_the_window_that_was_written_meanwhile(wire: Path) -> None:
    """Nothing needs to push it into the kernel: sending after a pause fetches the letter, before any ACK."""
    with loaded() as datapath:
        driver = Driver(datapath, datapath.install(_native.compile(EVERY_ACK)))
        with wire.receiver.call(lambda: socket.create_server(("", 0))) as server:
            client = wire.sender.call(socket.socket)
            with client:
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"ccp")
                client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
                client.connect((wire.receiver.ipv4, server.getsockname()[1]))
                driver.until(lambda: driver.seen.created)
                flow = driver.seen.created[0]
                window_pkts = 3 * flow.init_cwnd_bytes // flow.mss_bytes
                assert datapath.update(flow.flow_id, cwnd_bytes=window_pkts * flow.mss_bytes)
                wire.receiver.run(["ip", "route", "add", "blackhole", wire.sender.ipv4])  # no ACK comes
                client.sendall(bytes(2 * window_pkts * flow.mss_bytes))
                info = client.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
                assert struct.unpack_from("=I", info, TCPI_UNACKED)[0] == window_pkts


def test_a_program_is_replaced_under_a_live_flow(path_100mbit: Path, start_transfer: Start) -> None:
    with loaded() as datapath:
        first = datapath.install(_native.compile(CONST, name="first"))
        second = datapath.install(_native.compile(CONST.replace("144800", "28960"), name="second"))
        driver = Driver(datapath, first)
        transfer = start_transfer(path_100mbit.sender, path_100mbit.receiver, congestion="ccp", duration_s=3)
        driver.until(lambda: len(driver.seen.reports) > 30)
        flow_id = driver.seen.busiest()
        assert {r.program for r in driver.seen.reports} == {"first"}
        # initial values go along with the program
        assert datapath.update(flow_id, program=second, registers={"target": 14480})
        driver.until(lambda: driver.seen.reports[-1].program == "second")
        changed = len(driver.seen.reports)
        driver.until(lambda: len(driver.seen.reports) > changed + 5)
        assert {r.window for r in driver.seen.reports[changed:]} == {14480}
        datapath.uninstall(first)
        driver.until(lambda: not transfer.running)
        assert transfer.wait().goodput_bit_per_s > 1e6


def test_reports_bring_back_the_stamp_of_the_message(path_100mbit: Path, start_transfer: Start) -> None:
    with loaded() as datapath:
        first, second = (datapath.install(_native.compile(CONST, name=name)) for name in ("first", "second"))
        driver = Driver(datapath, first)
        start_transfer(path_100mbit.sender, path_100mbit.receiver, congestion="ccp", duration_s=2)
        driver.until(lambda: len(driver.seen.reports) > 30)
        flow_id = driver.seen.busiest()
        assert {report.program_handle for report in driver.seen.reports} == {first}
        again = first | 2 << 16
        assert datapath.update(flow_id, program=second | 1 << 16)
        assert datapath.update(flow_id, program=again)
        before = len(driver.seen.of(flow_id))
        driver.until(lambda: len(driver.seen.of(flow_id)) > before + 20)
        handles = [report.program_handle for report in driver.seen.of(flow_id)[before:]]
        came = handles.index(again)
        assert set(handles[:came]) <= {first, second | 1 << 16}
        assert set(handles[came:]) == {again}


def test_an_uninstalled_program_hands_its_flows_to_the_fallback(
    path_100mbit: Path, start_transfer: Start
) -> None:
    with loaded() as datapath:
        handle = datapath.install(_native.compile(CONST.replace("144800", "2896")))
        driver = Driver(datapath, handle)
        start_transfer(path_100mbit.sender, path_100mbit.receiver, congestion="ccp", duration_s=3)
        driver.until(lambda: len(driver.seen.reports) > 30)
        flow_id = driver.seen.busiest()
        datapath.uninstall(handle)
        driver.run_for(1.0)
        stats = datapath.stats(flow_id)
        assert stats is not None
        assert stats.fallback
        assert stats.cwnd_bytes > 10 * 1448, "CUBIC grows what the program held at two segments"


def test_registration_of_names(wire: Path, start_transfer: Start) -> None:
    with loaded() as datapath:
        datapath.register("ccp.one")
        datapath.register("ccp.one")  # already there: nothing happens
        assert datapath.registered() == ["ccp", "ccp.one"]
        driver = Driver(datapath, None)
        transfer = start_transfer(wire.sender, wire.receiver, congestion="ccp.one", total_bytes=100 << 10)
        driver.until(lambda: not transfer.running)
        assert {info.cc_name for info in driver.seen.created} == {"ccp.one"}
        with pytest.raises(CcpError, match=r"register\.name"):
            datapath.register("ccp.much_too_long_a_name")
        datapath.unregister("ccp.one")
        assert datapath.registered() == ["ccp"]
        with pytest.raises(CcpError, match=r"register\.unknown"):
            datapath.unregister("ccp.one")


def test_unload_removes_everything_and_says_so() -> None:
    datapath = _native.EbpfDatapath(pin_dir=PIN_DIR, max_flows=16)
    datapath.close()
    removed, _, left = _native.EbpfDatapath.unload(PIN_DIR)
    assert "congestion control ccp" in removed
    assert left == []
    assert "map flows" in removed
    assert _native.EbpfDatapath.unload(PIN_DIR) == ([], [], [])
    with pytest.raises(CcpError, match=r"load\.not_loaded"):
        _native.EbpfDatapath.observe(PIN_DIR)
    with open("/proc/sys/net/ipv4/tcp_available_congestion_control") as names:
        assert "ccp" not in names.read().split()


def test_a_datapath_of_other_sizes_is_replaced() -> None:
    with loaded(max_flows=16) as datapath:
        datapath.close()
        again = _native.EbpfDatapath(pin_dir=PIN_DIR, max_flows=16)
        assert again.adopted
        again.close()
        other = _native.EbpfDatapath(pin_dir=PIN_DIR, max_flows=32)
        assert other.adopted, "its registrations are those of before"
        assert other.counters()["max_flows"] == 32
        other.close()


def test_a_waiting_poll_ends_when_another_thread_wakes_it() -> None:
    with loaded() as datapath:
        datapath.wake()
        began_s = time.monotonic()
        assert len(datapath.poll(60_000)) == 0, "a wake-up before the wait counts"
        threading.Timer(0.2, datapath.wake).start()
        assert len(datapath.poll(60_000)) == 0
        assert 0.1 < time.monotonic() - began_s < 30


@pytest.mark.parametrize(
    "options",
    [
        {"max_flows": 0},
        {"max_flows": 65_537},
        {"ring_bytes": 5000},
        {"heartbeat_timeout_ms": 10},
        {"report_timeout_ms": 10},
    ],
)
def test_absurd_options_are_refused(options: dict[str, int]) -> None:
    with pytest.raises(CcpError, match=r"load\.option"):
        _native.EbpfDatapath(pin_dir=PIN_DIR, **options)


def test_a_report_names_the_fields_it_has(wire: Path, start_transfer: Start) -> None:
    with loaded() as datapath:
        driver = Driver(datapath, datapath.install(_native.compile(EVERY_ACK)))
        # A megabyte may be over before the program is there.
        start_transfer(wire.sender, wire.receiver, congestion="ccp", duration_s=20)
        driver.until(lambda: driver.seen.reports)
        report = driver.seen.reports[0]
        assert report.as_dict().keys() == {"acked", "lost", "timeouts"}
        with pytest.raises(AttributeError, match="does not report `ackde`; it reports acked, lost, timeouts"):
            _ = report.ackde
