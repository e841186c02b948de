"""Reports the state of a service to its service manager: sd_notify(3), as understood by systemd and podman.

This module uses no library, because the existing libraries need a C compiler or are unmaintained, and the
protocol is one datagram.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, MutableMapping
from typing import Final, Self

FEEDS_A_TIMEOUT: Final = 4
"""Keepalives per watchdog timeout."""

FED_S: Final = 60.0
"""Time limit of `fed` [s]: what takes longer is stuck."""

STATUS_S: Final = 5.0
"""Interval between status lines [s]."""


class Manager:
    """The service manager that started this process.

    Attributes:
        watchdog_s: Silence after which the manager restarts the service [s]; None for no watchdog.
    """

    def __init__(self, address: str, watchdog_s: float | None = None) -> None:
        """Open a socket.

        Args:
            address: Path of the manager's Unix datagram socket, or `@` and its abstract name.
            watchdog_s: See the class.
        """
        self.watchdog_s = watchdog_s
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)

    @classmethod
    def from_environment(cls, environment: MutableMapping[str, str] = os.environ) -> Self | None:
        """Return the manager named in the environment, or None; removes the variables for child processes."""
        address = environment.pop("NOTIFY_SOCKET", "")
        timeout_us = environment.pop("WATCHDOG_USEC", "")
        pid = environment.pop("WATCHDOG_PID", "")
        if not address:
            return None
        own = timeout_us.isdigit() and pid in ("", str(os.getpid()))
        return cls(address, int(timeout_us) / 1e6 if own else None)

    def environment(self) -> dict[str, str]:
        """Return the variables for a process that is to continue this process's work."""
        address = f"@{self._address[1:]}" if self._address.startswith("\0") else self._address
        found = {"NOTIFY_SOCKET": address}
        if self.watchdog_s is not None:
            found["WATCHDOG_USEC"] = str(round(self.watchdog_s * 1e6))  # for any process: its id is unknown
        return found

    def emit(self, **fields: str | int) -> bool:
        """Send fields, such as `READY=1`, without waiting; return False if the manager is busy or gone."""
        text = "\n".join(f"{name}={value}" for name, value in fields.items())
        try:
            self._socket.sendto(text.encode(), socket.MSG_DONTWAIT, self._address)
        except OSError:
            return False
        return True

    def hand_over(self, pid: int) -> None:
        """Make another process of the service its main process; waits while the manager is busy."""
        # The new process also gets the whole time of the watchdog for its first keepalive.
        with contextlib.suppress(OSError):  # the manager is gone
            self._socket.sendto(f"MAINPID={pid}\nWATCHDOG=1".encode(), self._address)

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()


@contextlib.contextmanager
def fed(manager: Manager) -> Iterator[None]:
    """Feed the watchdog from a thread during a block, for at most `FED_S`."""
    if manager.watchdog_s is None:
        yield
        return
    interval_s, done = manager.watchdog_s / FEEDS_A_TIMEOUT, threading.Event()

    def feed() -> None:
        for _ in range(round(FED_S / interval_s)):
            manager.emit(WATCHDOG=1)
            if done.wait(interval_s):
                return

    thread = threading.Thread(target=feed, name="ccp-watchdog", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


class Supervised:
    """Reports that a loop is ready and alive; the loop calls `turn` in each iteration."""

    def __init__(
        self, manager: Manager, status: Callable[[], str], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._manager = manager
        self._status = status
        self._clock = clock
        self._ready = False
        self._feed_s = None if manager.watchdog_s is None else manager.watchdog_s / FEEDS_A_TIMEOUT
        self._feed_due_s = self._status_due_s = clock()

    def turn(self) -> None:
        """Report the end of one iteration; the first one means that the service is ready."""
        if not self._ready:
            self._ready = self._manager.emit(READY=1)
        self.feed()
        now_s = self._clock()
        if now_s >= self._status_due_s and self._manager.emit(STATUS=self._status()):
            self._status_due_s = now_s + STATUS_S

    def feed(self) -> None:
        """Send a watchdog keepalive if one is due; call this during long iterations."""
        if self._feed_s is None:
            return
        now_s = self._clock()
        if now_s >= self._feed_due_s and self._manager.emit(WATCHDOG=1):
            self._feed_due_s = now_s + self._feed_s

    def stopping(self) -> None:
        """Report that the loop has ended, and close the socket."""
        self._manager.emit(STOPPING=1)
        self._manager.close()
