"""The address where metrics are served."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ccplane.base.errors import UsageError

LOOPBACK: Final = "127.0.0.1"
UNIX: Final = "unix:"


@dataclass(frozen=True, slots=True)
class MetricsAddress:
    """An address to listen on.

    Attributes:
        host: Address of this machine; empty for a Unix socket.
        port: TCP port; 0 for any free port.
        path: The Unix socket; None for TCP.
        shares: Whether the predecessor of this agent may listen there.
    """

    host: str = LOOPBACK
    port: int = 0
    path: Path | None = None
    shares: bool = False

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}" if self.path is None else f"{UNIX}{self.path}"

    @classmethod
    def from_text(cls, text: str) -> MetricsAddress:
        """Parse `PORT`, `ADDRESS:PORT`, `[ADDRESS]:PORT` or `unix:PATH`.

        Raises:
            UsageError: `metrics.bad_address`.
        """
        if text.startswith(UNIX) and len(text) > len(UNIX):
            return cls("", 0, Path(text.removeprefix(UNIX)))
        host, _, port = text.rpartition(":")
        if not port.isdecimal() or int(port) > 65_535:
            raise UsageError(
                "metrics.bad_address",
                f"`{text}` is not an address for metrics",
                fix="write PORT (reachable only from this machine), ADDRESS:PORT or "
                "unix:/run/ccplane/metrics.sock",
            )
        return cls(host.strip("[]") or LOOPBACK, int(port))
