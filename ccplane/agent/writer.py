"""Writes decisions to a datapath, and shows them to an observer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ccp_algs import Updates
from ccplane.datapath.protocol import Datapath


class Writer:
    """Writes the decisions of algorithms, for all flows.

    Attributes:
        update: `Datapath.update`. Look it up for each decision: it changes when an observer comes or goes.
    """

    __slots__ = ("_datapath", "_look_at_many", "update")

    def __init__(self, datapath: Datapath) -> None:
        self._datapath = datapath
        self.update: Callable[..., bool] = datapath.update
        self._look_at_many: Callable[[Updates], None] | None = None

    def send(self, updates: Updates) -> None:
        """Write the decisions of a vectorised algorithm; same errors as `ccplane.agent.vector.send`."""
        from ccplane.agent.vector import send  # needs NumPy, which other algorithms do not

        send(self._datapath, updates)
        if self._look_at_many is not None:
            self._look_at_many(updates)

    def show(self, one: Callable[..., None], many: Callable[[Updates], None]) -> None:
        """Show all decisions to an observer."""
        write = self._datapath.update

        def update(*arguments: Any, **named: Any) -> bool:
            written = write(*arguments, **named)
            if written:
                one(*arguments, **named)
            return written

        self.update, self._look_at_many = update, many

    def hide(self) -> None:
        """Remove the observer."""
        self.update, self._look_at_many = self._datapath.update, None
