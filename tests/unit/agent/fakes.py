"""A datapath that only records calls, for tests of the loop; tests/kernel uses real sockets."""

from __future__ import annotations

import operator
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from ccplane.base.errors import CcpError, RegisterError, VerifierError
from ccplane.base.flows import MAX_REGISTER, FlowInfo, FlowStats
from ccplane.datapath.protocol import (
    CLOSED,
    CREATED,
    REPORT,
    REPORT_HEAD,
    REPORTED,
    STAMP_SHIFT,
    Datapath,
    handle_of,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeInfo(FlowInfo):
    flow_id: int = field(kw_only=False)
    src_addr: str = "10.0.0.1"
    src_port: int = 40_000
    dst_addr: str = "10.0.0.2"
    dst_port: int = 5_001
    mss_bytes: int = 1_448
    init_cwnd_bytes: int = 14_480
    cc_name: str = "ccp"
    netns_inum: int = 1
    cgroup_id: int = 1
    created_us: int = 1_000


@dataclass(frozen=True, slots=True)
class FakeStats(FlowStats):
    cwnd_bytes: int = 14_480
    fallback: bool = False
    program: int = 1
    srtt_us: int = 20_000
    min_rtt_us: int = 10_000
    now_us: int = 1_000_000


@dataclass(frozen=True, slots=True)
class FakeCreated:
    EVENT_KIND: ClassVar = CREATED
    info: FakeInfo


@dataclass(frozen=True, slots=True)
class FakeClosed:
    EVENT_KIND: ClassVar = CLOSED
    flow_id: int
    stats: FakeStats


@dataclass(frozen=True, slots=True)
class FakeEvent:
    EVENT_KIND: ClassVar = REPORTED
    flow_id: int
    raw: bytes
    extension: str = "counter"
    now_us: int = 1_000_000


def stamped(handle: int, changes: int) -> int:
    return handle | changes << STAMP_SHIFT


class FakeReport:
    EVENT_KIND = REPORT
    __slots__ = (
        "_registers",
        "cwnd_bytes",
        "flow_id",
        "now_us",
        "program",
        "program_handle",
        "rate_bytes_per_s",
    )
    missed = 0
    timeout = False
    fold_error = False

    def __init__(self, flow_id: int, program_handle: int = 1, now_us: int = 0, **registers: int) -> None:
        self.flow_id = flow_id
        self.program_handle = program_handle
        self.now_us = now_us
        self.cwnd_bytes = 14_480
        self.rate_bytes_per_s = 0
        self.program = "default"
        self._registers = registers

    def __getattr__(self, name: str) -> int:
        try:
            return self._registers[name]
        except KeyError:
            raise AttributeError(name) from None

    def as_dict(self) -> dict[str, int]:
        return dict(self._registers)


@dataclass(frozen=True)
class FakeProgram:
    name: str = "default"
    source: str = "(def (Report (volatile acked 0)))"
    uid: int = 1
    report_fields: list[str] = field(default_factory=lambda: ["acked"])
    control_registers: list[str] = field(default_factory=lambda: ["cap_bytes", "beta_permille"])
    primitives: list[str] = field(default_factory=list)
    n_instructions: int = 1


class FakeBatch:
    def __init__(self, events: Sequence[Any]) -> None:
        self._events = list(events)

    def __len__(self) -> int:
        return len(self._events)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._events)

    def events(self) -> list[Any]:
        return [event for event in self._events if not isinstance(event, FakeReport)]

    def arrays(self) -> list[tuple[int, np.ndarray]]:
        by_handle: dict[int, list[FakeReport]] = {}
        for event in self._events:
            if isinstance(event, FakeReport):
                by_handle.setdefault(handle_of(event.program_handle), []).append(event)
        made = []
        for handle, reports in by_handle.items():
            names = list(reports[0].as_dict())
            array = np.zeros(len(reports), [*REPORT_HEAD, *((name, "u8") for name in names)])
            for row, report in zip(array, reports, strict=True):
                row["flow_id"] = report.flow_id
                row["now_us"] = report.now_us
                row["cwnd_bytes"] = report.cwnd_bytes
                for name, value in report.as_dict().items():
                    row[name] = value
            made.append((handle, array))
        return made


@dataclass(frozen=True)
class Written:
    flow_id: int
    cwnd_bytes: int | None
    rate_bytes_per_s: int | None
    program: int | None
    registers: dict[str, int] | None
    messages: dict[str, bytes] | None = None


class FakeDatapath:
    """Records calls; `poll` returns `batches` one by one, `there` are the existing flows."""

    def __init__(self, there: Sequence[FakeInfo] = (), refuse: Sequence[str] = ()) -> None:
        self.adopted = bool(there)
        self.there = {info.flow_id: info for info in there}
        self.batches: deque[FakeBatch] = deque()
        self.written: list[Written] = []
        self.written_many: list[tuple[list[int], list[int], list[int]]] = []
        self.registers_many: list[dict[str, list[int]]] = []
        self.installed: dict[int, FakeProgram] = {}
        self.given: dict[int, int | None] = {}
        self.names: dict[str, bool] = {}
        self.missed = {"creates_missed": 0, "closes_missed": 0}
        self.heartbeats = 0
        self.written_between_heartbeats: list[int] = [0]
        self.polls = self.wakes = 0
        self.closed = self.released = False
        self.successor = 0
        self.refuse = set(refuse)
        self.extensions: list[tuple[str, bytes | None]] = []
        self._next_handle = 0

    def feed(self, *events: Any) -> None:
        """Let the next poll return these events; created flows then exist, closed flows do not."""
        for event in events:
            if isinstance(event, FakeCreated):
                self.there[event.info.flow_id] = event.info
            elif isinstance(event, FakeClosed):
                self.there.pop(event.flow_id, None)
        self.batches.append(FakeBatch(events))

    def resumed(self, extension: str) -> tuple[str, int]:
        return ("nothing", 0)

    def register(self, cc_name: str, needs_ecn: bool = False) -> None:
        self.names[cc_name] = needs_ecn

    def unregister(self, cc_name: str) -> None:
        del self.names[cc_name]

    def registered(self) -> list[str]:
        return list(self.names)

    def extend(self, name: str, object: bytes | None = None) -> None:
        self.extensions.append((name, object))

    def install(self, program: Any) -> int:
        if program.name in self.refuse:
            raise VerifierError("verifier.refused", "refused", fix="none")
        self._next_handle += 1
        self.installed[self._next_handle] = program
        return self._next_handle

    def uninstall(self, handle: int) -> None:
        del self.installed[handle]

    def poll(self, timeout_ms: int) -> FakeBatch:
        self.polls += 1
        return self.batches.popleft() if self.batches else FakeBatch(())

    def wake(self) -> None:
        """Count: `poll` returns immediately anyway."""
        self.wakes += 1

    def update(
        self,
        flow_id: int,
        cwnd_bytes: int | None = None,
        rate_bytes_per_s: int | None = None,
        program: int | None = None,
        registers: dict[str, int] | None = None,
        messages: dict[str, bytes] | None = None,
    ) -> bool:
        self.written_between_heartbeats[-1] += 1
        handle = None if program is None else handle_of(program)
        given = self.given[flow_id] = self.given.get(flow_id) if handle is None else handle
        for name, value in (registers or {}).items():
            if given in self.installed and name not in self.installed[given].control_registers:
                raise RegisterError("register.unknown", f"no `{name}`", fix="none")
            if not 0 <= operator.index(value) <= MAX_REGISTER:
                raise OverflowError(value)
        self.written.append(Written(flow_id, cwnd_bytes, rate_bytes_per_s, handle, registers, messages))
        return flow_id in self.there

    def update_many(
        self,
        flow_ids: np.ndarray,
        cwnd_bytes: np.ndarray,
        rate_bytes_per_s: np.ndarray,
        registers: dict[str, np.ndarray] | None = None,
    ) -> int:
        for array in (flow_ids, cwnd_bytes, rate_bytes_per_s, *(registers or {}).values()):
            assert array.dtype == np.uint64
            assert array.flags.c_contiguous
            assert array.shape == flow_ids.shape
        self.written_many.append((flow_ids.tolist(), cwnd_bytes.tolist(), rate_bytes_per_s.tolist()))
        if registers is not None:
            self.registers_many.append({name: column.tolist() for name, column in registers.items()})
        return sum(flow_id in self.there for flow_id in flow_ids.tolist())

    def flows(self) -> list[FakeInfo]:
        return list(self.there.values())

    def stats(self, flow_id: int) -> FakeStats | None:
        return FakeStats(flow_id) if flow_id in self.there else None

    def counters(self) -> dict[str, int]:
        return dict(self.missed)

    def heartbeat(self) -> None:
        self.heartbeats += 1
        self.written_between_heartbeats.append(0)

    def close(self) -> None:
        self.closed = True

    def successor_pid(self) -> int:
        return self.successor

    def release(self) -> None:
        self.closed = self.released = True


def fake_datapath(*there: FakeInfo, refuse: Sequence[str] = ()) -> FakeDatapath:
    """Return a recording datapath; mypy checks here that it implements the protocol."""
    made = FakeDatapath(there, refuse)
    _: Datapath = made
    return made


def outcome(call: Callable[[], Any]) -> Any:
    """Return the result of a call, or its CcpError."""
    try:
        return call()
    except CcpError as error:
        return error
