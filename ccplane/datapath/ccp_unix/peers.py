"""The agent's socket, and the datapaths that write to it."""

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

MAX_WAITING: Final = 4096
"""Maximum messages queued for a datapath that does not read; with more, it counts as dead."""

MAX_AT_ONCE: Final = 1024
"""Maximum datagrams received in one call."""


@dataclass(slots=True)
class Peer:
    """A datapath.

    Attributes:
        path: Name of its socket.
        gone: Whether it exited or does not read.
    """

    path: str
    gone: bool = False
    waiting: deque[bytes] = field(default_factory=deque)


class AgentSocket:
    """The agent's socket. Only `wake` is thread-safe."""

    def __init__(self, path: Path) -> None:
        """Bind the socket; create its directory if necessary.

        Raises:
            UsageError: `wire.no_socket`, also if another agent uses it.
        """
        self.path = path
        if is_open(path):
            raise no_socket(path, "another agent uses it", "stop that agent, or give another path")
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            checked = _checked(path)
            checked.unlink(missing_ok=True)
            self._socket.bind(os.fspath(checked))
        except OSError as error:
            self._socket.close()
            raise no_socket(
                path,
                error.strerror or str(error),
                "give a path in a directory that this user owns, and that no other user can write",
            ) from None
        self._socket.setblocking(False)
        self._closing = threading.Lock()
        self._bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._poll = select.poll()
        self._poll.register(self._socket, select.POLLIN)
        self._poll.register(self._bell, select.POLLIN)

    def wake(self) -> None:
        """Make the current or next `receive` return immediately."""
        with self._closing:
            if self._bell >= 0:
                os.eventfd_write(self._bell, 1)

    def receive(self, timeout_ms: int) -> Iterator[tuple[str, bytes]]:
        """Wait for datagrams; yield sender and contents, except from unnamed sockets."""
        ready = dict(self._poll.poll(timeout_ms))
        if self._bell in ready:
            os.eventfd_read(self._bell)
        for _ in range(MAX_AT_ONCE):
            try:
                raw, sender = self._socket.recvfrom(MAX_MESSAGE_BYTES)
            except BlockingIOError:
                return
            if isinstance(sender, str) and sender:
                yield sender, raw

    def send(self, peer: Peer, raw: bytes) -> None:
        """Send a message, or queue it until `flush` if the datapath's buffer is full."""
        if peer.gone:
            return
        if peer.waiting or not self._sent(peer, raw):
            peer.waiting.append(raw)
            peer.gone = len(peer.waiting) > MAX_WAITING

    def flush(self, peer: Peer) -> None:
        """Send queued messages, as far as the datapath's buffer has room."""
        while peer.waiting and not peer.gone and self._sent(peer, peer.waiting[0]):
            peer.waiting.popleft()

    def _sent(self, peer: Peer, raw: bytes) -> bool:
        try:
            self._socket.sendto(raw, peer.path)
        except BlockingIOError:
            return False
        except OSError:
            peer.gone = True
        return True

    def look(self, peer: Peer) -> None:
        """Check whether a datapath is alive."""
        peer.gone = peer.gone or not is_open(Path(peer.path))

    def close(self) -> None:
        """Remove the socket."""
        self.path.unlink(missing_ok=True)
        self._socket.close()
        with self._closing:
            os.close(self._bell)
            self._bell = -1


def _checked(path: Path) -> Path:
    """Return a socket's path without symbolic links in its directory.

    Raises:
        PermissionError: If another user could replace the socket, because the directory or one above it
            belongs to that user, or is writable by all. A sticky directory above, such as `/tmp`, is allowed.
    """
    directory = path.parent.resolve()
    for place in (directory, *directory.parents):
        found = place.lstat()
        shared_safely = place != directory and found.st_mode & stat.S_ISVTX
        if found.st_uid not in (0, os.geteuid()):
            why = f"it belongs to another user ({found.st_uid})"
        elif found.st_mode & stat.S_IWOTH and not shared_safely:
            why = "another user can write it"
        else:
            continue
        raise PermissionError(0, f"the socket could be replaced through the directory {place}: {why}")
    return directory / path.name


def is_open(path: Path) -> bool:
    """Return whether a process has the socket of this name open."""
    try:
        if not stat.S_ISSOCK(path.lstat().st_mode):
            return False
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as probe:
            probe.connect(os.fspath(path))
    except OSError as error:
        return error.errno == errno.EPERM  # connected to this agent, so it refuses others
    return True
