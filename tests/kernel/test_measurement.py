"""What folds measure: right, complete, and never lost."""

from __future__ import annotations

import numpy as np
import pytest

from ccp_algs import Algorithm
from ccplane.base import _native
from experiments.netlab import Path, bottleneck
from tests.kernel.driving import EVERY_ACK, Driver, Start, loaded, wait_until
from tests.kernel.echoes import INBAND
from tests.unit.ccp_algs.simulated import Bottleneck

ALL = """
(def (Report
    (volatile acked 0) (volatile packets 0) (volatile lost 0)
    (mss 0) (srtt 0) (min_rtt 0) (delivered 0) (lost_total 0) (retrans 0) (ca_state 0) (app_limited false)
    (ssthresh 0) (total 0) (rate_out 0) (rate_in 0) (in_flight 0) (in_flight_pkts 0) (pending 0)
    (limited false) (ecn_ok false)))
(when true
    (:= Report.acked (+ Report.acked Ack.bytes_acked))
    (:= Report.packets (+ Report.packets (+ Ack.packets_acked Ack.packets_misordered)))
    (:= Report.lost (+ Report.lost Ack.lost_pkts_sample))
    (:= Report.mss Flow.mss)
    (:= Report.srtt Flow.srtt_us)
    (:= Report.min_rtt Flow.min_rtt_us)
    (:= Report.delivered Flow.delivered)
    (:= Report.lost_total Flow.lost)
    (:= Report.retrans Flow.retrans)
    (:= Report.ca_state Flow.ca_state)
    (:= Report.app_limited Flow.app_limited)
    (:= Report.ssthresh Flow.snd_ssthresh)
    (:= Report.total Flow.delivered_bytes)
    (:= Report.rate_out Flow.rate_outgoing)
    (:= Report.rate_in Flow.rate_incoming)
    (:= Report.in_flight Flow.bytes_in_flight)
    (:= Report.in_flight_pkts Flow.packets_in_flight)
    (:= Report.pending Flow.bytes_pending)
    (:= Report.limited Flow.cwnd_limited)
    (:= Report.ecn_ok Flow.ecn_ok)
    (:= Cwnd 289600)
    (fallthrough))
(when (|| (> Micros 10000) Flow.was_timeout) (report) (:= Micros 0))
"""


SUMS = """
(def (Report (volatile acked 0) (total 0)) (period 0))
(when true
    (:= Report.acked (+ Report.acked Ack.bytes_acked))
    (:= Report.total Flow.delivered_bytes)
    (fallthrough))
(when (|| (== period 0) (> Micros period)) (report) (:= Micros 0))
"""


def test_where_none_echoes_the_telemetry_of_a_flow_is_infinitely_old(
    wire: Path, start_transfer: Start
) -> None:
    with loaded() as datapath:
        driver = Driver(datapath, datapath.install(_native.compile(INBAND)))
        # Long enough for the program to come in time, however late this process is.
        start_transfer(wire.sender, wire.receiver, congestion="ccp", total_bytes=2 << 30)
        driver.until(lambda: len(driver.seen.reports) > 3)
        for report in driver.seen.reports:
            assert list(report.as_dict().values()) == [(1 << 64) - 1, *[0] * 13]


def test_no_byte_is_lost_when_the_ring_is_full(wire: Path, start_transfer: Start) -> None:
    """The rule of the house: with a ring too small, reports are fewer and their sums the same."""
    with loaded(ring_bytes=4096, heartbeat_timeout_ms=60_000) as datapath:
        driver = Driver(datapath, datapath.install(_native.compile(SUMS)))
        transfer = start_transfer(wire.sender, wire.receiver, congestion="ccp", total_bytes=2 << 30)
        driver.until(lambda: len(driver.seen.reports) > 3)
        # Nobody reads until the ring of 40 reports has refused 100, however fast or slow this machine is.
        wait_until(lambda: datapath.counters()["reports_missed"] > 100)
        assert transfer.running
        flow_id = max(driver.seen.reports, key=lambda r: r.acked).flow_id
        # From now on there is room: for the end, too, which is an event as others.
        datapath.update(flow_id, registers={"period": 10_000})
        driver.until(lambda: flow_id in driver.seen.closed, timeout_s=600)
        reports = driver.seen.of(flow_id)
        assert datapath.counters()["reports_missed"] > 100
        assert sum(r.missed for r in reports) > 100
        # What ACKs bring before the program is there, or after the last report, is not the ring's loss.
        before = reports[0].total - reports[0].acked
        assert before + sum(r.acked for r in reports) == reports[-1].total
        assert driver.seen.closed[flow_id].bytes_acked == pytest.approx(2 << 30, rel=0.001)


def test_primitives_agree_with_the_kernels_own_account(start_transfer: Start) -> None:
    with bottleneck(rate_bytes_per_s=12.5e6, buffer_bytes=64_000) as path, loaded() as datapath:
        # An offloaded packet that is larger than the queue would never pass it.
        path.sender.run(["ip", "link", "set", "dev", path.sender.interfaces[0].name, "gso_max_segs", "16"])
        driver = Driver(datapath, datapath.install(_native.compile(ALL)))
        transfer = start_transfer(path.sender, path.receiver, congestion="ccp", duration_s=3, mss_bytes=1000)
        driver.until(lambda: not transfer.running)
        driver.until(lambda: len(driver.seen.closed) == len(driver.seen.created))
        info = driver.seen.sender()
        reports, exit_stats = driver.seen.of(info.flow_id), driver.seen.closed[info.flow_id]
        seen = transfer.wait()
        last = reports[-1]
        assert last.mss == exit_stats.mss_bytes < 1000
        assert sum(r.acked for r in reports) <= last.total <= exit_stats.bytes_acked
        assert last.delivered <= exit_stats.delivered_pkts
        assert exit_stats.retrans_pkts >= (seen.retransmits_pkts or 0) > 0, (
            "a window beyond the buffer loses packets"
        )
        assert sum(r.lost for r in reports) == last.lost_total
        assert last.min_rtt <= last.srtt
        assert seen.rtt_min_us is not None
        assert seen.rtt_max_us is not None
        assert min(r.srtt for r in reports) <= seen.rtt_max_us
        assert max(r.srtt for r in reports) >= seen.rtt_min_us
        assert {3} <= {r.ca_state for r in reports}, "recovery was seen"
        assert all(r.in_flight == r.in_flight_pkts * r.mss for r in reports)
        assert reports[0].ssthresh == 2**64 - 1 or reports[0].ca_state > 1
        assert last.ssthresh < 2**40
        # 100 Mbit/s with headers of 66 bytes a segment: rates are right although the MSS is not 1500. Not the
        # median: a slow machine does not keep the link full all the time.
        goodput = 12.5e6 * last.mss / (last.mss + 66)
        assert np.quantile([r.rate_in for r in reports], 0.75) == pytest.approx(goodput, rel=0.1)


IN_FLIGHT = """
(def (Report
    (delivered 0) (prior_delivered 0) (in_flight 0) (prior_in_flight 0) (lost 0) (total 0) (sent 0) (mss 0))
    (target 14480))
(when true
    (:= Report.delivered Flow.delivered)
    (:= Report.prior_delivered Flow.prior_delivered)
    (:= Report.in_flight Flow.packets_in_flight)
    (:= Report.prior_in_flight Flow.prior_in_flight)
    (:= Report.lost Flow.lost)
    (:= Report.total Flow.delivered_bytes)
    (:= Report.sent Flow.sent_bytes)
    (:= Report.mss Flow.mss)
    (:= Cwnd target)
    (report))
"""
"""Every ACK, with a window of 10 packets, which wait in front of the bottleneck."""


def on_the_kernel(start_transfer: Start) -> list[dict[str, int]]:
    with bottleneck(rate_bytes_per_s=12.5e6, buffer_bytes=64_000) as path, loaded() as datapath:
        # One packet a segment, as in the simulator.
        path.sender.run(["ip", "link", "set", "dev", path.sender.interfaces[0].name, "gso_max_segs", "1"])
        driver = Driver(datapath, datapath.install(_native.compile(IN_FLIGHT)))
        transfer = start_transfer(path.sender, path.receiver, congestion="ccp", duration_s=3)
        driver.until(lambda: not transfer.running)
        flow_id = driver.seen.sender().flow_id
        return [report.as_dict() for report in driver.seen.of(flow_id)]


def in_the_simulator() -> list[dict[str, int]]:
    class Window(Algorithm):
        """Ten packets."""

        program = IN_FLIGHT
        state = "window"

    net = Bottleneck(Window, 12.5e6, 200)
    net.run(3)
    return [fields for _, _, fields in net.flows[0].reports]


def test_what_was_in_flight_is_the_same_in_the_kernel_and_in_the_simulator(start_transfer: Start) -> None:
    both = on_the_kernel(start_transfer), in_the_simulator()
    for acks in both:
        steady = acks[len(acks) // 2 :]
        assert len(steady) > 300
        assert all(ack["sent"] >= ack["total"] for ack in acks)
        assert all(ack["prior_delivered"] < ack["delivered"] for ack in acks)
        delivering = [ack for ack in steady if ack["prior_delivered"]]
        assert len(delivering) > 0.9 * len(steady)
        # What is in flight when a packet is sent is delivered when it arrives; the window is 10.
        for seen in (
            [ack["delivered"] - ack["prior_delivered"] for ack in delivering],
            [ack["prior_in_flight"] for ack in delivering],
        ):
            assert 8 <= np.median(seen) <= 10, "an ACK is for two packets"
            assert np.quantile(seen, 0.95) <= 10, "but for loss probes"
        assert max(ack["sent"] - ack["total"] for ack in steady) <= 11 * steady[0]["mss"]
        same = [round((ack["sent"] - ack["total"]) / ack["mss"]) == ack["in_flight"] for ack in steady]
        assert np.mean(same) > 0.95, "without losses"


def test_silence_is_reported_by_the_timeout(path_100mbit: Path, start_transfer: Start) -> None:
    # Not at full speed: the receiver's window closes for moments there, and then no timeout is due.
    path = path_100mbit
    with loaded() as datapath:
        driver = Driver(datapath, datapath.install(_native.compile(ALL)))
        start_transfer(path.sender, path.receiver, congestion="ccp", duration_s=4)
        driver.until(lambda: any(report.total > 1 << 20 for report in driver.seen.reports))
        path.receiver.run(["ip", "link", "set", path.receiver.interfaces[0].name, "down"])
        driver.until(lambda: any(r.timeout for r in driver.seen.reports), timeout_s=5)
        report = next(r for r in driver.seen.reports if r.timeout)
        assert report.pending > 0, "data is outstanding"
        assert report.in_flight == 0, "and the kernel counts all of it as lost"
        assert report.ca_state == 4


def test_a_refusing_local_queue_is_seen(start_transfer: Start) -> None:
    source = """
    (def (Report (volatile local 0)) (target 14480))
    (when true
        (:= Report.local (+ Report.local Flow.local_congestion))
        (:= Cwnd target)
        (fallthrough))
    (when (> Micros 10000) (report) (:= Micros 0))
    """
    with bottleneck(12.5e6, 32_000, shaper_at="sender") as path, loaded() as datapath:
        # tbf tells nobody when it drops a part of an offloaded packet: send single segments
        device = path.sender.interfaces[0].name
        path.sender.run(["ip", "link", "set", "dev", device, "gso_max_segs", "1"])
        driver = Driver(datapath, datapath.install(_native.compile(source)))
        start_transfer(path.sender, path.receiver, congestion="ccp", duration_s=40)
        driver.until(lambda: len(driver.seen.reports) > 20)
        flow_id = driver.seen.busiest()
        driver.run_for(0.3)
        calm = sum(r.local for r in driver.seen.reports)
        # ten times what the queue holds: it refuses packets while the flow is in state Open
        assert datapath.update(flow_id, registers={"target": 320_000})
        driver.until(lambda: sum(r.local for r in driver.seen.reports) > calm)
        stats = datapath.stats(flow_id)
        assert stats is not None
        assert stats.local_congestion > 0


def test_a_division_by_zero_is_counted_and_the_flow_goes_on(
    path_100mbit: Path, start_transfer: Start
) -> None:
    source = """
    (def (Report (volatile acked 0) (x 0)) (divisor 0))
    (when true
        (:= Report.acked (+ Report.acked Ack.bytes_acked))
        (:= Report.x (/ 1000 divisor))
        (report))
    """
    with loaded() as datapath:
        driver = Driver(datapath, datapath.install(_native.compile(source)))
        transfer = start_transfer(path_100mbit.sender, path_100mbit.receiver, congestion="ccp", duration_s=2)
        driver.until(lambda: datapath.counters()["fold_errors"] > 100)
        assert not driver.seen.reports
        for info in driver.seen.created:
            datapath.update(info.flow_id, registers={"divisor": 10})
        driver.until(lambda: len(driver.seen.reports) > 3)
        assert any(r.fold_error for r in driver.seen.reports)
        assert driver.seen.reports[-1].x == 100
        driver.until(lambda: not transfer.running)
        assert transfer.wait().goodput_bit_per_s > 1e6


def test_rates_are_paced_and_windows_keep_their_bounds(path_100mbit: Path, start_transfer: Start) -> None:
    with loaded(max_cwnd_bytes=1 << 20) as datapath:
        source = "(def (Report (w 0)) (target 0)) (when true (:= Cwnd target) (:= Report.w Cwnd) (report))"
        driver = Driver(datapath, datapath.install(_native.compile(source)))
        start_transfer(path_100mbit.sender, path_100mbit.receiver, congestion="ccp", duration_s=3)
        driver.until(lambda: len(driver.seen.reports) > 3)
        flow_id = driver.seen.busiest()
        datapath.update(flow_id, rate_bytes_per_s=1_000_000, registers={"target": 144_800})
        driver.run_for(0.3)
        before = datapath.stats(flow_id)
        driver.run_for(1.0)
        after = datapath.stats(flow_id)
        assert before is not None
        assert after is not None
        rate = (after.bytes_acked - before.bytes_acked) / ((after.now_us - before.now_us) / 1e6)
        assert rate == pytest.approx(1_000_000, rel=0.1), "pacing works without fq"
        assert after.pacing_rate_bytes_per_s == 1_000_000
        datapath.update(flow_id, rate_bytes_per_s=0)
        for target, minimum, maximum in ((1, 2 * 1448, 2 * 1448), (2**64 - 1, (1 << 20) - 1448, 1 << 20)):
            datapath.update(flow_id, registers={"target": target})
            driver.run_for(0.3)
            stats = datapath.stats(flow_id)
            assert stats is not None
            assert minimum <= stats.cwnd_bytes <= maximum


def test_rates_above_32_bits_reach_the_socket(wire: Path, start_transfer: Start) -> None:
    with loaded() as datapath:
        driver = Driver(datapath, datapath.install(_native.compile(EVERY_ACK)))
        transfer = start_transfer(wire.sender, wire.receiver, congestion="ccp", duration_s=1)
        driver.until(lambda: len(driver.seen.reports) > 3)
        flow_id = driver.seen.busiest()
        assert datapath.update(flow_id, rate_bytes_per_s=12_500_000_000)
        driver.until(lambda: not transfer.running)
        driver.until(lambda: flow_id in driver.seen.closed)
        assert driver.seen.closed[flow_id].pacing_rate_bytes_per_s == 12_500_000_000
