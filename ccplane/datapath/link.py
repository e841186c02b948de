"""A datapath's end of CCP's Unix sockets: the agent is found, spoken to, and found again after it ended.

An agent binds a datagram socket by name and answers to the name of whoever wrote. Ours is connected, so
nobody else's datagrams come in, and the agent's end shows.
"""

from __future__ import annotations

import logging
import os
import select
import socket
import stat
import threading
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from ccplane.base.errors import UsageError
from ccplane.datapath.wire import MAX_MESSAGE_BYTES, Create, Ready

log = logging.getLogger("ccplane.wire")

LOOK_S: Final = 0.5
"""How often is looked whether the agent is there [s]."""

CAME: Final = "the agent is there"
"""What is logged when it is."""

SEND_S: Final = 0.005
"""How long one message may wait for room in the agent's queue [s]; who sends it waits, too."""

MOST_WAITING: Final = 4096
"""Messages that wait for an agent which does not read; then it counts as gone."""


def no_socket(path: Path, why: str, fix: str) -> UsageError:
    """Return the error of a socket that cannot be made."""
    return UsageError(
        "wire.no_socket", f"there can be no socket {path}", where=f"--bind {path}", why=why, fix=fix
    )


class Link:
    """A way to one agent. Everything but what `start` gets called is one thread's.

    Attributes:
        connected: Whether an agent is there, as far as is known.
    """

    def __init__(self, agent: Path, own: Path) -> None:
        """Bind our socket, in a directory that is made if there is none.

        Args:
            agent: Where the agent's socket is, or will be.
            own: Where ours will be.

        Raises:
            UsageError: `wire.no_socket`.
        """
        self.connected = False
        self._agent, self._own = agent, own
        self._peer: tuple[int, int, int] | None = None
        self._waiting: deque[bytes] = deque()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            own.parent.mkdir(parents=True, exist_ok=True)
            own.unlink(missing_ok=True)
            self._socket.bind(os.fspath(own))
        except OSError as error:
            self._socket.close()
            why = error.strerror or str(error)
            raise no_socket(own, why, "name a file in a directory that this user may write to") from None
        self._socket.settimeout(SEND_S)
        self._stop, self._stopped = socket.socketpair()
        self._thread: threading.Thread | None = None

    def start(self, heard: Callable[[bytes], None]) -> None:
        """Hear what the agent sends, on a thread of its own."""
        self._thread = threading.Thread(target=self._hear, args=(heard,), name="wire", daemon=True)
        self._thread.start()

    def _hear(self, heard: Callable[[bytes], None]) -> None:
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        poll.register(self._stopped, select.POLLIN)
        while self._stopped.fileno() not in dict(poll.poll()):
            try:
                heard(self._socket.recv(MAX_MESSAGE_BYTES))
            except OSError:
                continue  # an agent that ended; `find` sees it

    def find(self) -> bool:
        """Look whether the agent is there, and whether it is another one than before.

        Returns:
            True if one came that knows nothing of us yet.
        """
        there = self._there()
        if there is None:
            self.lose("it ended")
            return False
        if self.connected and there == self._peer:
            return False
        self.lose("another one took its place")
        try:
            self._socket.connect(os.fspath(self._agent))
        except OSError:
            return False
        self._peer, self.connected = there, True
        return True

    def _there(self) -> tuple[int, int, int] | None:
        """Return which socket is at the agent's name, None if nobody has it open, or it is another user's."""
        try:
            found = self._agent.lstat()
            if not stat.S_ISSOCK(found.st_mode) or found.st_uid != os.geteuid():
                return None
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as probe:
                probe.connect(os.fspath(self._agent))
        except OSError:
            return None
        return found.st_dev, found.st_ino, found.st_ctime_ns  # numbers of inodes are used again

    def lose(self, why: str | None) -> None:
        """Count the agent as gone, until `find` finds it; what waits for it is lost.

        Args:
            why: For the log; None: it was not there yet.
        """
        if self.connected and why is not None:
            log.warning("the agent at %s is gone: %s", self._agent, why)
        self.connected = False
        self._waiting.clear()

    def send(self, octets: bytes) -> None:
        """Send a message, or keep it until `flush` if the agent has no room; without an agent it is lost."""
        if not self.connected:
            return
        if self._waiting or not self._sent(octets):
            self._waiting.append(octets)
            if len(self._waiting) > MOST_WAITING:
                self.lose("it does not read")

    @property
    def is_full(self) -> bool:
        """Whether something waits because the agent had no room."""
        return bool(self._waiting)

    def flush(self) -> None:
        """Send what waits, as far as there is room."""
        while self.connected and self._waiting and self._sent(self._waiting[0]):
            self._waiting.popleft()

    def _sent(self, octets: bytes) -> bool:
        try:
            self._socket.send(octets)
        except TimeoutError:
            return False
        except OSError as error:
            self.lose(error.strerror or str(error))
        return True

    def close(self) -> None:
        """End the thread, and remove our socket."""
        if self._thread is not None:
            self._stop.send(b"\0")
            self._thread.join()
        for one in (self._stop, self._stopped, self._socket):
            one.close()
        self._own.unlink(missing_ok=True)


class Watch:
    """Sees the agent of a link come and go, for one datapath. All of it is the thread's that has the link."""

    def __init__(
        self, link: Link, number: int, announced: Callable[[], Iterable[Create]], let_go: Callable[[], None]
    ) -> None:
        """Take a link on which nothing was said yet.

        Args:
            link: To the agent.
            number: The datapath's.
            announced: Called when an agent comes: the flows that it is told of, after `Ready`.
            let_go: Called when the agent is gone, or is another one: flows go on without it.
        """
        self._link, self._number = link, number
        self._announced, self._let_go = announced, let_go
        self._look_s = 0.0
        self._was_there = False

    def look(self, now_s: float) -> None:
        """See whether the agent is there still, or again, if it is time, or a message was not to be sent.

        Args:
            now_s: Time [s], monotonic.
        """
        if now_s >= self._look_s or (self._was_there and not self._link.connected):
            self.find(now_s)

    def find(self, now_s: float) -> None:
        """See at once whether the agent is there still, or again.

        Args:
            now_s: Time [s], monotonic.
        """
        self._look_s = now_s + LOOK_S
        self._link.flush()
        came = self._link.find()
        if self._was_there and (came or not self._link.connected):
            self._let_go()
        if came:
            self._greet()
        self._was_there = self._link.connected

    def _greet(self) -> None:
        """Tell an agent that knows nothing of us who is here; one that has no room for that is none yet."""
        self._link.send(Ready(self._number).octets())
        if self._link.is_full:
            self._link.lose(None)
        if self._link.connected:
            flows = list(self._announced())
            log.info("%s: it gets %d flows", CAME, len(flows))
            for flow in flows:
                self._link.send(flow.octets())
