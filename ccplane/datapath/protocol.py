"""The `Datapath` protocol: what every datapath (eBPF, simulated, `ccp:unix`) offers to the agent.

All windows are bytes, all rates bytes/s, all times integer microseconds of CLOCK_MONOTONIC (of virtual time
in a simulator). Everything here is structural: the native classes implement it without importing it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Final, Literal, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from ccplane.base.flows import REPORT_HEAD as REPORT_HEAD
from ccplane.base.flows import FlowInfo, FlowStats, ReportHead

Reports = NDArray[np.void]
"""Reports of one program: a structured array, `REPORT_HEAD` and then one u8 per Report register."""

LAW_PROGRAM = 0
"""The handle that means "no program": the flow runs the in-kernel fallback law."""

STAMP_SHIFT = 16
"""Above a handle in `update` and in reports stands a stamp."""

LAW_FAILED = LAW_PROGRAM | 1 << STAMP_SHIFT
"""The same, because the flow's algorithm raised."""


REPORT: Final = 0
CREATED: Final = 1
CLOSED: Final = 2
TOLD: Final = 3
"""Values of `EVENT_KIND`."""


def handle_of(given: int) -> int:
    """Return the handle of what a flow was given, without its stamp."""
    return given % (1 << STAMP_SHIFT)


class Program(Protocol):
    """A compiled fold program, not yet installed."""

    @property
    def uid(self) -> int:
        """Number that differs whenever source differs."""
        ...

    @property
    def name(self) -> str:
        """Name of the program within its algorithm."""
        ...

    @property
    def report_fields(self) -> list[str]:
        """Names of the Report registers, without `Report.`."""
        ...

    @property
    def control_registers(self) -> list[str]:
        """Names of the control registers, which `update(registers=...)` may set."""
        ...


P_co = TypeVar("P_co", bound=Program, covariant=True)


class Report(ReportHead, Protocol):
    """One report. The program's Report registers are attributes, too, and win over nothing listed here."""

    EVENT_KIND: ClassVar[Literal[0]]

    @property
    def program_handle(self) -> int:
        """Handle of the program that made it, with the stamp with which the flow was given it (`update`)."""
        ...

    def as_dict(self) -> dict[str, int]:
        """Return the Report registers by name, and only these."""
        ...


class Created(Protocol):
    """A flow came."""

    EVENT_KIND: ClassVar[Literal[1]]

    @property
    def info(self) -> FlowInfo:
        """What is known of it."""
        ...


class Closed(Protocol):
    """A flow went."""

    EVENT_KIND: ClassVar[Literal[2]]

    @property
    def flow_id(self) -> int:
        """The flow."""
        ...

    @property
    def stats(self) -> FlowStats:
        """Its last totals."""
        ...


class Told(Protocol):
    """An extension of the datapath tells something of a flow."""

    EVENT_KIND: ClassVar[Literal[3]]

    @property
    def flow_id(self) -> int:
        """The flow."""
        ...

    @property
    def now_us(self) -> int:
        """When [us]."""
        ...

    @property
    def extension(self) -> str:
        """Name of the extension."""
        ...

    @property
    def octets(self) -> bytes:
        """What it tells, as it writes it down."""
        ...


Event = Report | Created | Closed | Told
"""What happened to a flow; `EVENT_KIND` says which."""


class Batch(Protocol):
    """What one poll brought, in the order in which it happened."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Event]: ...

    def arrays(self) -> list[tuple[int, Reports]]:
        """Return the reports by program handle, each as one structured array in order of arrival."""
        ...

    def events(self) -> Sequence[Event]:
        """Return the events in order, without the reports."""
        ...


class Compile(Protocol[P_co]):
    """The compiler of the CCP language, `ccplane.datapath.ebpf.compile_program`."""

    def __call__(self, source: str, name: str, origin: str, first_line: int, /) -> P_co:
        """Compile `source`, which begins in line `first_line` of the file `origin`.

        Raises:
            LangError: If it does not compile.
        """
        ...


class Datapath(Protocol):
    """A datapath that the agent owns: at most one agent a datapath."""

    @property
    def adopted(self) -> bool:
        """Whether flows and registrations of an earlier agent were taken over."""
        ...

    def register(self, cc_name: str, needs_ecn: bool = False) -> None:
        """Offer `cc_name` to sockets; no effect if it is offered already."""
        ...

    def unregister(self, cc_name: str) -> None:
        """Offer `cc_name` to new sockets no longer; its flows live on."""
        ...

    def registered(self) -> list[str]:
        """Return the names on offer, also those that a former agent left."""
        ...

    def extend(self, name: str, object: bytes | None = None) -> None:
        """Load an extension unless it is loaded.

        Args:
            name: Its name.
            object: A BPF object, as `native/ccp-bpf/src/bpf/extend.h` wants it; None for an extension that
                the datapath brings along.

        Raises:
            LoadError: `load.extension`; what was loaded before stays.
        """
        ...

    def install(self, program: Any) -> int:
        """Install a compiled program.

        Returns:
            Its handle, >= 1.

        Raises:
            VerifierError: If the kernel refuses the program.
        """
        ...

    def uninstall(self, handle: int) -> None:
        """Remove a program; a flow that still runs it goes to the fallback law."""
        ...

    def poll(self, timeout_ms: int) -> Batch:
        """Wait for events, at most `timeout_ms` [ms] and until `wake`, and refresh the heartbeat."""
        ...

    def wake(self) -> None:
        """Make `poll`, if it waits in another thread, return at once, and else the next one."""
        ...

    def update(
        self,
        flow_id: int,
        cwnd_bytes: int | None = None,
        rate_bytes_per_s: int | None = None,
        program: int | None = None,
        registers: dict[str, int] | None = None,
        letters: dict[str, bytes] | None = None,
    ) -> bool:
        """Write to one flow; None leaves a thing as it is, and a letter not fetched yet is added to.

        `registers` are control registers of `program`, or of the program that the flow was given last.
        `program` is a handle; above it, from bit `STAMP_SHIFT` on, a number of the agent's own may stand, a
        stamp, which the reports of that program bring back. `LAW_FAILED` is the law's handle with the stamp
        that says why.
        `letters` go to extensions, by name; an empty one has the extension leave the flow.

        Returns:
            False if the flow is gone.

        Raises:
            RegisterError: If the program has no such register.
            TypeError, OverflowError: If the value of a register is no integer, or has more than 64 bits.
        """
        ...

    def update_many(
        self,
        flow_ids: NDArray[np.uint64],
        cwnd_bytes: NDArray[np.uint64],
        rate_bytes_per_s: NDArray[np.uint64],
        registers: dict[str, NDArray[np.uint64]] | None = None,
    ) -> int:
        """Write windows and rates of many flows, arrays of shape (n,); 0 leaves a thing as it is.

        `registers` are control registers that all of them get, of the program that each flow was given last.
        Nothing is written if one of these programs does not have one of them.

        Returns:
            How many of the flows were still there; with `registers`, those without a program do not count.
        """
        ...

    def flows(self) -> Sequence[FlowInfo]:
        """Return all flows of now."""
        ...

    def stats(self, flow_id: int) -> FlowStats | None:
        """Return the totals of one flow, None if it is gone."""
        ...

    def counters(self) -> dict[str, int]:
        """Return the datapath's counters, `creates_missed` and `closes_missed` among them."""
        ...

    def heartbeat(self) -> None:
        """Tell the datapath that the agent lives."""
        ...

    def close(self) -> None:
        """Give all flows to the fallback law and let go; the registration stays."""
        ...


class DatapathView(Protocol):
    """A datapath that somebody else owns, seen from outside: nothing here changes it."""

    def flows(self) -> Sequence[FlowInfo]:
        """Return all flows of now."""
        ...

    def all_stats(self) -> Sequence[FlowStats]:
        """Return the totals of all flows of now."""
        ...

    def counters(self) -> dict[str, int]:
        """Return the datapath's counters."""
        ...
