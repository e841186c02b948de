"""The `Datapath` protocol: what every datapath (eBPF now; simulator and IPC later) offers to the agent.

All windows are bytes, all rates bytes/s, all times integer microseconds of CLOCK_MONOTONIC (of virtual time
in a simulator). Everything here is structural: the native classes implement it without importing it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Literal, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from ccp_base.flows import FlowInfo, FlowStats, ReportHead

Reports = NDArray[np.void]
"""Reports of one program: a structured array, `REPORT_HEAD` and then one u8 per Report register."""

REPORT_HEAD: tuple[tuple[str, str], ...] = (
    ("flow_id", "u8"),
    ("now_us", "u8"),
    ("cwnd_bytes", "u8"),
    ("rate_bytes_per_s", "u8"),
    ("missed", "u4"),
    ("flags", "u2"),
)
"""What stands before the Report registers in every row of `Batch.arrays()`."""

LAW_PROGRAM = 0
"""The handle that means "no program": the flow runs the in-kernel fallback law."""


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
    def control_fields(self) -> list[str]:
        """Names of the control registers, which `update(fields=...)` may set."""
        ...


Caps = tuple[bool, bool, bytes]
"""Whether window and pacing rate are kept within a rate limit, and `ccp_algs.rtcp.Options.to_bytes()`."""

P_co = TypeVar("P_co", bound=Program, covariant=True)


class Report(ReportHead, Protocol):
    """One report. The program's Report registers are attributes, too, and win over nothing listed here."""

    EVENT_KIND: ClassVar[Literal["report"]]

    @property
    def program_handle(self) -> int:
        """Handle of the program that made it, as `install` returned it."""
        ...

    def as_dict(self) -> dict[str, int]:
        """Return the Report registers by name, and only these."""
        ...


class Created(Protocol):
    """A flow came."""

    EVENT_KIND: ClassVar[Literal["created"]]

    @property
    def info(self) -> FlowInfo:
        """What is known of it."""
        ...


class Closed(Protocol):
    """A flow went."""

    EVENT_KIND: ClassVar[Literal["closed"]]

    @property
    def flow_id(self) -> int:
        """The flow."""
        ...

    @property
    def stats(self) -> FlowStats:
        """Its last totals."""
        ...


class LimitChange(Protocol):
    """What is known of the rate limit of a flow's client has become another."""

    EVENT_KIND: ClassVar[Literal["limit"]]

    @property
    def flow_id(self) -> int:
        """The flow."""
        ...

    @property
    def now_us(self) -> int:
        """When [us]."""
        ...

    @property
    def netns_inum(self) -> int:
        """Inode number of the flow's network namespace."""
        ...

    @property
    def client(self) -> str:
        """Address of the peer: all flows to it share the limit."""
        ...

    @property
    def verdict(self) -> int:
        """What is known: a number of `ccp_algs.api.LIMIT_STATES`."""
        ...

    @property
    def bucket_bytes(self) -> int:
        """Estimated bucket size [bytes]."""
        ...

    @property
    def rate_bytes_per_s(self) -> int:
        """Estimated rate limit [bytes/s]."""
        ...

    @property
    def tokens_bytes(self) -> int:
        """Estimated level of the bucket [bytes]."""
        ...

    @property
    def active_flows(self) -> int:
        """Flows to the client that have something to send."""
        ...


Event = Report | Created | Closed | LimitChange
"""What happened to a flow; `EVENT_KIND` says which."""


class Batch(Protocol):
    """What one poll brought, in the order in which it happened."""

    def __len__(self) -> int:
        """Return how many events there are."""
        ...

    def __iter__(self) -> Iterator[Event]:
        """Yield the events in order."""
        ...

    def arrays(self) -> list[tuple[int, Reports]]:
        """Return the reports by program handle, each as one structured array in order of arrival."""
        ...

    def events(self) -> Sequence[Event]:
        """Return the events in order, without the reports."""
        ...


class Compile(Protocol[P_co]):
    """The compiler of the CCP language, `datapath.ebpf.compile_program`."""

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

    def extend(self, name: str) -> None:
        """Load an extension, such as `rate_limits`, unless it is loaded; raises `load.extension`."""
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
        fields: dict[str, int] | None = None,
        caps: Caps | None = None,
    ) -> bool:
        """Write to one flow; None leaves a thing as it is, and a letter not fetched yet is added to.

        `fields` are control registers of `program`, or of the program that the flow was given last. `caps`
        say whether a rate limit is looked for, and what is kept within it.

        Returns:
            False if the flow is gone.
        """
        ...

    def update_many(
        self,
        flow_ids: NDArray[np.uint64],
        cwnd_bytes: NDArray[np.uint64],
        rate_bytes_per_s: NDArray[np.uint64],
        fields: dict[str, NDArray[np.uint64]] | None = None,
    ) -> int:
        """Write windows and rates of many flows, arrays of shape (n,); 0 leaves a thing as it is.

        `fields` are control registers that all of them get, of the program that each flow was given last.
        Nothing is written if one of these programs does not have one of them.

        Returns:
            How many of the flows were still there; with `fields`, those without a program do not count.
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
