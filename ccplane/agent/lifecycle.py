"""The life cycle of a datapath, from loading to release, for each kind."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from ccplane.agent.agent_loop import AgentLoop
from ccplane.agent.features import Collects, features
from ccplane.datapath import ebpf, registry
from ccplane.datapath.protocol import Datapath

if TYPE_CHECKING:
    from ccplane.base import _native


log = logging.getLogger("ccplane.agent")

NOT_RENEWED: Final = (
    "%d network namespaces or listeners keep replaced programs: start the agent with --take-over as root to "
    "reach all namespaces, or restart the servers that listen; connections are not affected"
)


@dataclass(frozen=True, slots=True)
class SocketOptions:
    """Options for datapaths that connect over a socket.

    Attributes:
        datapath: Name of their kind in `ccplane.datapath.registry`.
        path: The agent's socket.
    """

    datapath: str
    path: Path


class Lifecycle(Protocol):
    """Life cycle of a datapath."""

    @property
    def place(self) -> str:
        """Identification of the datapath for commands: a pin directory, or a socket."""
        ...

    def load(self) -> Datapath:
        """Load the datapath. If a running agent has the flows, it keeps them until `adopt`."""
        ...

    def adopt(self, agent_loop: AgentLoop) -> None:
        """Take the flows over, after everything that can fail; run the features' `loaded` hooks.

        Raises:
            LoadError: `load.not_handed_over`, if the running agent keeps its flows.
        """
        ...

    def each_turn(self, agent_loop: AgentLoop) -> None:
        """Run after every batch."""
        ...

    def metrics(self) -> AbstractContextManager[list[Collects]]:
        """Collect metrics of features during a block."""
        ...

    def release(self) -> None:
        """Release the datapath to another agent."""
        ...

    def is_served(self) -> bool:
        """Return whether the agent that took the flows over serves them; False if it has ended before."""
        ...

    def undo(self) -> None:
        """Unload what this agent loaded, but nothing that it adopted."""
        ...

    def unload(self) -> None:
        """Unload everything."""
        ...


class KernelLifecycle:
    """Life cycle of the kernel datapath."""

    def __init__(self, options: ebpf.LoadOptions) -> None:
        self._options = options
        self._datapath: _native.EbpfDatapath | None = None
        self._handed = False

    @property
    def place(self) -> str:
        """The pin directory of the datapath."""
        return self._options.pin_dir

    def load(self) -> Datapath:
        """Load the datapath."""
        self._datapath = ebpf.load(self._options)
        return self._datapath

    def adopt(self, agent_loop: AgentLoop) -> None:
        """Take the flows over; log sockets and namespaces whose programs were not replaced."""
        assert self._datapath is not None
        agent_loop.not_renewed = not_renewed = self._datapath.adopt()
        for line in not_renewed:
            log.warning("not upgraded: %s", line)
        if not_renewed:
            log.warning(NOT_RENEWED, len(not_renewed))
        for feature in features():
            if feature.loaded is not None:
                feature.loaded(self._datapath)

    @contextmanager
    def metrics(self) -> Iterator[list[Collects]]:
        """Collect metrics of features during a block."""
        with ExitStack() as around:
            every = [feature.metrics for feature in features() if feature.metrics is not None]
            yield [around.enter_context(collecting(self.place)) for collecting in every]

    def each_turn(self, agent_loop: AgentLoop) -> None:
        """Let another agent take the flows over, and stop the loop when it has them."""
        assert self._datapath is not None
        outcome, pid = self._datapath.hand_over()
        if outcome == "failed":
            log.warning("another agent (pid %d) did not take the flows over; this agent keeps them", pid)
        elif outcome != "serves":
            self._handed = outcome == "handed"
            agent_loop.successor_pid = pid
            agent_loop.request_stop()

    def release(self) -> None:
        """Release the datapath to another agent, which keeps the registered names."""
        if self._datapath is not None:
            self._datapath.release()

    def is_served(self) -> bool:
        """Wait for the next agent's first poll, or its end. Agents of earlier versions are not watched."""
        return self._datapath is None or not self._handed or self._datapath.is_served()

    def undo(self) -> None:
        """Unload what this agent loaded; an adopted datapath stays loaded, with its flows on the fallback."""
        self.release()
        if self._datapath is not None and not self._datapath.adopted:
            ebpf.unload(self.place)

    def unload(self) -> None:
        """Remove everything from the kernel."""
        ebpf.unload(self.place)


class SocketLifecycle:
    """Life cycle of datapaths that connect over a socket."""

    def __init__(self, options: SocketOptions) -> None:
        self._options = options
        self._datapath: Datapath | None = None

    @property
    def place(self) -> str:
        """The agent's socket."""
        return str(self._options.path)

    def load(self) -> Datapath:
        """Open the socket."""
        opens = registry.kind_of(self._options.datapath).opens
        assert opens is not None, self._options.datapath
        self._datapath = opens(self._options.path)
        return self._datapath

    def adopt(self, agent_loop: AgentLoop) -> None:
        """Do nothing: no other agent can use the socket."""

    def each_turn(self, agent_loop: AgentLoop) -> None:
        """Do nothing."""

    def metrics(self) -> AbstractContextManager[list[Collects]]:
        """Collect nothing: features extend only the kernel datapath."""
        return nullcontext([])

    def release(self) -> None:
        """Remove the socket."""
        if self._datapath is not None:
            self._datapath.close()

    undo = release

    def is_served(self) -> bool:
        """Return True: no other agent can use the socket."""
        return True

    def unload(self) -> None:
        """Do nothing: nothing stays loaded."""


def held(options: ebpf.LoadOptions | SocketOptions) -> Lifecycle:
    """Return the life cycle for the options."""
    return SocketLifecycle(options) if isinstance(options, SocketOptions) else KernelLifecycle(options)
