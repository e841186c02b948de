"""`ccp receive` on real sockets: what it says is what the network did and what others measured."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from experiments.bench.signal import add_broker_host, mosquitto
from experiments.netlab import Host, iperf3, process
from experiments.netlab.emulated import emulated
from experiments.netlab.host import Family
from experiments.netlab.spec import Direction, DropTail, Pattern
from experiments.netlab.topologies import point_to_point

pytestmark = pytest.mark.kernel(struct_ops=False)

CCP = str(Path(sys.executable).with_name("ccp"))
RATE_BYTES_PER_S = 2.5e6
LATE_US = 4_000
"""How much later than due a packet may be on a machine that does other things."""

Signal = dict[str, Any]


class Receiving:
    """`ccp receive` while it runs.

    Attributes:
        how: What it said of its sources.
    """

    def __init__(self, running: process.Process) -> None:
        """Wait until it measures."""
        self._running = running
        self.how: list[str] = []
        assert running.stderr is not None
        for line in running.stderr:
            self.how.append(line.rstrip())
            if line.startswith("CE marks"):
                return
        raise AssertionError("\n".join(self.how))

    def next(self, count: int = 1) -> list[Signal]:
        """Return the signals that come next."""
        assert self._running.stdout is not None
        return [json.loads(self._running.stdout.readline()) for _ in range(count)]

    def stop(self, number: signal.Signals = signal.SIGTERM) -> list[Signal]:
        """End it; return all signals that were not taken yet."""
        self._running.send_signal(number)
        out, _ = self._running.communicate(timeout=20)
        assert self._running.returncode == 0
        return [json.loads(line) for line in out.splitlines()]


@contextlib.contextmanager
def receiving(host: Host, *options: str) -> Iterator[Receiving]:
    """Run `ccp receive --json` in a host."""
    pipe = subprocess.PIPE
    running = host.popen([CCP, "receive", "--json", *options], stdout=pipe, stderr=pipe)
    try:
        yield Receiving(running)
    finally:
        process.end([running])


def summed(signals: list[Signal], name: str) -> int:
    """Return the sum of what was measured."""
    found = [one[name] for one in signals if one[name] is not None]
    assert found, name
    return sum(found)


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
        with receiving(receiver, "--peer", peer, "--interval-ms", "500", "--probe-ms", "10") as agent:
            for one in agent.next(3)[1:]:
                assert (one["peer"], one["address"]) == (peer, receiver.address(family))
                assert one["rtt_samples"] > 20
                assert 20_000 <= one["rtt_min_us"] <= one["rtt_p50_us"] < 20_000 + LATE_US
                assert one["rtt_p50_us"] <= one["rtt_p95_us"] <= one["rtt_p99_us"] <= one["rtt_max_us"]
                assert 0 <= one["jitter_us"] < LATE_US
                assert one["flows"] == 0
                assert one["goodput_bytes_per_s"] is None  # nothing to measure is not nothing measured


def test_a_peer_that_does_not_answer_has_no_rtt() -> None:
    with emulated(point_to_point(Direction(delay_us=1000))) as net:
        sender, receiver = net.hosts["sender"], net.hosts["receiver"]
        sender.set_sysctl("net.ipv4.icmp_echo_ignore_all", 1)
        with receiving(receiver, "--peer", sender.ipv4, "--interval-ms", "300") as agent:
            assert [one["rtt_p99_us"] for one in agent.next(2)] == [None, None]
            sender.set_sysctl("net.ipv4.icmp_echo_ignore_all", 0)
            assert agent.next(3)[-1]["rtt_min_us"] >= 2000


@pytest.mark.parametrize("family", ["ipv4", "ipv6"])
def test_udp_probes_measure_where_icmp_is_closed(family: Family) -> None:
    with emulated(point_to_point(Direction(delay_us=10_000))) as net:
        sender, receiver = net.hosts["sender"], net.hosts["receiver"]
        sender.set_sysctl("net.ipv4.icmp_echo_ignore_all", 1)
        responder = sender.popen([CCP, "receive", "--respond", "--port", "7000"], stderr=subprocess.PIPE)
        assert responder.stderr is not None
        assert "UDP port 7000" in responder.stderr.readline()
        options = [
            "--peer",
            sender.address(family),
            "--probe",
            "udp",
            "--port",
            "7000",
            "--interval-ms",
            "500",
        ]
        with receiving(receiver, *options) as agent:
            assert "RTT and jitter: UDP echo, port 7000" in agent.how
            assert 20_000 <= agent.next(2)[-1]["rtt_p50_us"] < 20_000 + LATE_US
        responder.send_signal(signal.SIGTERM)
        assert responder.wait(10) == 0


def test_unprivileged_users_measure_with_ping_sockets_and_are_told_how_to_without() -> None:
    with emulated(point_to_point(Direction(delay_us=1000))) as net:
        sender, receiver = net.hosts["sender"], net.hosts["receiver"]
        command = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all", CCP]
        command += ["receive", "--json", "--interval-ms", "200", "--peer", sender.ipv4, "--peer", sender.ipv6]
        pipe = subprocess.PIPE
        for allowed, found in (("0 65534", "RTT and jitter: ICMP echo (ping socket)"), ("1 0", "no_icmp")):
            receiver.set_sysctl("net.ipv4.ping_group_range", allowed)
            running = receiver.popen(command, stdout=pipe, stderr=pipe)
            agent = Receiving(running)
            assert any(found in line for line in agent.how), agent.how
            signals = agent.next(4)[2:]
            assert [one["rtt_p50_us"] is not None for one in signals] == [allowed == "0 65534"] * 2
            assert [one["flows"] for one in signals] == [0, 0]
            agent.stop()


# --- transfers ---------------------------------------------------------------------------------------------


def test_goodput_is_what_iperf3_received() -> None:
    with emulated(point_to_point(Direction(rate_bytes_per_s=RATE_BYTES_PER_S, delay_us=5000))) as net:
        sender, receiver = net.hosts["sender"], net.hosts["receiver"]
        with receiving(receiver, "--interval-ms", "500") as agent:
            result = iperf3(sender, receiver, congestion="cubic", duration_s=5)
            signals = agent.stop()
    assert {one["peer"] for one in signals} == {sender.ipv4}
    busy = [one["goodput_bytes_per_s"] for one in signals if one["goodput_bytes_per_s"]]
    middle = sorted(busy)[len(busy) // 2]
    assert middle == pytest.approx(result.goodput_bytes_per_s, rel=0.05)
    assert all(one["rtt_p50_us"] is None for one in signals)  # peers that were not named are not probed
    assert max(one["flows"] for one in signals) == 2  # iperf3's control connection, too


def test_every_ce_mark_is_counted_once() -> None:
    marking = Direction(
        rate_bytes_per_s=RATE_BYTES_PER_S, delay_us=5000, queue=DropTail(ce_threshold_us=5000)
    )
    with emulated(point_to_point(marking)) as net:
        sender, receiver = net.hosts["sender"], net.hosts["receiver"]
        for host in (sender, receiver):
            host.set_sysctl("net.ipv4.tcp_ecn", 1)
        with receiving(receiver, "--peer", sender.ipv4, "--interval-ms", "250") as agent:
            iperf3(sender, receiver, congestion="cubic", duration_s=4)
            agent.next()
            signals = agent.next(40)
        marked = net.stats()["link>"].marked_pkts
        counted = netstat(receiver, "IpExtInCEPkts")
    assert marked > 10
    # The emulator hands segments of the same moment over as one, as network cards do; those count once.
    assert counted == pytest.approx(marked, rel=0.1)
    # What a socket counts between its last reading and its end is not seen.
    assert 0.95 * counted <= summed(signals, "ce_marks") <= counted


def test_gaps_duplicates_and_losses_are_seen_from_both_ends() -> None:
    lossy = Direction(
        rate_bytes_per_s=RATE_BYTES_PER_S,
        delay_us=5000,
        loss=Pattern(drop=(150,), repeat_every_pkts=300),
        duplicate_ratio=0.02,
    )
    with emulated(point_to_point(lossy)) as net:
        sender, receiver = net.hosts["sender"], net.hosts["receiver"]
        with receiving(receiver, "--interval-ms", "250") as there, receiving(sender) as here:
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
        ours = ["--peer", sender.ipv4, "--broker", f"mqtt://{for_receiver}", "--sender", "here"]
        theirs = ["--peer", receiver.ipv4, "--broker", f"mqtt://{for_sender}", "--sender", "there"]
        often = ["--interval-ms", "250"]
        with (
            mosquitto(broker),
            receiving(receiver, *ours, *often) as here,
            receiving(sender, *theirs, *often) as there,
        ):
            result = iperf3(sender, receiver, congestion="cubic", duration_s=4)
            heard, said = here.next(40), there.next(40)
    assert summed(said, "loss_pkts") == pytest.approx(result.retransmits_pkts, rel=0.3)
    assert summed(heard, "retrans_pkts") == pytest.approx(summed(said, "loss_pkts"), rel=0.3)
    assert not any(one["retrans_pkts"] for one in said)  # next to nothing went the other way
