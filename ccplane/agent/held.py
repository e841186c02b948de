"""A datapath as an agent holds it: what differs between kinds from loading to letting go."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

from ccplane.agent.description import Plan
from ccplane.agent.features import Collects, features
from ccplane.agent.plane import Plane
from ccplane.agent.programs import extension_of
from ccplane.datapath import ebpf, registry
from ccplane.datapath.protocol import Datapath

if TYPE_CHECKING:
    from ccplane.base import _native


@dataclass(frozen=True, slots=True)
class SocketOptions:
    """How to wait for datapaths that connect over a socket.

    Attributes:
        datapath: Their name in `ccplane.datapath.registry`.
        path: The agent's socket.
    """

    datapath: str
    path: Path


class Held(Protocol):
    """A datapath, from before it is loaded on."""

    @property
    def place(self) -> str:
        """What it is known by, for commands: a directory of pins, or a socket."""
        ...

    @property
    def takes_over(self) -> bool:
        """Whether an agent that runs is to hand its flows over."""
        ...

    def rehearse(self, ready: Plan) -> None:
        """Try what the datapath could refuse, while another agent has it."""
        ...

    def load(self) -> Datapath:
        """Load it."""
        ...

    def loaded(self) -> None:
        """Let features do their part, once algorithms have their extensions."""
        ...

    def each_turn(self, plane: Plane) -> None:
        """Do what is to be done after every batch."""
        ...

    def metrics(self) -> AbstractContextManager[list[Collects]]:
        """Collect metrics of features for the length of a block."""
        ...

    def release(self) -> None:
        """Let another agent have it."""
        ...

    def undo(self) -> None:
        """Take away what was loaded, but not what was adopted."""
        ...

    def unload(self) -> None:
        """Take everything away."""
        ...


class HeldKernel:
    """The kernel's."""

    def __init__(self, options: ebpf.LoadOptions) -> None:
        """Take the options."""
        self._options = options
        self._datapath: _native.EbpfDatapath | None = None

    @property
    def place(self) -> str:
        """The directory of its pins."""
        return self._options.pin_dir

    @property
    def takes_over(self) -> bool:
        """Whether an agent that runs is to hand its flows over."""
        return self._options.take_over

    def rehearse(self, ready: Plan) -> None:
        """Show programs, names and extensions to the kernel."""
        for running in ready.running:
            for program in running.programs.values():
                ebpf.verify(cast("_native.Program", program))
        extensions = dict.fromkeys(one for running in ready.running for one in running.algorithm.extensions)
        ebpf.rehearse(self.place, list(ready.registrations), [extension_of(one) for one in extensions])

    def load(self) -> Datapath:
        """Load it."""
        self._datapath = ebpf.load(self._options)
        return self._datapath

    def loaded(self) -> None:
        """Let features do their part."""
        assert self._datapath is not None
        for feature in features():
            if feature.loaded is not None:
                feature.loaded(self._datapath)

    @contextmanager
    def metrics(self) -> Iterator[list[Collects]]:
        """Collect metrics of features for the length of a block."""
        with ExitStack() as around:
            every = [feature.metrics for feature in features() if feature.metrics is not None]
            yield [around.enter_context(collecting(self.place)) for collecting in every]

    def each_turn(self, plane: Plane) -> None:
        """End when another agent takes the flows over."""
        assert self._datapath is not None
        if self._datapath.has_successor():
            plane.handed_over = True
            plane.request_stop()

    def release(self) -> None:
        """Let another agent have it; what has our names, it takes."""
        if self._datapath is not None:
            self._datapath.release()

    def undo(self) -> None:
        """Take away what was loaded; what was adopted stays with the fallback law."""
        self.release()
        if self._datapath is not None and not self._datapath.adopted:
            ebpf.unload(self.place)

    def unload(self) -> None:
        """Take everything out of the kernel."""
        ebpf.unload(self.place)


class HeldSocket:
    """Datapaths that connect over a socket."""

    def __init__(self, options: SocketOptions) -> None:
        """Take the options."""
        self._options = options
        self._datapath: Datapath | None = None

    @property
    def place(self) -> str:
        """The agent's socket."""
        return str(self._options.path)

    takes_over = False

    def rehearse(self, ready: Plan) -> None:
        """Do nothing: no other agent has it."""

    def load(self) -> Datapath:
        """Wait for them."""
        opens = registry.kind_of(self._options.datapath).opens
        assert opens is not None, self._options.datapath
        self._datapath = opens(self._options.path)
        return self._datapath

    def loaded(self) -> None:
        """Do nothing."""

    def each_turn(self, plane: Plane) -> None:
        """Do nothing."""

    def metrics(self) -> AbstractContextManager[list[Collects]]:
        """Collect nothing: features extend the kernel's."""
        return nullcontext([])

    def release(self) -> None:
        """Remove the socket."""
        if self._datapath is not None:
            self._datapath.close()

    undo = release

    def unload(self) -> None:
        """Do nothing: nothing stays."""


def held(options: ebpf.LoadOptions | SocketOptions) -> Held:
    """Return the datapath that options are for."""
    return HeldSocket(options) if isinstance(options, SocketOptions) else HeldKernel(options)
