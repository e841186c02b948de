"""The way from decisions to a datapath, at which others can look on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from ccp_algs import Updates
from ccplane.agent.vector import send
from ccplane.datapath.protocol import Datapath


class Update(Protocol):
    """`Datapath.update`."""

    def __call__(
        self,
        flow_id: int,
        cwnd_bytes: int | None = None,
        rate_bytes_per_s: int | None = None,
        program: int | None = None,
        registers: dict[str, int] | None = None,
        letters: dict[str, bytes] | None = None,
    ) -> bool:
        """Write to one flow."""
        ...


class Writes(Protocol):
    """What writes to single flows: a writer, or a datapath itself."""

    @property
    def update(self) -> Update:
        """`Datapath.update`."""
        ...


class Writer:
    """Writes what algorithms decide, for all flows of a plane.

    Attributes:
        update: `Datapath.update`, looked up at each decision: somebody may begin or end to look on.
    """

    __slots__ = ("_datapath", "_look_at_many", "update")

    def __init__(self, datapath: Datapath) -> None:
        """Take the datapath."""
        self._datapath = datapath
        self.update: Update = datapath.update
        self._look_at_many: Callable[[Updates], None] | None = None

    def send(self, updates: Updates) -> None:
        """Write what a vectorised algorithm decided.

        Raises:
            ParamError: As `ccplane.agent.vector.send`.
            RegisterError: Likewise.
        """
        send(self._datapath, updates)
        if self._look_at_many is not None:
            self._look_at_many(updates)

    def show(self, one: Callable[..., None], many: Callable[[Updates], None]) -> None:
        """Show every decision from now on.

        Args:
            one: Gets the arguments of `Datapath.update` that reached a flow.
            many: Gets what vectorised algorithms decided.
        """
        write = self._datapath.update

        def update(*arguments: Any, **named: Any) -> bool:
            written = write(*arguments, **named)
            if written:
                one(*arguments, **named)
            return written

        self.update, self._look_at_many = update, many

    def show_nobody(self) -> None:
        """Show decisions no longer."""
        self.update, self._look_at_many = self._datapath.update, None
