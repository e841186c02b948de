"""The other end of sd_notify(3): a real Unix datagram socket, where systemd's would be."""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path
from types import TracebackType


class ServiceManager:
    """Listens as systemd does.

    Attributes:
        environment: What it starts services with.
        received: Each message, with the moment it was read [s, monotonic].
    """

    def __init__(self, place: Path | str, watchdog_s: float | None = None) -> None:
        self.received: list[tuple[float, dict[str, str]]] = []
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        address = str(place)
        self._socket.bind(f"\0{address[1:]}" if address.startswith("@") else address)
        self.environment = {"NOTIFY_SOCKET": address}
        if watchdog_s is not None:
            self.environment["WATCHDOG_USEC"] = str(int(watchdog_s * 1e6))

    def listen(self, seconds: float = 0.0) -> list[dict[str, str]]:
        """Return what comes within so long, what waits already included."""
        end_s = time.monotonic() + seconds
        new = []
        while True:
            self._socket.settimeout(max(end_s - time.monotonic(), 0.0) or 1e-6)
            try:
                text = self._socket.recv(65536).decode()
            except (TimeoutError, BlockingIOError):
                return new
            new.append(dict(line.split("=", 1) for line in text.splitlines()))
            self.received.append((time.monotonic(), new[-1]))

    def wait_for(self, name: str, seconds: float) -> str:
        """Return the value of a field once it came, the last one if several did."""
        end_s = time.monotonic() + seconds
        while time.monotonic() < end_s:
            self.listen(0.05)
            for _, message in reversed(self.received):
                if name in message:
                    return message[name]
        raise AssertionError(f"no {name} within {seconds:g} s; heard {self.received}")

    def times_of(self, name: str) -> list[float]:
        """Return when a field came [s, monotonic]."""
        return [when_s for when_s, message in self.received if name in message]

    def __enter__(self) -> ServiceManager:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()
        address = self.environment["NOTIFY_SOCKET"]
        if not address.startswith("@"):
            os.unlink(address)
