"""Sockets of agents and datapaths in directories that other users own or can write."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from ccplane.base.errors import UsageError
from ccplane.datapath import wire
from ccplane.datapath.ccp_unix.peers import AgentSocket
from tests.waiting import wait_until

ANOTHER = 65534

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="gives directories to another user")
ways = pytest.mark.parametrize(
    "how",
    [
        pytest.param("owner", marks=needs_root),
        pytest.param("ancestor", marks=needs_root),
        pytest.param("link", marks=needs_root),
        "mode",
        "sticky",
    ],
)


def directory(tmp_path: Path, how: str) -> Path:
    """Return a directory in which another user could replace a socket."""
    outer = tmp_path / "ccp"
    inner = outer / "0"
    inner.mkdir(parents=True)
    if how == "owner":
        os.chown(inner, ANOTHER, ANOTHER)
    elif how == "ancestor":
        os.chown(outer, ANOTHER, ANOTHER)
    elif how == "link":
        os.chown(inner, ANOTHER, ANOTHER)
        (tmp_path / "link").symlink_to(inner)
        return tmp_path / "link"
    else:
        inner.chmod(0o777 if how == "mode" else 0o1777)
    return inner


@ways
def test_no_agent_listens_where_another_user_could_replace_its_socket(tmp_path: Path, how: str) -> None:
    folder = directory(tmp_path, how)
    with pytest.raises(UsageError) as caught:
        AgentSocket(folder / "portus")
    assert caught.value.slug == "wire.no_socket"
    assert "another user" in caught.value.why
    assert list(folder.iterdir()) == []


@ways
def test_no_datapath_listens_where_another_user_could_replace_its_socket(tmp_path: Path, how: str) -> None:
    folder = directory(tmp_path, how)
    with pytest.raises(UsageError) as caught:
        wire.link(tmp_path / "portus", folder / "ccplane")
    assert caught.value.slug == "wire.no_socket"
    assert "another user" in caught.value.why
    assert list(folder.iterdir()) == []


@ways
def test_no_datapath_connects_where_another_user_could_replace_the_socket(
    tmp_path: Path, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    folder = directory(tmp_path, how)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as agent:
        agent.bind(str(folder / "portus"))
        link = wire.link(folder / "portus", tmp_path / "ccplane")
        assert not link.connected
        agent.setblocking(False)
        with pytest.raises(BlockingIOError):
            agent.recv(65_536)
        link.close()


def test_a_directory_of_this_user_in_a_shared_one_is_accepted(tmp_path: Path) -> None:
    """As `/tmp/ccp`: others can create files in `/tmp`, but not rename this user's."""
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    agent = AgentSocket(shared / "ccp/portus")
    link = wire.link(shared / "ccp/portus", shared / "ccp/ccplane")
    assert link.connected
    received: list[bytes] = []
    wait_until(lambda: received.extend(raw for _, raw in agent.receive(100)) or received, "the datapath")
    link.close()
    agent.close()
