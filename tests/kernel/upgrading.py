"""An upgrade from a test: a server with listeners and a default."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field

from experiments.netlab import Host, set_congestion

BYTES = 1 << 15
"""What an end sends to the other to see whether a connection lives."""


@dataclass
class Server:
    """A host whose default is `ccp`, with listeners that chose `ccp` and some that left it to the default.

    Attributes:
        host: Where it is.
        live: Connections, as (client's end, our end).
    """

    host: Host
    live: list[tuple[socket.socket, socket.socket]] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Set the default, and listen."""
        self.host.set_sysctl("net.ipv4.tcp_congestion_control", "ccp")
        self.chose, self.left = self._listener(), self._listener()
        set_congestion(self.chose, "ccp")
        self.unused = self.host.tcp_socket(congestion="ccp")

    def default(self) -> str:
        """Return the namespace's default."""
        return self.host.run(["sysctl", "-n", "net.ipv4.tcp_congestion_control"]).stdout.strip()

    def _listener(self) -> socket.socket:
        return self.host.call(lambda: socket.create_server(("", 0), backlog=1024))

    def accept(self, client: Host, listener: socket.socket) -> int:
        """Make a connection; return our port of it, and the client's."""
        other = client.call(socket.socket)
        other.connect((self.host.ipv4, listener.getsockname()[1]))
        self.live.append((other, listener.accept()[0]))
        return int(other.getsockname()[1])

    def connect(self, server: Host, sock: socket.socket | None = None) -> int:
        """Make a connection of ours to a listener elsewhere; return our port of it."""
        own = sock or self.host.call(socket.socket)
        with server.call(lambda: socket.create_server(("", 0))) as listener:
            own.connect((server.ipv4, listener.getsockname()[1]))
            self.live.append((listener.accept()[0], own))
        return int(own.getsockname()[1])

    def talk(self) -> None:
        """Have each end of each connection send something, and see that it arrives."""
        for ends in self.live:
            for sender, receiver in (ends, ends[::-1]):
                receiver.settimeout(10)
                sender.sendall(bytes(BYTES))
                left = BYTES
                while left:
                    left -= len(receiver.recv(left))

    @contextmanager
    def talking(self) -> Iterator[None]:
        """Talk, over and over, within the block."""
        done = threading.Event()

        def talk() -> None:
            while not done.wait(0.001):
                self.talk()

        with ThreadPoolExecutor() as pool:
            talked = pool.submit(talk)
            try:
                yield
            finally:
                done.set()
                talked.result(timeout=30)

    def close(self) -> None:
        """Close everything."""
        for sock in [self.chose, self.left, self.unused, *(sock for ends in self.live for sock in ends)]:
            sock.close()
