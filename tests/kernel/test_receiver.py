"""`ccp telemetry receive` on real sockets: what it says is what the network did and what others measured."""

from __future__ import annotations

import contextlib
import signal
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ccplane.base._native import TcpArrivals
from experiments.netlab import Host, iperf3
from experiments.netlab.brokers import add_broker_host, broker_on
from experiments.netlab.emulated import emulated
from experiments.netlab.spec import Buffer, Direction, DropTail, Family, Pattern
from experiments.netlab.topologies import point_to_point
from tests.kernel.driving import inode
from tests.kernel.receiving import CCP, Receiving, Signal, receiving, summed
from tests.repeating import repeating

pytestmark = pytest.mark.kernel(struct_ops=False)

RATE_BYTES_PER_S = 2.5e6
LATE_US = 4_000
"""How much later than due a packet may be on a machine that does other things."""


def ce_marks(sock: socket.socket) -> int | None:
    """Return how many marks a socket has counted itself; None where the kernel does not count them."""
    raw = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 512)
    return struct.unpack_from("=I", raw, 248)[0] if len(raw) >= 252 else None


class Connection:
    """A connection between two hosts; whatever arrives is read.

    Attributes:
        near: The sender's socket.
        far: The receiver's.
    """

    def __init__(self, sender: Host, listener: socket.socket) -> None:
        """Connect."""
        self.near = sender.tcp_socket(
            "ipv6" if listener.family == socket.AF_INET6 else "ipv4", congestion="cubic"
        )
        self.near.settimeout(30)
        self.near.connect(listener.getsockname())
        self.far, (_, self._port, *_) = listener.accept()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        while self.far.recv(1 << 16):
            pass

    def finish(self) -> None:
        """Say that this was all, and wait until it has arrived."""
        self.near.shutdown(socket.SHUT_WR)
        self._reader.join()

    def close(self) -> None:
        """Close both ends."""
        with contextlib.suppress(OSError):  # finished before
            self.finish()
        self.near.close()
        self.far.close()

    def of(self, signals: list[Signal]) -> list[Signal]:
        """Return its signals among those of other flows."""
        return [one for one in signals if one["flow"] is not None and one["flow"]["src_port"] == self._port]


@contextlib.contextmanager
def listening(host: Host, family: Family = "ipv4") -> Iterator[socket.socket]:
    """Listen for connections on a host."""
    with host.tcp_socket(family) as listener:
        listener.bind((host.address(family), 0))
        listener.listen()
        yield listener


@contextlib.contextmanager
def trickling(sock: socket.socket) -> Iterator[None]:
    """Send little, but all the time, so that nothing queues."""
    with repeating(lambda: sock.send(b"x" * 200), 0.002):
        yield


def netstat(host: Host, name: str) -> int:
    """Return a counter of a host as `nstat` names it."""
    lines = host.call(lambda: Path("/proc/thread-self/net/netstat").read_text()).splitlines()
    for head, body in zip(lines[::2], lines[1::2], strict=True):
        group = head.partition(":")[0]
        if name.startswith(group):
            return int(dict(zip(head.split(), body.split(), strict=True))[name.removeprefix(group)])
    raise AssertionError(name)


# --- RTT ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", ["ipv4", "ipv6"])
def test_the_rtt_is_that_of_the_path(family: Family) -> None:
    with emulated(point_to_point(Direction(delay_us=10_000))) as net:
        sender, receiver = net.hosts["sender"], net.hosts["receiver"]
        peer = sender.address(family)
        with receiving(receiver, "--peer", peer, "--interval", "500", "--probe-interval", "10") as agent:
            reported = agent.next(4)[1:]
            for one in reported:
                assert (one["peer"], one["address"]) == (peer, receiver.address(family))
                assert one["rtt_samples"] > 20
                assert 20_000 <= one["rtt_min_us"] <= one["rtt_p50_us"] < 20_000 + LATE_US
                assert one["rtt_p50_us"] <= one["rtt_p95_us"] <= one["rtt_p99_us"] <= one["rtt_max_us"]
                assert one["flows"] == 0
                assert one["goodput_bytes_per_s"] is None  # nothing to measure is not nothing measured
            # A mean of differences: one stall of the machine is enough to make that of its window large.
            assert 0 <= min(one["jitter_us"] for one in reported) < LATE_US


def test_a_peer_that_does_not_answer_has_no_rtt() -> None:
    with emulated(point_to_point(Direction(delay_us=1000))) as net:
        sender, receiver = net.hosts["sender"], net.hosts["receiver"]
        sender.set_sysctl("net.ipv4.icmp_echo_ignore_all", 1)
        with receiving(receiver, "--peer", sender.ipv4, "--interval", "300") as agent:
            assert [one["rtt_p99_us"] for one in agent.next(2)] == [None, None]
            sender.set_sysctl("net.ipv4.icmp_echo_ignore_all", 0)
            assert agent.next(3)[-1]["rtt_min_us"] >= 2000


@pytest.mark.parametrize("family", ["ipv4", "ipv6"])
def test_udp_probes_measure_where_icmp_is_closed(family: Family) -> None:
    with emulated(point_to_point(Direction(delay_us=10_000))) as net:
        sender, receiver = net.hosts["sender"], net.hosts["receiver"]
        sender.set_sysctl("net.ipv4.icmp_echo_ignore_all", 1)
        responder = sender.popen(
            [CCP, "telemetry", "receive", "--respond", "--port", "7000"], stderr=subprocess.PIPE
        )
        assert responder.stderr is not None
        assert "UDP port 7000" in responder.stderr.readline()
        options = [
            "--peer",
            sender.address(family),
            "--probe",
            "udp",
            "--port",
            "7000",
            "--interval",
            "500",
        ]
        with receiving(receiver, *options) as agent:
            assert "RTT and jitter: UDP echo, port 7000" in agent.how
            assert 20_000 <= agent.next(2)[-1]["rtt_p50_us"] < 20_000 + LATE_US
        responder.send_signal(signal.SIGTERM)
        assert responder.wait(10) == 0


def test_unprivileged_users_measure_what_they_may_and_are_reported_how_to_do_the_rest() -> None:
    user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    cases = (
        ("0 65534", ["--inh-caps=-all"], ["ICMP echo (ping socket)", "receiver.no_kernel_probe"]),
        (
            "1 0",
            ["--inh-caps=-all,+bpf,+perfmon", "--ambient-caps=+bpf,+perfmon"],
            ["receiver.no_icmp", "CE marks: each TCP segment (kernel probe)"],
        ),
    )
    with emulated(point_to_point(Direction(delay_us=1000))) as net:
        sender, receiver = net.hosts["sender"], net.hosts["receiver"]
        command = [CCP, "telemetry", "receive", "--json", "--interval", "200", "--peer", sender.ipv4]
        with (
            listening(receiver) as listener,
            contextlib.closing(Connection(sender, listener)) as connection,
            trickling(connection.near),
        ):
            for pings, rights, said in cases:
                receiver.set_sysctl("net.ipv4.ping_group_range", pings)
                pipe = subprocess.PIPE
                agent = Receiving(receiver.popen([*user, *rights, *command], stdout=pipe, stderr=pipe))
                for words in said:
                    assert any(words in line for line in agent.how), agent.how
                one = agent.next(3)[-1]
                assert (one["rtt_p50_us"] is None) == ("receiver.no_icmp" in said)
                assert (one["owd_variation_us"] is None) == ("receiver.no_kernel_probe" in said)
                assert (one["flows"], one["ce_marks"]) == (1, 0)
                assert one["goodput_bytes_per_s"] > 0
                agent.stop()


# --- transfers ---------------------------------------------------------------------------------------------


def test_goodput_is_what_iperf3_received_and_one_way_delay_is_the_queue() -> None:
    buffer_us = 20_000
    full = Direction(
        rate_bytes_per_s=RATE_BYTES_PER_S,
        delay_us=5000,
        buffer=Buffer(bytes=int(RATE_BYTES_PER_S * buffer_us / 1e6)),
    )
    with emulated(point_to_point(full)) as net:
        sender, receiver = net.hosts["sender"], net.hosts["receiver"]
        with receiving(receiver, "--interval", "500") as agent:
            result = iperf3(sender, receiver, congestion="cubic", duration_s=5)
            signals = agent.stop()
    assert {one["peer"] for one in signals} == {sender.ipv4}
    busy = [one["goodput_bytes_per_s"] for one in signals if one["goodput_bytes_per_s"]]
    middle = sorted(busy)[len(busy) // 2]
    assert middle == pytest.approx(result.goodput_bytes_per_s, rel=0.05)
    queued_us = sorted(one["owd_variation_us"] for one in signals if one["goodput_bytes_per_s"])
    assert 0.8 * buffer_us <= queued_us[len(queued_us) // 2] <= 1.07 * (buffer_us + 1_000 + LATE_US)
    assert all(one["rtt_p50_us"] is None for one in signals)  # peers that were not named are not probed
    assert max(one["flows"] for one in signals) == 2  # iperf3's control connection, too


def test_without_the_probe_every_ce_mark_is_counted_once() -> None:
    marking = Direction(
        rate_bytes_per_s=RATE_BYTES_PER_S, delay_us=5000, queue=DropTail(ce_threshold_us=5000)
    )
    with emulated(point_to_point(marking)) as net:
        sender, receiver = net.hosts["sender"], net.hosts["receiver"]
        for host in (sender, receiver):
            host.set_sysctl("net.ipv4.tcp_ecn", 1)
        options = ["--peer", sender.ipv4, "--interval", "250", "--no-kernel-probe"]
        with receiving(receiver, *options) as agent:
            assert not any("one-way delay" in line for line in agent.how)
            iperf3(sender, receiver, congestion="cubic", duration_s=4)
            agent.next()
            signals = agent.next(40)
        marked = net.stats()["link>"].marked_pkts
        counted = netstat(receiver, "IpExtInCEPkts")
    assert marked > 10
    # The emulator hands segments of the same moment over as one, as network cards do; those count once.
    assert counted == pytest.approx(marked, rel=0.1)
    # What a socket counts between its last reading and its end is not seen: an interval, a 16th of the time,
    # in which more marks than elsewhere may come.
    assert 0.7 * counted <= summed(signals, "ce_marks") <= counted


@pytest.mark.parametrize("family", ["ipv4", "ipv6"])
def test_the_one_way_delay_varies_as_the_way_to_here_does(family: Family) -> None:
    near_us, far_us, tick_us = 5_000, 35_000, 1_000
    with emulated(point_to_point(Direction(delay_us=near_us), Direction(delay_us=1_000))) as net:
        sender, receiver = net.hosts["sender"], net.hosts["receiver"]
        options = ["--peer", sender.address(family), "--probe", "none", "--interval", "200"]
        with (
            listening(receiver, family) as listener,
            contextlib.closing(Connection(sender, listener)) as connection,
            receiving(receiver, *options) as agent,
            trickling(connection.near),
        ):
            assert (
                "one-way delay, retransmissions: each TCP segment (kernel probe, by its timestamp)"
                in agent.how
            )
            before = [one["owd_variation_us"] for one in agent.next(4)[1:]]
            net.change("link>", delay_us=far_us)
            agent.next()
            after = [one["owd_variation_us"] for one in agent.next(3)]
            net.change("link<", delay_us=far_us)  # the way back is none of its business
            net.change("link>", delay_us=near_us)
            agent.next()
            again = [one["owd_variation_us"] for one in agent.next(3)]
    added_us = far_us - near_us
    # Most intervals are quiet; one may meet a machine that does other things.
    assert 0 <= min(before) < tick_us + LATE_US
    assert added_us - tick_us <= 1.07 * min(after)
    assert min(after) <= 1.07 * (added_us + tick_us + LATE_US)
    assert 0 <= min(again) < tick_us + LATE_US


def test_the_min_delay_is_that_of_a_window_that_moves_on() -> None:
    near_us, far_us, window_us = 5_000, 35_000, 400_000
    bounds_us = TcpArrivals.bin_bounds_us()
    with emulated(point_to_point(Direction(delay_us=near_us))) as net:
        sender, receiver = net.hosts["sender"], net.hosts["receiver"]
        with (
            listening(receiver) as listener,
            contextlib.closing(Connection(sender, listener)) as connection,
            TcpArrivals(inode(receiver), window_us) as arrivals,
            trickling(connection.near),
        ):

            def median_us(wait_s: float) -> int:
                time.sleep(wait_s)
                (row,) = arrivals.drain()
                reached = row["bins"].cumsum()
                return bounds_us[int(reached.searchsorted(reached[-1] / 2))]

            assert median_us(0.3) < 1_000 + LATE_US
            net.change("link>", delay_us=far_us)
            grown_us = median_us(0.3)
            assert 0.8 * (far_us - near_us) <= grown_us <= far_us - near_us + 1_000 + LATE_US
            median_us(2 * window_us / 1e6)  # what was least is forgotten after one or two windows
            assert median_us(0.3) < 1_000 + LATE_US


def test_flows_are_reported_apart_and_every_mark_is_counted_at_its_flow_and_at_no_other_host() -> None:
    marking = Direction(
        rate_bytes_per_s=RATE_BYTES_PER_S, delay_us=5000, queue=DropTail(ce_threshold_us=5000)
    )
    with emulated(point_to_point(marking)) as net:
        sender, receiver = net.hosts["sender"], net.hosts["receiver"]
        for host in (sender, receiver):
            host.set_sysctl("net.ipv4.tcp_ecn", 1)
        options = ["--per-flow", "--probe", "none", "--interval", "250"]
        with (
            receiving(receiver, "--peer", sender.ipv4, *options) as agent,
            receiving(sender, *options) as other,
            listening(receiver) as listener,
            contextlib.closing(Connection(sender, listener)) as ecn,
        ):
            sender.set_sysctl("net.ipv4.tcp_ecn", 0)
            with contextlib.closing(Connection(sender, listener)) as plain:
                ecn.near.sendall(bytes(5_000_000))
                plain.near.sendall(bytes(500_000))
                for connection in (ecn, plain):
                    connection.finish()
                own = [ce_marks(connection.far) for connection in (ecn, plain)]
                marked = net.stats()["link>"].marked_pkts
                signals = agent.until_after(time.time_ns() // 1000)
                back = other.stop()
    assert marked > 10
    of_peer = [one for one in signals if one["flow"] is None]
    assert {one["peer"] for one in signals} == {sender.ipv4}
    assert summed(of_peer, "ce_marks") == pytest.approx(marked, rel=0.02)
    assert summed(ecn.of(signals), "ce_marks") == summed(of_peer, "ce_marks")
    assert summed(plain.of(signals), "ce_marks") == 0
    if own[0] is not None:  # Linux 6.18; there, what was merged counts once
        assert own[0] == pytest.approx(marked, rel=0.1)
        assert own[1] == 0
    full = [one["owd_variation_us"] or 0 for one in ecn.of(signals)]
    assert 5_000 < max(full) < 100_000, "there was a queue of more than the marking threshold"
    assert all(one["flow"]["dst"] == receiver.ipv4 for one in ecn.of(signals))
    assert {one["peer"] for one in back} == {receiver.ipv4}, "its own sockets only"
    assert summed([one for one in back if one["flow"]], "ce_marks") == 0


def test_gaps_duplicates_and_losses_are_seen_from_both_ends() -> None:
    lossy = Direction(
        rate_bytes_per_s=RATE_BYTES_PER_S,
        delay_us=5000,
        loss=Pattern(drop=(150,), repeat_every_pkts=300),
        duplicate_ratio=0.02,
    )
    with emulated(point_to_point(lossy)) as net:
        sender, receiver = net.hosts["sender"], net.hosts["receiver"]
        with receiving(receiver, "--interval", "250") as there, receiving(sender) as here:
            result = iperf3(sender, receiver, congestion="cubic", duration_s=4)
            seen, sent = there.stop(), here.stop()
        stats = net.stats()["link>"]
    assert summed(seen, "reordered_pkts") >= stats.dropped_loss_pkts > 5
    assert summed(seen, "duplicate_pkts") == pytest.approx(stats.duplicated_pkts, rel=0.3)
    assert summed(sent, "loss_pkts") == pytest.approx(result.retransmits_pkts, rel=0.3)


def test_what_the_peer_sent_again_comes_from_the_peer_itself() -> None:
    lossy = Direction(
        rate_bytes_per_s=RATE_BYTES_PER_S, delay_us=5000, loss=Pattern(drop=(150,), repeat_every_pkts=300)
    )
    with emulated(point_to_point(lossy)) as net:
        sender, receiver = net.hosts["sender"], net.hosts["receiver"]
        broker, for_sender, for_receiver = add_broker_host(net.lab, sender, receiver)
        mine = ["--peer", sender.ipv4, "--broker", f"mqtt://{for_receiver}", "--sender", "here"]
        foreign = ["--peer", receiver.ipv4, "--broker", f"mqtt://{for_sender}", "--sender", "there"]
        often = ["--interval", "250"]
        with (
            broker_on(broker),
            receiving(receiver, *mine, *often) as here,
            receiving(sender, *foreign, *often) as there,
        ):
            result = iperf3(sender, receiver, congestion="cubic", duration_s=4)
            received, said = here.next(40), there.next(40)
    assert summed(said, "loss_pkts") == pytest.approx(result.retransmits_pkts, rel=0.3)
    assert summed(received, "retrans_pkts") == pytest.approx(summed(said, "loss_pkts"), rel=0.3)
    assert not any(one["retrans_pkts"] for one in said)  # next to nothing went the other way
