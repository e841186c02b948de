"""Listeners that a predecessor and its successor have at the same address."""

from __future__ import annotations

import errno
import os
import select
import socket
from contextlib import closing
from pathlib import Path

import pytest

from ccplane.agent.listener import Listener


def reaches(place: tuple[str, int] | Path, listener: Listener) -> bool:
    """Return whether a new connection arrives at a listener."""
    family = socket.AF_UNIX if isinstance(place, Path) else socket.AF_INET
    with socket.socket(family) as client:
        client.connect(str(place) if isinstance(place, Path) else place)
        arrived = bool(select.select([listener.socket], [], [], 0.2)[0])
        if arrived:
            listener.socket.accept()[0].close()
        return arrived


def test_all_connections_reach_the_predecessor_until_the_successor_settles() -> None:
    with closing(Listener(("127.0.0.1", 0))) as before:
        place = before.socket.getsockname()
        with closing(Listener(place, shares=True)) as after:
            assert all(reaches(place, before) for _ in range(20))
            after.settle()
            before.close()
            assert all(reaches(place, after) for _ in range(20))


def test_a_successor_that_ends_takes_nothing_from_the_predecessor(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    for place in (("127.0.0.1", 0), path):
        with closing(Listener(place)) as before:
            there = place if isinstance(place, Path) else before.socket.getsockname()
            Listener(there, shares=True).close()
            assert reaches(there, before)
    assert list(tmp_path.iterdir()) == []


def test_a_unix_socket_replaces_that_of_the_predecessor_which_leaves_it(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    before = Listener(path)
    with closing(Listener(path, shares=True, mode=0o660)) as after:
        assert reaches(path, before)
        after.settle()
        assert path.stat().st_mode & 0o777 == 0o660
        before.close()
        assert reaches(path, after)
    assert list(tmp_path.iterdir()) == []


def test_a_port_is_shared_only_with_a_predecessor() -> None:
    taken = os.strerror(errno.EADDRINUSE)
    with closing(Listener(("127.0.0.1", 0))) as one, pytest.raises(OSError, match=taken):
        Listener(one.socket.getsockname())
    # A program that does not share:
    with socket.create_server(("127.0.0.1", 0)) as other, pytest.raises(OSError, match=taken):
        Listener(other.getsockname(), shares=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs two users")
def test_another_user_cannot_share_a_port() -> None:
    with closing(Listener(("127.0.0.1", 0))) as one:
        child = os.fork()
        if child == 0:
            os.setuid(65534)
            try:
                Listener(one.socket.getsockname(), shares=True)
            except OSError as error:
                os._exit(int(error.errno != errno.EADDRINUSE))
            os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_what_a_killed_successor_left_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    with closing(Listener(path)) as before:
        killed = Listener(path, shares=True)
        killed.socket.close()
        with closing(Listener(path, shares=True)) as after:
            after.settle()
            before.close()
            assert reaches(path, after)
