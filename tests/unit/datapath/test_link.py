"""A datapath's socket to an agent, with a socket in the agent's place."""

from __future__ import annotations

import os
import queue
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from ccplane.base.errors import UsageError
from ccplane.datapath.link import MOST_WAITING, Link


def agent_at(path: Path) -> socket.socket:
    path.unlink(missing_ok=True)
    made = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    made.bind(os.fspath(path))
    made.settimeout(10)
    return made


@pytest.fixture
def link(tmp_path: Path) -> Iterator[Link]:
    with closing(Link(tmp_path / "agent", tmp_path / "made" / "own")) as made:
        yield made


def test_an_agent_is_found_heard_and_found_again_after_its_end(link: Link, tmp_path: Path) -> None:
    heard: queue.Queue[bytes] = queue.Queue()
    link.start(heard.put)
    assert not link.find()
    link.send(b"nobody hears it")
    for _ in range(2):
        with agent_at(tmp_path / "agent") as agent:
            assert link.find()
            assert not link.find()  # it is known
            link.send(b"one")
            datagram, sender = agent.recvfrom(100)
            assert datagram == b"one"
            agent.sendto(b"two", sender)
            assert heard.get(timeout=10) == b"two"
        link.send(b"three")
        assert not link.connected
        assert not link.find()


def test_another_agent_at_the_same_place_is_new(link: Link, tmp_path: Path) -> None:
    with agent_at(tmp_path / "agent"):
        assert link.find()
        with agent_at(tmp_path / "agent") as other:
            assert link.find()
            link.send(b"one")
            assert other.recv(100) == b"one"


def test_what_an_agent_has_no_room_for_waits_in_order(link: Link, tmp_path: Path) -> None:
    room = int(Path("/proc/sys/net/unix/max_dgram_qlen").read_text()) + 5
    with agent_at(tmp_path / "agent") as agent:
        assert link.find()
        for i in range(room):
            link.send(b"%d" % i)
        came = []
        while len(came) < room:
            came.append(int(agent.recv(100)))
            link.flush()
    assert came == list(range(room))


def test_an_agent_that_does_not_read_counts_as_gone(link: Link, tmp_path: Path) -> None:
    room = int(Path("/proc/sys/net/unix/max_dgram_qlen").read_text())
    with agent_at(tmp_path / "agent"):
        assert link.find()
        for _ in range(room + MOST_WAITING + 5):
            link.send(b"x")
        assert not link.connected


def test_a_file_that_is_no_socket_is_no_agent(link: Link, tmp_path: Path) -> None:
    (tmp_path / "agent").write_text("")
    assert not link.find()


def test_a_socket_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError) as caught:
        Link(tmp_path / "agent", tmp_path / "file" / "own")
    assert caught.value.slug == "wire.no_socket"
