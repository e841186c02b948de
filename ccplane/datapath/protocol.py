"""The `Datapath` protocol: the interface between the agent and every datapath (eBPF, simulated, `ccp:unix`).

Windows are in bytes, rates in bytes/s, times in integer microseconds of CLOCK_MONOTONIC (of virtual time in a
simulator). The protocols are structural: the native classes implement them without importing them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, Protocol, TypeAlias, TypeVar

from ccplane.base.flows import REPORT_HEAD as REPORT_HEAD
from ccplane.base.flows import FlowInfo, FlowStats, ReportHead

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Reports: TypeAlias = "NDArray[np.void]"
"""Reports of one program: a structured array of `REPORT_HEAD`, then one u8 column per Report register."""

FALLBACK_PROGRAM = 0
"""The handle for "no program": the flow runs the in-kernel fallback."""

STAMP_SHIFT = 16
"""Position of the stamp above the handle, in `update` and in reports [bits]."""

FALLBACK_FAILED = FALLBACK_PROGRAM | 1 << STAMP_SHIFT
"""As `FALLBACK_PROGRAM`, with the cause that the flow's algorithm raised an exception."""


REPORT: Final = 0
CREATED: Final = 1
CLOSED: Final = 2
REPORTED: Final = 3
"""Values of `EVENT_KIND`."""


def handle_of(given: int) -> int:
    """Return a handle without its stamp."""
    return given % (1 << STAMP_SHIFT)


class Program(Protocol):
    """A compiled fold program, not yet installed."""

    @property
    def uid(self) -> int:
        """Number that identifies the source."""
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


class DatapathReport(ReportHead, Protocol):
    """One report. The program's Report registers are also attributes, unless a name is already used here."""

    EVENT_KIND: ClassVar[Literal[0]]

    @property
    def program_handle(self) -> int:
        """Handle of the program that made the report, with the stamp given to `update`."""
        ...

    def as_dict(self) -> dict[str, int]:
        """Return the Report registers by name, without the other fields of the report."""
        ...


class Created(Protocol):
    """A flow was created, or still waits for an answer to its last report, see `Datapath.answered`."""

    EVENT_KIND: ClassVar[Literal[1]]

    @property
    def info(self) -> FlowInfo:
        """Its properties."""
        ...


class Closed(Protocol):
    """A flow closed."""

    EVENT_KIND: ClassVar[Literal[2]]

    @property
    def flow_id(self) -> int:
        """The flow."""
        ...

    @property
    def stats(self) -> FlowStats:
        """The flow's last totals."""
        ...


class Reported(Protocol):
    """An event of a flow, from an extension of the datapath."""

    EVENT_KIND: ClassVar[Literal[3]]

    @property
    def flow_id(self) -> int:
        """The flow."""
        ...

    @property
    def now_us(self) -> int:
        """Time [us]."""
        ...

    @property
    def extension(self) -> str:
        """Name of the extension."""
        ...

    @property
    def raw(self) -> bytes:
        """The event, in the extension's format."""
        ...


Event = DatapathReport | Created | Closed | Reported
"""An event of a flow; `EVENT_KIND` gives its kind."""


class Batch(Protocol):
    """The events of one poll, in order."""

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
        """Compile `source`, which begins at line `first_line` of the file `origin`.

        Raises:
            LangError: If it does not compile.
        """
        ...


class Datapath(Protocol):
    """A datapath owned by the agent; a datapath has at most one agent."""

    @property
    def adopted(self) -> bool:
        """Whether flows and registrations of an earlier agent were taken over."""
        ...

    def register(self, cc_name: str, needs_ecn: bool = False) -> None:
        """Register a congestion-control name; no effect if it is already registered."""
        ...

    def unregister(self, cc_name: str) -> None:
        """Unregister a congestion-control name; existing flows continue."""
        ...

    def registered(self) -> list[str]:
        """Return the registered names, including names of earlier agents."""
        ...

    def extend(self, name: str, object: bytes | None = None) -> None:
        """Load an extension, unless it is already loaded.

        Args:
            name: Its name.
            object: BPF object file, see `native/ccp-bpf/src/bpf/extend.h`; None for an extension of the
                datapath.

        Raises:
            LoadError: `load.extension`; earlier extensions stay loaded.
        """
        ...

    def install(self, program: Any) -> int:
        """Install a compiled program; return its handle, >= 1.

        Raises:
            VerifierError: If the kernel refuses the program.
        """
        ...

    def uninstall(self, handle: int) -> None:
        """Remove a program; flows that still run it go to the fallback."""
        ...

    def poll(self, timeout_ms: int) -> Batch:
        """Wait for events, at most `timeout_ms` [ms] and until `wake`, and refresh the heartbeat."""
        ...

    def wake(self) -> None:
        """Make a `poll` that waits in another thread, or else the next one, return immediately."""
        ...

    def update(
        self,
        flow_id: int,
        cwnd_bytes: int | None = None,
        rate_bytes_per_s: int | None = None,
        program: int | None = None,
        registers: dict[str, int] | None = None,
        messages: dict[str, bytes] | None = None,
    ) -> bool:
        """Update one flow; None leaves a value unchanged. An update that is not yet applied is extended.

        `registers` are control registers of `program`, or of the flow's current program.
        `program` is a handle. From bit `STAMP_SHIFT` on, it may contain a stamp, a number chosen by the
        agent, which the program's reports repeat. `FALLBACK_FAILED` is the fallback's handle with a stamp
        for the cause.
        `messages` are messages to extensions, by name; an empty message detaches the flow.

        Returns:
            False if the flow closed.

        Raises:
            RegisterError: If the program has no such register.
            TypeError, OverflowError: If a register's value is not an integer, or has more than 64 bits.
        """
        ...

    def update_many(
        self,
        flow_ids: NDArray[np.uint64],
        cwnd_bytes: NDArray[np.uint64],
        rate_bytes_per_s: NDArray[np.uint64],
        registers: dict[str, NDArray[np.uint64]] | None = None,
    ) -> int:
        """Set windows and rates of many flows, arrays of shape (n,); 0 leaves a value unchanged.

        `registers` are control registers of each flow's current program. Nothing is written if one of these
        programs lacks a register.

        Returns:
            Number of flows updated: without closed flows and, with `registers`, without flows that have no
            program.
        """
        ...

    def answered(self, event: Any) -> None:
        """Record that the callback for a report has returned, or that a Created event was handled.

        A flow whose report is not answered within the report timeout runs the fallback until then.
        """
        ...

    def answered_many(self, flow_ids: NDArray[np.uint64], now_us: NDArray[np.uint64]) -> None:
        """Record that reports were handled: columns of `Batch.arrays`, of shape (n,)."""
        ...

    def flows(self) -> Sequence[FlowInfo]:
        """Return all current flows."""
        ...

    def stats(self, flow_id: int) -> FlowStats | None:
        """Return the totals of one flow, None if it closed."""
        ...

    def counters(self) -> dict[str, int]:
        """Return the datapath's counters, including `creates_missed` and `closes_missed`."""
        ...

    def heartbeat(self) -> None:
        """Refresh the heartbeat."""
        ...

    def close(self) -> None:
        """Move all flows to the fallback and release the datapath; registrations stay."""
        ...


class DatapathView(Protocol):
    """A read-only view of another process's datapath."""

    def flows(self) -> Sequence[FlowInfo]:
        """Return all current flows."""
        ...

    def all_stats(self) -> Sequence[FlowStats]:
        """Return the totals of all current flows."""
        ...

    def counters(self) -> dict[str, int]:
        """Return the datapath's counters."""
        ...
