"""The life cycle of a datapath, from loading to release, for each kind."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

from ccplane.agent.agent_loop import AgentLoop
from ccplane.agent.description import Plan
from ccplane.agent.features import Collects, features
from ccplane.agent.programs import extension_of
from ccplane.datapath import ebpf, registry
from ccplane.datapath.protocol import Datapath

if TYPE_CHECKING:
    from ccplane.base import _native


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

    @property
    def takes_over(self) -> bool:
        """Whether to take over a running agent's flows."""
        ...

    def rehearse(self, ready: Plan) -> None:
        """Check that the datapath accepts programs, names and extensions, while another agent uses it."""
        ...

    def load(self) -> Datapath:
        """Load the datapath."""
        ...

    def loaded(self) -> None:
        """Run the features' `loaded` hooks, after the algorithms' extensions are loaded."""
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

    @property
    def place(self) -> str:
        """The pin directory of the datapath."""
        return self._options.pin_dir

    @property
    def takes_over(self) -> bool:
        """Whether to take over a running agent's flows."""
        return self._options.take_over

    def rehearse(self, ready: Plan) -> None:
        """Let the kernel check programs, names and extensions."""
        for running in ready.running:
            for program in running.programs.values():
                ebpf.verify(cast("_native.Program", program))
        extensions = dict.fromkeys(one for running in ready.running for one in running.algorithm.extensions)
        ebpf.rehearse(self.place, list(ready.registrations), [extension_of(one) for one in extensions])

    def load(self) -> Datapath:
        """Load the datapath."""
        self._datapath = ebpf.load(self._options)
        return self._datapath

    def loaded(self) -> None:
        """Run the features' `loaded` hooks."""
        assert self._datapath is not None
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
        """Stop the loop when another agent takes the flows over."""
        assert self._datapath is not None
        if successor_pid := self._datapath.successor_pid():
            agent_loop.successor_pid = successor_pid
            agent_loop.request_stop()

    def release(self) -> None:
        """Release the datapath to another agent, which keeps the registered names."""
        if self._datapath is not None:
            self._datapath.release()

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

    takes_over = False

    def rehearse(self, ready: Plan) -> None:
        """Do nothing: no other agent can use the socket."""

    def load(self) -> Datapath:
        """Open the socket."""
        opens = registry.kind_of(self._options.datapath).opens
        assert opens is not None, self._options.datapath
        self._datapath = opens(self._options.path)
        return self._datapath

    def loaded(self) -> None:
        """Do nothing."""

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

    def unload(self) -> None:
        """Do nothing: nothing stays loaded."""


def held(options: ebpf.LoadOptions | SocketOptions) -> Lifecycle:
    """Return the life cycle for the options."""
    return SocketLifecycle(options) if isinstance(options, SocketOptions) else KernelLifecycle(options)
