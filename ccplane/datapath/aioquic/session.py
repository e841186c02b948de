"""What is between an agent and the connections of a process."""

from __future__ import annotations

import atexit
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from ccplane.datapath import wire

if TYPE_CHECKING:
    from ccplane.datapath.aioquic.controller import CcpCongestionControl


class Session:
    """Connections that an agent steers, all of one thread.

    Attributes:
        link: To the agent.
        flows: Connections by number, which congestion control has each.
    """

    def __init__(self, agent: Path = wire.SOCKET) -> None:
        """Begin to look for the agent whose socket is, or will be, at `agent`.

        Args:
            agent: Name of the agent's socket; the datapath's own is in the same directory.

        Raises:
            UsageError: `wire.no_socket`.
        """
        self.flows: WeakValueDictionary[int, CcpCongestionControl] = WeakValueDictionary()
        self.link = wire.link(agent)
        atexit.register(self.close)

    def close(self) -> None:
        """Leave the agent: connections go back to aioquic's congestion control."""
        atexit.unregister(self.close)
        self.link.close()
