"""`rtcp_cubic` and `rtcp_bbr`: real connections through policers, and through none."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path as File

import pytest

from ccp_algs.rtcp import Options, new_detector
from ccp_algs.rtcp.limit import LIMITED_STATES
from ccplane.agent.features.rtcp import native
from ccplane.agent.features.rtcp.ack_trace import START, read_ack_trace
from ccplane.agent.features.rtcp.acks import AckRecorder
from ccplane.agent.features.rtcp.attached import MAX_CLIENTS, Attachment, Verdict
from ccplane.agent.features.rtcp.tables import Clients, known_clients, known_tables
from ccplane.base.errors import CcpError
from experiments.agent_process import ccp
from experiments.netlab import Path
from experiments.netlab.emulated import EmulatedNetwork, emulated
from experiments.netlab.namespace import path_of
from experiments.netlab.sockets import set_congestion
from experiments.netlab.spec import Buffer, Direction, Family, TokenBucket
from experiments.netlab.topologies import point_to_point
from tests.kernel.driving import said_without_privilege, wait_until
from tests.kernel.peers import Peers, pacing_limit_of, window_of

RATE_BYTES_PER_S = 250_000
BUCKET_BYTES = 100_000
HEADERS_RATIO = 1500 / 1448  # the policer counts whole packets
RTT_US = 20_000
NO_LIMIT = 2**64 - 1
TIMEOUT_S = 20.0
POLICED = Direction(
    rate_bytes_per_s=5e6,
    delay_us=RTT_US // 2,
    buffer=Buffer(packets=1000),
    token_bucket=TokenBucket(RATE_BYTES_PER_S, BUCKET_BYTES),
)


@contextlib.contextmanager
def attached(
    options: Options | None = None, recorder: AckRecorder | None = None, max_clients: int = MAX_CLIENTS
) -> Iterator[Attachment]:
    attachment = Attachment(options or Options(), recorder=recorder, max_clients=max_clients)
    try:
        yield attachment
    finally:
        attachment.close()


@pytest.fixture
def policed() -> Iterator[EmulatedNetwork]:
    with emulated(point_to_point(POLICED, Direction(delay_us=RTT_US // 2))) as net:
        yield net


@contextlib.contextmanager
def sending(
    net: EmulatedNetwork | Path, congestion: str, max_rate: int | None = None, family: Family = "ipv4"
) -> Iterator[socket.socket]:
    """Give the sender's end of a connection that has always something to send."""
    if isinstance(net, Path):
        sender, receiver = net.sender, net.receiver
    else:
        sender, receiver = net.hosts["sender"], net.hosts["receiver"]
    with contextlib.closing(Peers(sender, receiver, receiver)) as peers:
        near, far = peers.connect(receiver, family=family)
        if max_rate is not None:
            near.setsockopt(socket.SOL_SOCKET, 47, max_rate.to_bytes(8, "little"))
        set_congestion(near, congestion)
        threads = [
            threading.Thread(target=work, args=(sock,)) for work, sock in ((_send, near), (_read, far))
        ]
        for thread in threads:
            thread.start()
        try:
            yield near
        finally:
            # What it has not sent is dropped: no orphan keeps namespace and table of clients.
            near.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("=ii", 1, 0))
            for sock in (near, far):
                sock.shutdown(socket.SHUT_RDWR)
            for thread in threads:
                thread.join()


def _send(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while True:
            sock.sendall(bytes(65536))


def _read(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while sock.recv(1 << 20):
            pass


def until(attachment: Attachment, done: Callable[[list[Verdict]], object]) -> list[Verdict]:
    """Return the verdicts until they are as wanted."""
    verdicts: list[Verdict] = []
    give_up_s = time.monotonic() + TIMEOUT_S
    while not done(verdicts):
        assert time.monotonic() < give_up_s, f"after {TIMEOUT_S} s: {verdicts}, {known_clients()}"
        time.sleep(0.02)
        verdicts += attachment.turn()
    return verdicts


def states(verdicts: list[Verdict]) -> list[str]:
    return [one.state for one in verdicts]


def connect_to_own(peers: Peers, address: str) -> socket.socket:
    """Return a connection of the sender's to another of its loopback's addresses: a client like any other."""
    with peers.sender.tcp_socket() as listener:
        listener.bind((address, 0))
        listener.listen()
        near = peers.sender.tcp_socket()
        near.connect(listener.getsockname())
        peers.open += [near, listener.accept()[0]]
    set_congestion(near, "rtcp_cubic")
    return near


@pytest.mark.parametrize("congestion", ["rtcp_cubic", "rtcp_bbr"])
def test_a_policed_flow_is_found_and_bounded_as_the_reference_says(
    congestion: str, policed: EmulatedNetwork, tmp_path: File
) -> None:
    with attached(recorder=AckRecorder(tmp_path)) as attachment, sending(policed, congestion):
        verdicts = until(attachment, lambda reported: states(reported).count("capped") >= 3)
        (known,) = known_clients()
    first, last = verdicts[0], verdicts[-1]
    assert (first.state, first.client) == ("capped", policed.hosts["receiver"].ipv4)
    assert last.rate_bytes_per_s * HEADERS_RATIO == pytest.approx(RATE_BYTES_PER_S, rel=0.1)
    assert last.bucket_bytes * HEADERS_RATIO == pytest.approx(BUCKET_BYTES, rel=0.3)
    assert (known["client"], known["open_flows"]) == (first.client, 1)
    assert known["active_flows"] <= 1  # a slow machine writes too late now and then
    assert known["rate_bytes_per_s"] == pytest.approx(last.rate_bytes_per_s, rel=0.02)

    (trace,) = (file for file in tmp_path.iterdir() if not file.name.endswith(f"-{first.client}.csv.gz"))
    detector, estimates, lost = new_detector(), dict[int, tuple[int, int]](), dict[int, tuple[int, int]]()
    for event, now in read_ack_trace(trace):
        (detector.start if event == START else detector.ack)(now)
        estimates[now.time_us] = (detector.bucket_bytes, detector.rate_bytes_per_s)
        lost[now.time_us] = (now.lost_pkts, now.delivered_pkts)
    # The trace has packets, and the kernel counts bytes: where a buffer runs full, packets may be small ones.
    assert detector.detected_at_us == pytest.approx(first.t_mono_us, abs=1e6)
    for one in verdicts[1:]:
        reported = (one.bucket_bytes, one.rate_bytes_per_s)
        assert estimates[one.t_mono_us] == pytest.approx(reported, rel=0.05)

    lost_pkts, delivered_pkts = (
        after - before for after, before in zip(lost[last.t_mono_us], lost[first.t_mono_us], strict=True)
    )
    assert lost_pkts < 0.1 * delivered_pkts


def test_a_limit_that_ends_leaves_the_socket_as_its_application_had_it(policed: EmulatedNetwork) -> None:
    own_max_rate = 4_000_000
    with attached() as attachment, sending(policed, "rtcp_cubic", own_max_rate) as sock:
        until(attachment, lambda reported: "capped" in states(reported))
        bounded = pacing_limit_of(sock)
        policed.change("link>", token_bucket=None)
        verdicts = until(attachment, lambda reported: "gone" in states(reported))
        until(attachment, lambda _: pacing_limit_of(sock) == own_max_rate)
    assert bounded < 2 * RATE_BYTES_PER_S
    assert states(verdicts)[-1] == "gone"


def test_connections_to_a_client_share_its_limit_and_later_ones_begin_with_it(
    policed: EmulatedNetwork,
) -> None:
    with attached() as attachment:
        with sending(policed, "rtcp_cubic"):
            until(attachment, lambda reported: "capped" in states(reported))
        with sending(policed, "rtcp_cubic") as one, sending(policed, "rtcp_cubic") as other:
            until(attachment, lambda _: known_clients()[0]["active_flows"] == 2)
            until(attachment, lambda _: max(map(pacing_limit_of, (one, other))) < 0.8 * RATE_BYTES_PER_S)
            (known,) = known_clients()
    # Both together may be paced below the limit for a moment: tokens gather, and nobody has to be held back.
    assert (known["open_flows"], known["state"] in LIMITED_STATES) == (2, True)


def test_who_finds_no_room_is_counted_and_there_is_room_once_a_limited_client_is_over(
    policed: EmulatedNetwork, caplog: pytest.LogCaptureFixture
) -> None:
    sender, receiver = policed.hosts["sender"], policed.hosts["receiver"]

    def known() -> set[str]:
        return {one["client"] for one in known_clients()}

    with (
        caplog.at_level(logging.WARNING, logger="ccplane.rtcp"),
        attached(Options(kept_s=0.1), max_clients=2) as attachment,
        contextlib.closing(Peers(sender, receiver, receiver)) as peers,
    ):
        stays = "127.0.0.2"
        connect_to_own(peers, stays)
        connect_to_own(peers, stays).close()  # its client is over, but for the other connection
        with sending(policed, "rtcp_cubic"):
            until(attachment, lambda reported: "capped" in states(reported))
            for n in range(20):
                connect_to_own(peers, f"127.0.1.{n + 1}")
            attachment.turn()
            assert known() == {stays, receiver.ipv4}
        shown = subprocess.run(ccp("rtcp", "show", "--json"), capture_output=True, check=True)
        (table,) = (one for one in json.loads(shown.stdout) if one["by"] == "attach")
        assert (table["by"], table["no_room"]) == ("attach", 20)
        said = subprocess.run(ccp("rtcp", "show"), capture_output=True, check=True, text=True).stdout
        assert "20 connections are not limited" in said
        until(attachment, lambda _: known() == {stays})
        connect_to_own(peers, "127.0.2.1")
        assert known() == {stays, "127.0.2.1"}
        assert [one.no_room for one in known_tables() if one.by == "attach"] == [20]
    assert ["is full (2," in one.message for one in caplog.records] == [True]


def test_ten_times_as_many_clients_as_there_is_room_for_fail_no_connection(policed: EmulatedNetwork) -> None:
    sender, receiver = policed.hosts["sender"], policed.hosts["receiver"]

    def carries(sock: socket.socket, to: socket.socket) -> bool:
        sock.sendall(b"x" * 20_000)
        return len(to.recv(20_000, socket.MSG_WAITALL)) == 20_000

    with attached(max_clients=100), contextlib.closing(Peers(sender, receiver, receiver)) as peers:
        for n in range(100):
            connect_to_own(peers, f"127.1.0.{n + 1}")
        inside = list(peers.open)
        for n in range(900):
            connect_to_own(peers, f"127.2.{n // 250}.{n % 250 + 1}")
            near, far = peers.open[-2:]
            assert carries(near, far)
            if n >= 100:  # descriptors are few
                near.close()
                far.close()
        (table,) = (one for one in known_tables() if one.by == "attach")
        assert (table.no_room, table.max_clients, len(table.clients or ())) == (900, 100, 100)
        assert all(carries(near, far) for near, far in zip(inside[::2], inside[1::2], strict=True))
        for sock in inside[:20]:
            sock.close()
        wait_until(lambda: len(known_clients()) == 90)
        connect_to_own(peers, "127.3.0.1")
        assert "127.3.0.1" in {one["client"] for one in known_clients()}


def test_a_namespace_with_the_inode_of_one_that_is_gone_has_clients_of_its_own() -> None:
    def inode_of(net: EmulatedNetwork) -> int:
        return os.stat(path_of(net.hosts["sender"].namespace)).st_ino

    def network() -> contextlib.AbstractContextManager[EmulatedNetwork]:
        return emulated(point_to_point(POLICED, Direction(delay_us=RTT_US // 2)))

    with attached() as attachment:
        with network() as net, sending(net, "rtcp_cubic"):
            inode = inode_of(net)
            until(attachment, lambda reported: "capped" in states(reported))
            (first,) = known_clients()
        for _ in range(100):
            with network() as net:
                if inode_of(net) == inode:
                    with sending(net, "rtcp_cubic"):
                        # Each processor hands out cookies of its own: the later one may be the smaller.
                        before, after = sorted(
                            known_clients(), key=lambda one: one["netns_cookie"] != first["netns_cookie"]
                        )
                    break
        else:
            pytest.fail("no namespace of a hundred got the inode of one that is gone")
    assert (before["netns"], before["client"]) == (after["netns"], after["client"])
    assert (before["open_flows"], after["open_flows"]) == (0, 1)
    assert before["state"] != "unlimited"
    assert after["state"] == "unlimited"


def test_a_flow_that_nothing_limits_is_the_kernels_own(wire: Path) -> None:
    with attached() as attachment:
        with sending(wire, "rtcp_cubic") as sock:
            until(attachment, lambda _: window_of(sock)[0] > 10)
            (known,) = known_clients()
            assert pacing_limit_of(sock) == NO_LIMIT
            assert attachment.turn() == []
            assert (known["state"], known["open_flows"]) == ("unlimited", 1)
        until(attachment, lambda _: known_clients() == [])


def test_who_only_observes_bounds_nothing(policed: EmulatedNetwork) -> None:
    with attached(Options(observe=True)) as attachment, sending(policed, "rtcp_cubic") as sock:
        verdicts = until(attachment, lambda reported: reported)
        time.sleep(0.3)
        verdicts += attachment.turn()
        assert pacing_limit_of(sock) == NO_LIMIT
    assert states(verdicts) == ["limited"]


def test_the_command_records_and_ends_when_it_is_asked_to(policed: EmulatedNetwork, tmp_path: File) -> None:
    command = ccp("rtcp", "attach", "--json", "--no-keep", "--observe", "--record", str(tmp_path))
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            ready = json.loads(process.stdout.readline())
            with pytest.raises(CcpError) as caught:
                Attachment(Options())
            with sending(policed, "rtcp_bbr"):
                verdict = json.loads(process.stdout.readline())
        finally:
            process.send_signal(signal.SIGTERM)
        assert (process.wait(TIMEOUT_S), process.stdout.read()) == (0, "")
    assert (ready["kind"], ready["names"]) == ("attached", ["rtcp_cubic", "rtcp_bbr"])
    assert (verdict["kind"], verdict["state"]) == ("verdict", "limited")
    assert caught.value.slug == "rtcp.name_taken"
    (trace,) = tmp_path.glob(f"*-{policed.hosts['receiver'].ipv4}-*")
    found = subprocess.run(ccp("rtcp", "detect", str(trace), "--json"), capture_output=True, check=True)
    assert json.loads(found.stdout)["detected_at_us"] == verdict["t_mono_us"]


def test_it_says_that_none_offers_it() -> None:
    def left() -> list[Clients] | str:
        try:
            return known_tables()
        except CcpError as error:
            return error.slug

    give_up_s = time.monotonic() + TIMEOUT_S
    while isinstance(found := left(), list) and time.monotonic() < give_up_s:
        time.sleep(0.02)  # the programs of sockets that have just ended are freed a moment later
    # With a client in the table, or without: some tests have more clients than room.
    held = [
        one.no_room or any(client["open_flows"] for client in one.clients or ())
        for one in found
        if isinstance(one, Clients)
    ]
    if any(held):
        pytest.skip("orphaned sockets of a namespace that is gone keep a table of clients for a while")
    assert found == "rtcp.not_attached"


def test_without_privilege_it_says_so() -> None:
    said = said_without_privilege("RtcpAttached", f"{Options().to_bytes()!r}, max_clients=1")
    assert said.startswith("rtcp.not_permitted run as root")


def test_nothing_is_reported_after_the_end() -> None:
    held = native.attached(Options().to_bytes(), max_clients=1, records=False)
    held.close()
    held.close()
    with pytest.raises(CcpError) as caught:
        held.drain()
    assert caught.value.slug == "rtcp.closed"
