"""The connection between an agent and a process's QUIC connections."""

from __future__ import annotations

import atexit
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from ccplane.datapath import wire

if TYPE_CHECKING:
    from ccplane.datapath.aioquic.controller import CcpCongestionControl


class Session:
    """The QUIC connections that an agent controls, all on one thread.

    Attributes:
        link: Link to the agent.
        flows: Congestion controls of the connections by number.
    """

    def __init__(self, agent: Path = wire.SOCKET) -> None:
        """Start looking for an agent.

        Raises:
            UsageError: `wire.no_socket`.
        """
        self.flows: WeakValueDictionary[int, CcpCongestionControl] = WeakValueDictionary()
        self.link = wire.link(agent)
        atexit.register(self.close)

    def close(self) -> None:
        """Disconnect: connections return to aioquic's congestion control."""
        atexit.unregister(self.close)
        self.link.close()
