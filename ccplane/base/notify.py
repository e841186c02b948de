"""Tells the service manager how a service is: the protocol of sd_notify(3), which systemd and podman speak.

A service that was not started by one tells nobody, at no cost. No library: those that there are compile C, or
are no longer kept, for what is one datagram.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, MutableMapping
from typing import Final, Self

FEEDS_A_TIMEOUT: Final = 4
"""How often the watchdog is fed in the time after which it bites."""

STATUS_S: Final = 5.0
"""How often the status line is told again [s]."""


class Manager:
    """The service manager that started this process.

    Attributes:
        watchdog_s: Silence after which it restarts the service [s]; None for no watchdog.
    """

    def __init__(self, address: str, watchdog_s: float | None = None) -> None:
        """Take where it listens.

        Args:
            address: Path of a Unix datagram socket, or `@` and its abstract name.
            watchdog_s: Silence after which it restarts the service [s]; None for no watchdog.
        """
        self.watchdog_s = watchdog_s
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)

    @classmethod
    def from_environment(cls, environment: MutableMapping[str, str] = os.environ) -> Self | None:
        """Return the manager that the environment names, None without; programs run from here find none."""
        address = environment.pop("NOTIFY_SOCKET", "")
        timeout_us = environment.pop("WATCHDOG_USEC", "")
        pid = environment.pop("WATCHDOG_PID", "")
        if not address:
            return None
        ours = timeout_us.isdigit() and pid in ("", str(os.getpid()))
        return cls(address, int(timeout_us) / 1e6 if ours else None)

    def tell(self, **fields: str | int) -> bool:
        """Send fields, such as `READY=1`; never waits.

        Returns:
            Whether they were taken; if not, the manager is busy or gone.
        """
        text = "\n".join(f"{name}={value}" for name, value in fields.items())
        try:
            self._socket.sendto(text.encode(), socket.MSG_DONTWAIT, self._address)
        except OSError:
            return False
        return True

    def close(self) -> None:
        """Tell nothing more."""
        self._socket.close()


class Supervised:
    """Tells that a loop is ready and goes on; the loop calls `turn` each time round."""

    def __init__(
        self, manager: Manager, status: Callable[[], str], clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Take whom to tell.

        Args:
            manager: Whom.
            status: Returns one line for people.
            clock: Seconds, monotonic.
        """
        self._manager = manager
        self._status = status
        self._clock = clock
        self._ready = False
        self._feed_s = None if manager.watchdog_s is None else manager.watchdog_s / FEEDS_A_TIMEOUT
        self._feed_due_s = self._status_due_s = clock()

    def turn(self) -> None:
        """Tell that the loop has gone round: the first time that it is ready."""
        if not self._ready:
            self._ready = self._manager.tell(READY=1)
        self.feed()
        now_s = self._clock()
        if now_s >= self._status_due_s and self._manager.tell(STATUS=self._status()):
            self._status_due_s = now_s + STATUS_S

    def feed(self) -> None:
        """Tell that there is life, in the middle of a long turn."""
        if self._feed_s is None:
            return
        now_s = self._clock()
        if now_s >= self._feed_due_s and self._manager.tell(WATCHDOG=1):
            self._feed_due_s = now_s + self._feed_s

    def stopping(self) -> None:
        """Tell that the loop has ended, and nothing more."""
        self._manager.tell(STOPPING=1)
        self._manager.close()
