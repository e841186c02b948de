"""Listening sockets, also where the predecessor of an agent still listens.

An agent that takes over needs the addresses of the running agent, and gets them before that agent leaves.

- **TCP**: both sockets have SO_REUSEPORT. The kernel allows that only to processes of one user. A socket that
  must not share its address gets SO_REUSEPORT only after it is bound; otherwise two unrelated programs could
  share a port by accident. A shared socket listens only after `settle`: until then the predecessor gets all
  connections.
- **Unix**: the socket has a temporary name, and `settle` renames it. A client reaches the one socket or the
  other.
"""

from __future__ import annotations

import errno
import os
import pwd
import socket
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

BACKLOG: Final = 1024
"""Connections that wait in the kernel until they are accepted."""

Place = tuple[str, int] | Path
"""Host (empty: any) and TCP port, or the path of a Unix socket."""


class Listener:
    """A listening socket.

    Attributes:
        socket: The socket; not blocking.
    """

    def __init__(
        self, place: Place, *, shares: bool = False, mode: int = 0o600, user: str | None = None
    ) -> None:
        """Occupy the address; `settle` listens there if the address is shared.

        Args:
            place: Where to listen.
            shares: Whether the predecessor of this agent may listen there.
            mode: Mode of a Unix socket.
            user: Owner of a Unix socket; None for this process's user.

        Raises:
            OSError: If it cannot.
            LookupError: If there is no such user.
        """
        self._path = place if isinstance(place, Path) else None
        self._settled = False
        self._inode = 0
        if isinstance(place, Path):
            if not shares:
                _check_free(place)
            self._new = place.with_name(f"{place.name}.new")
            self.socket = socket.socket(socket.AF_UNIX)
        else:
            self.socket = socket.socket(socket.AF_INET6 if ":" in place[0] else socket.AF_INET)
        try:
            if isinstance(place, Path):
                self._new.unlink(missing_ok=True)  # of a killed process
                self.socket.bind(str(self._new))
                os.chmod(self._new, mode)  # before `listen`: no client can connect earlier
                if user is not None:
                    os.chown(self._new, pwd.getpwnam(user).pw_uid, -1)
                self._inode = self._new.stat().st_ino
            else:
                self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, int(shares))
                self.socket.bind(place)
            self.socket.setblocking(False)
            if not shares:
                self.settle()
        except BaseException:
            self.close()
            raise

    def settle(self) -> None:
        """Listen at the address. With a predecessor: call it when that agent has handed over.

        Raises:
            OSError: If the folder of a Unix socket can no longer be written.
        """
        if self._settled:
            return
        self.socket.listen(BACKLOG)
        if self._path is not None:
            self._new.rename(self._path)
        else:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)  # for a successor
        self._settled = True

    def close(self) -> None:
        """Close the socket. A successor's socket of the same name stays."""
        self.socket.close()
        if self._path is not None:
            for path in (self._path, self._new):
                with suppress(OSError):
                    if path.lstat().st_ino == self._inode:
                        path.unlink()


def _check_free(path: Path) -> None:
    with suppress(FileNotFoundError):
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise FileExistsError(errno.EEXIST, "another file is at this path")
        with socket.socket(socket.AF_UNIX) as other, suppress(ConnectionRefusedError):  # of a killed process
            other.connect(str(path))
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
