"""The socket that datapaths write to, and those that did: gone when nobody has their name open."""

from __future__ import annotations

import errno
import os
import select
import socket
import stat
import threading
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ccplane.datapath.wire import MAX_MESSAGE_BYTES, no_socket

MOST_WAITING: Final = 4096
"""Messages that wait for a datapath that does not read; then it counts as gone."""

MOST_AT_ONCE: Final = 1024
"""Datagrams that are taken before what they say is done."""


@dataclass(slots=True)
class Peer:
    """A datapath.

    Attributes:
        path: Name of its socket.
        gone: Nobody reads what is sent to it.
    """

    path: str
    gone: bool = False
    waiting: deque[bytes] = field(default_factory=deque)


class AgentSocket:
    """The agent's end. Only `wake` may be called from another thread than that which polls."""

    def __init__(self, path: Path) -> None:
        """Bind it, in a directory that is made if there is none.

        Args:
            path: Name of the socket.

        Raises:
            UsageError: `wire.no_socket`, also if another agent has it.
        """
        self.path = path
        if is_open(path):
            raise no_socket(path, "an agent has it", "stop that one, or name another socket")
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.parent.stat().st_uid not in (0, os.geteuid()):
                raise PermissionError(0, f"{path.parent} belongs to another user, who could take its place")
            path.unlink(missing_ok=True)
            self._socket.bind(os.fspath(path))
        except OSError as error:
            self._socket.close()
            raise no_socket(
                path,
                error.strerror or str(error),
                "name a file in a directory that this user may write to",
            ) from None
        self._socket.setblocking(False)
        self._closing = threading.Lock()
        self._bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._poll = select.poll()
        self._poll.register(self._socket, select.POLLIN)
        self._poll.register(self._bell, select.POLLIN)

    def wake(self) -> None:
        """Make `receive`, if it waits, return at once, and else the next one."""
        with self._closing:
            if self._bell >= 0:
                os.eventfd_write(self._bell, 1)

    def receive(self, timeout_ms: int) -> Iterator[tuple[str, bytes]]:
        """Wait for datagrams, and yield who sent each, and what; without name nobody can be answered."""
        ready = dict(self._poll.poll(timeout_ms))
        if self._bell in ready:
            os.eventfd_read(self._bell)
        for _ in range(MOST_AT_ONCE):
            try:
                octets, sender = self._socket.recvfrom(MAX_MESSAGE_BYTES)
            except BlockingIOError:
                return
            if isinstance(sender, str) and sender:
                yield sender, octets

    def send(self, peer: Peer, octets: bytes) -> None:
        """Send a message, or keep it until `flush` if the datapath has no room."""
        if peer.gone:
            return
        if peer.waiting or not self._sent(peer, octets):
            peer.waiting.append(octets)
            peer.gone = len(peer.waiting) > MOST_WAITING

    def flush(self, peer: Peer) -> None:
        """Send what waits, as far as there is room."""
        while peer.waiting and not peer.gone and self._sent(peer, peer.waiting[0]):
            peer.waiting.popleft()

    def _sent(self, peer: Peer, octets: bytes) -> bool:
        try:
            self._socket.sendto(octets, peer.path)
        except BlockingIOError:
            return False
        except OSError:
            peer.gone = True
        return True

    def look(self, peer: Peer) -> None:
        """See whether a datapath that does not write is still there."""
        peer.gone = peer.gone or not is_open(Path(peer.path))

    def close(self) -> None:
        """Remove the socket."""
        self.path.unlink(missing_ok=True)
        self._socket.close()
        with self._closing:
            os.close(self._bell)
            self._bell = -1


def is_open(path: Path) -> bool:
    """Return whether somebody has the socket of this name open."""
    try:
        if not stat.S_ISSOCK(path.lstat().st_mode):
            return False
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as probe:
            probe.connect(os.fspath(path))
    except OSError as error:
        return error.errno == errno.EPERM  # it is connected to us, and takes nothing from others
    return True
