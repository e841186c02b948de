"""`ccp telemetry receive --regime` on real paths, and retransmissions as the receiver infers them."""

from __future__ import annotations

import contextlib
import itertools
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from queue import Queue

import pytest

from broker.embedded import EmbeddedBroker
from experiments.netlab import Host
from experiments.netlab.emulated import EmulatedNetwork, emulated
from experiments.netlab.spec import Bernoulli, Buffer, Direction, Link, Topology
from experiments.netlab.topologies import point_to_point
from telemetry.bus import Bus
from telemetry.schema import RegimeDecision, Sample
from tests.kernel.receiving import Receiving, Signal, receiving, summed
from tests.repeating import repeating

pytestmark = pytest.mark.kernel(struct_ops=False)

RETRANS, REORDERED = 100, 224  # offsets of tcpi_total_retrans and tcpi_rcv_ooopack in struct tcp_info
RATE_BYTES_PER_S = 12.5e6

OFTEN = ("--probe", "none", "--interval", "250", "--per-flow")
DELTA_MS, COOLDOWN_S = 15, 0.5
SET = (f"delta_ms={DELTA_MS}", f"cooldown_s={COOLDOWN_S}")
FAST = ("--regime", "--regime-mode", "fast", "--param", SET[0], "--param", SET[1])


# --- decisions ---------------------------------------------------------------------------------------------


@contextlib.contextmanager
def dispatch(broker: EmbeddedBroker, sender: str) -> Iterator[Queue[Sample]]:
    """Listen to decisions."""
    received: Queue[Sample] = Queue()
    bus = Bus(broker.options, sender=sender, on_sample=received.put, kinds=("regime_decision",))
    bus.start()
    try:
        yield received
    finally:
        bus.stop()


def received_until(received: Queue[Sample], wanted: Callable[[RegimeDecision], bool]) -> Sample:
    """Return the first decision that is the one wanted."""
    while True:
        sample = received.get(timeout=30)
        assert isinstance(sample.body, RegimeDecision)
        if wanted(sample.body):
            return sample


def decided(agent: Receiving, wanted: Callable[[Signal], bool]) -> list[Signal]:
    """Return the decisions that are printed up to the one wanted."""
    found: list[Signal] = []
    while not found or not wanted(found[-1]):
        found += [one for one in agent.next() if one["kind"] == "regime_decision"]
    return found


def test_a_path_that_becomes_slow_is_reported_as_shared_and_an_unmeasured_one_not_at_all() -> None:
    path = point_to_point(Direction(delay_us=2_000))
    with EmbeddedBroker() as broker, emulated(path) as net, dispatch(broker, "first") as received:
        sender, receiver = net.hosts["sender"], net.hosts["receiver"]
        url = f"mqtt://{broker.options.host}:{broker.options.port}"  # out of the receiver's reach
        options = ["--peer", sender.ipv4, "--broker", url, *FAST]
        with receiving(receiver, *options, outside=True) as agent:
            quiet = received_until(received, lambda one: one.regime == "SINGLE_OWNER").body
            net.change("link>", delay_us=40_000)
            shared = received_until(received, lambda one: one.regime == "SHARED")
            lines = decided(agent, lambda one: bool(one["switched"]))
            with dispatch(broker, "late") as late:
                kept = late.get(timeout=30)
            net.change("link>", delay_us=2_000)
            lines += decided(agent, lambda one: one["regime"] == "SINGLE_OWNER")
            sender.set_sysctl("net.ipv4.icmp_echo_ignore_all", 1)
            while (one := agent.next()[0])["kind"] == "regime_decision" or one["rtt_samples"] is not None:
                pass
            blind = agent.next(5)
            sender.set_sysctl("net.ipv4.icmp_echo_ignore_all", 0)
            again = decided(agent, lambda _: True)
    assert isinstance(quiet, RegimeDecision)
    assert isinstance(shared.body, RegimeDecision)
    assert (quiet.peer, quiet.address, quiet.regime) == (sender.ipv4, receiver.ipv4, "SINGLE_OWNER")
    assert (quiet.estimate, quiet.flow) == ("SINGLE_OWNER", None)
    assert (shared.body.since_wall_us or 0) > (quiet.since_wall_us or 0)
    assert "tail RTT" in shared.body.reason
    assert shared.expires_us is not None
    assert shared.expires_us - shared.received_us <= 1_000_000, "the least time to live"
    assert kept.retained
    assert kept.body.regime == "SHARED"  # type: ignore[union-attr]

    # Three of five intervals make the estimate, three estimates in a row the regime; back the same.
    changes = [at for at, one in enumerate(lines) if one["switched"]]
    assert [lines[at]["regime"] for at in changes] == ["SHARED", "SINGLE_OWNER"]
    for at in changes:
        before = lines[at - 2 : at + 1]
        assert {one["estimate"] for one in before} == {lines[at]["regime"]}
    times_us = [lines[at]["t_mono_us"] for at in changes]
    assert times_us[1] - times_us[0] >= COOLDOWN_S * 1e6
    for one in lines:
        congested = one["rtt_tail_ms"] > one["baseline_ms"] + DELTA_MS
        assert one["score"] == int(congested)
        assert (one["ce_marks"], one["retransmits"]) == (None, None), "there is no connection"
    assert {one["kind"] for one in blind} == {"receiver_signal"}
    assert again[0]["regime"] == "SINGLE_OWNER"


# --- retransmissions ---------------------------------------------------------------------------------------


def counter(sock: socket.socket, offset: int) -> int:
    raw = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 512)
    return int(struct.unpack_from("=I", raw, offset)[0])


def transfer(sender: Host, receiver: Host, size_bytes: int) -> tuple[int, int]:
    """Send so much; return what the sender has sent again and what came out of order at the receiver."""
    with receiver.tcp_socket("ipv4") as listener, sender.tcp_socket("ipv4", "cubic") as near:
        listener.bind((receiver.ipv4, 0))
        listener.listen()
        near.connect(listener.getsockname())
        far, _ = listener.accept()
        with far:
            sending = threading.Thread(target=near.sendall, args=[bytes(size_bytes)])
            sending.start()
            while size_bytes:
                size_bytes -= len(far.recv(1 << 16))
            sending.join()
            time.sleep(0.1)  # the last ones that were sent for nothing are under way
            return counter(near, RETRANS), counter(far, REORDERED)


def two_ways(loss: Bernoulli | None) -> Topology:
    """Two ways between two routers, of which one is longer."""
    near, far = Direction(delay_us=2_000), Direction(delay_us=4_000)
    access = Direction(rate_bytes_per_s=RATE_BYTES_PER_S, buffer=Buffer(packets=1000), loss=loss)
    return Topology(
        hosts=("sender", "receiver"),
        routers=("left", "right"),
        links=(
            Link("access", "sender", "left", access),
            Link("short", "left", "right", near),
            Link("long", "left", "right", far, near),
            Link("exit", "right", "receiver"),
        ),
    )


@contextlib.contextmanager
def overtaking(net: EmulatedNetwork) -> Iterator[None]:
    """Change between the two ways all the time: what takes the short one overtakes."""
    ways = itertools.cycle(("short", "long"))
    with repeating(
        lambda: net.set_route(["sender", "left", next(ways), "right", "receiver"], both=False), 0.01
    ):
        yield


@pytest.mark.parametrize(("loss", "overtakes"), [(0.01, False), (0.01, True), (None, True)])
def test_the_receiver_knows_what_was_sent_again_from_what_is_late(
    loss: float | None, overtakes: bool
) -> None:
    drops = None if loss is None else Bernoulli(loss)
    with emulated(two_ways(drops)) as net, contextlib.ExitStack() as stack:
        sender, receiver = net.hosts["sender"], net.hosts["receiver"]
        agent = stack.enter_context(receiving(receiver, "--peer", sender.ipv4, *OFTEN))
        if overtakes:
            stack.enter_context(overtaking(net))
        sent_again, out_of_order = transfer(sender, receiver, 4_000_000)
        signals = agent.until_after(time.time_ns() // 1000)
        lost = sum(link.dropped_loss_pkts for link in net.stats().values())
    of_peer = [one for one in signals if one["flow"] is None]
    seen = summed(of_peer, "resent_pkts")
    assert seen == summed([one for one in signals if one["flow"]], "resent_pkts")
    # What is lost twice comes once, and the last ones of all have nothing behind them.
    assert sent_again - 2 - 0.1 * sent_again <= seen <= sent_again
    assert out_of_order > 50
    if loss is None:
        assert lost == 0
        assert seen < out_of_order / 4
    else:
        assert lost > 10
