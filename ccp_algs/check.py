"""The contract of algorithms, checked before a flow depends on it: by `ccp check`, live editing and tests.

    check_algorithm(Vegas)        # raises what is wrong, returns what was seen

The algorithm gets ordinary reports and nasty ones (all zero, twice the same, late, huge, a timeout), without
kernel and without network. It must take them all, set only what a datapath can hold, and do the same when run
again.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, SupportsFloat

import numpy as np

from ccp_algs.api import (
    Algorithm,
    AnyAlgorithm,
    Decided,
    Updates,
    VectorAlgorithm,
    check_event,
    programs_of,
)
from ccp_algs.errors import ContractError
from ccp_algs.params import params_of
from ccp_base.flows import FlowInfo, FlowStats
from ccp_base.names import close_names

MAX_AMOUNT: Final = 1 << 40
"""Largest window [bytes] and rate [bytes/s] that is taken for meant."""
_MAX_REGISTER: Final = (1 << 64) - 1
_MSS_BYTES: Final = 1448
_HUGE: Final = 1 << 40
_VECTOR_FLOWS: Final = 3

_HEAD: Final = [
    ("flow_id", "<u8"),
    ("now_us", "<u8"),
    ("cwnd_bytes", "<u8"),
    ("rate_bytes_per_s", "<u8"),
    ("missed", "<u4"),
    ("flags", "<u2"),
]


@dataclasses.dataclass(frozen=True)
class Summary:
    """What a check saw.

    Attributes:
        name: Registered name, else the class name.
        programs: CCP source by program name.
        params: Default by parameter name.
        needs_ecn: It asks for ECN.
        reports: Reports that it took.
        updates: Decisions that it made.
    """

    name: str
    programs: Mapping[str, str]
    params: Mapping[str, object]
    needs_ecn: bool
    reports: int
    updates: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FakeInfo(FlowInfo):
    """A flow that does not exist."""

    flow_id: int = 1 << 32
    src_addr: str = "2001:db8::1"
    src_port: int = 40000
    dst_addr: str = "2001:db8::2"
    dst_port: int = 443
    family: int = 10
    mss_bytes: int = _MSS_BYTES
    init_cwnd_bytes: int = 10 * _MSS_BYTES
    cc_name: str = "ccp"
    netns_inum: int = 1
    cgroup_id: int = 1
    created_us: int = 1_000_000
    sock_cookie: int = 1
    ecn_ok: bool = True


_LAST_TOTALS: Final = FlowStats(
    flow_id=1 << 32,
    cwnd_bytes=10 * _MSS_BYTES,
    law=False,
    program=1,
    now_us=1_900_000,
    bytes_acked=100 * _MSS_BYTES,
    bytes_retrans=_MSS_BYTES,
    mss_bytes=_MSS_BYTES,
    srtt_us=20_000,
    min_rtt_us=20_000,
    delivered_pkts=100,
    lost_pkts=1,
    retrans_pkts=1,
    acks=100,
    reports=25,
    mail_applied=1,
    mail_applied_us=1_000_000,
)


class FakeReport:
    """A report with the fields of one program; asking for another field is an error that says so."""

    def __init__(self, head: Mapping[str, Any], fields: Mapping[str, int], algorithm: str) -> None:
        """Take what every report has, and the program's own fields."""
        self.__dict__.update(head)
        self.__dict__.update(fields)
        self._fields = dict(fields)
        self._algorithm = algorithm

    def as_dict(self) -> dict[str, int]:
        """Return the program's fields."""
        return dict(self._fields)

    def __getattr__(self, name: str) -> int:
        """Say which fields there are."""
        if name.startswith("__"):
            raise AttributeError(name)
        raise ContractError(
            "contract.unknown_field",
            f"{self._algorithm} reads report.{name}, which its fold program does not report",
            why=f"the program reports {', '.join(self._fields) or 'nothing'}",
            fix=close_names(name, self._fields, "field"),
        )


class RecordingFlow:
    """A flow that writes down what is asked of it, and refuses what a datapath would.

    Attributes:
        info: What is known of the flow.
        calls: Everything that was asked, in order; not what was told.
        events: What was told, in order: kind and detail.
        cwnd_bytes: Window last set [bytes].
    """

    def __init__(self, info: FlowInfo, programs: Mapping[str, str]) -> None:
        """Start with the first of the programs."""
        self.info = info
        self.calls: list[tuple[str, dict[str, int]]] = []
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.cwnd_bytes = info.init_cwnd_bytes
        self._programs = programs
        self._program = next(iter(programs))

    @property
    def fields(self) -> list[str]:
        """Fields of the report of the running program."""
        return registers_of(self._programs[self._program])[0]

    def set(
        self, *, cwnd_bytes: float | None = None, rate_bytes_per_s: float | None = None, **registers: float
    ) -> None:
        """Write down one decision."""
        self.calls.append(("set", self._checked(cwnd_bytes, rate_bytes_per_s, registers)))

    def set_program(
        self,
        name: str,
        *,
        cwnd_bytes: float | None = None,
        rate_bytes_per_s: float | None = None,
        **registers: float,
    ) -> None:
        """Write down a change of program."""
        if name not in self._programs:
            raise ContractError(
                "contract.unknown_program",
                f"there is no fold program `{name}`",
                fix=close_names(name, self._programs, "program"),
            )
        self._program = name
        self.calls.append((name, self._checked(cwnd_bytes, rate_bytes_per_s, registers)))

    def extend(self, extension: str, octets: bytes | None) -> None:
        """Write down a letter to an extension, its octets by their place."""
        self.calls.append((extension, {str(place): octet for place, octet in enumerate(octets or b"")}))

    def tell(self, kind: str, /, **detail: Any) -> None:
        """Write down an event."""
        check_event(kind)
        self.events.append((kind, detail))

    def _checked(
        self, cwnd_bytes: float | None, rate_bytes_per_s: float | None, registers: Mapping[str, float]
    ) -> dict[str, int]:
        known = registers_of(self._programs[self._program])[1]
        checked = {}
        if cwnd_bytes is not None:
            self.cwnd_bytes = checked["cwnd_bytes"] = _integer("cwnd_bytes", cwnd_bytes, 1, MAX_AMOUNT)
        if rate_bytes_per_s is not None:
            checked["rate_bytes_per_s"] = _integer("rate_bytes_per_s", rate_bytes_per_s, 0, MAX_AMOUNT)
        for name, value in registers.items():
            if name not in known:
                raise ContractError(
                    "contract.unknown_register",
                    f"program `{self._program}` has no control register `{name}`",
                    why="flow.set takes cwnd_bytes, rate_bytes_per_s and control registers",
                    fix=close_names(name, known, "register"),
                )
            checked[name] = _integer(name, value, 0, _MAX_REGISTER)
        return checked


def check_algorithm(
    cls: AnyAlgorithm, compile_program: Callable[[str, str], object] | None = None
) -> Summary:
    """Check that an algorithm keeps the contract of `ccp_algs.api`.

    Args:
        cls: The class.
        compile_program: Compiles source text under a program name and raises what is wrong with it, for
            example `ccp_base._native.compile`. None leaves the programs uncompiled.

    Returns:
        What was seen.

    Raises:
        ContractError: A slug `contract.*`, if it does not keep the contract.
        Exception: Whatever the algorithm or the compiler raises.
    """
    programs = programs_of(cls)
    _check_callbacks(cls)
    if compile_program is not None:
        for name, source in programs.items():
            compile_program(source, name)
    first, second = _drive(cls, programs), _drive(cls, programs)
    if first != second:
        raise ContractError(
            "contract.not_deterministic",
            f"{cls.__name__} decides differently when it sees the same reports again",
            where=f"{cls.__module__}.{cls.__qualname__}",
            why="it draws random numbers, reads a clock, or keeps state outside its instances",
            fix="use report.now_us for time, and a random generator of the instance with a seed from a Param",
        )
    return Summary(
        name=cls.name or cls.__name__,
        programs=programs,
        params={name: param.default for name, param in params_of(cls).items()},
        needs_ecn=cls.needs_ecn,
        reports=sum(1 for _ in _reports([])),
        updates=len(first),
    )


def check_reload(old: AnyAlgorithm, new: AnyAlgorithm) -> None:
    """Check that a new version of an algorithm can take over in the middle of a flow.

    Args:
        old: The class before.
        new: Its edited version, which keeps the contract.

    Raises:
        Exception: Whatever the new version raises: while it takes over, or on the reports after that.
    """
    for name in ("on_report", "on_reports"):
        own = getattr(_base(new), name, None)
        if getattr(old, name, None) is not own and getattr(new, name, None) is own:
            raise ContractError(
                "contract.missing_callback",
                f"{new.__name__} has no {name} any more",
                where=f"{new.__module__}.{new.__qualname__}",
                why="the version before decides there, and nobody would",
                fix=f"define {name}",
            )
    try:
        before = _begin(old, programs_of(old))
        before.run()
    except Exception:
        return  # the old version does not bear our reports; it is not the one to be judged
    after = _begin(new, programs_of(new))
    after.algorithm.on_reload(before.algorithm)
    after.run()
    after.close()


def _base(cls: AnyAlgorithm) -> AnyAlgorithm:
    return VectorAlgorithm if issubclass(cls, VectorAlgorithm) else Algorithm


def _check_callbacks(cls: AnyAlgorithm) -> None:
    """Find callbacks that nobody calls."""
    base = _base(cls)
    known = [*(name for name in dir(base) if name.startswith("on_")), *cls.callbacks]
    for name in dir(cls):
        if name.startswith("on_") and callable(getattr(cls, name)) and name not in known:
            raise ContractError(
                "contract.unknown_callback",
                f"nobody calls {cls.__name__}.{name}",
                where=f"{cls.__module__}.{cls.__qualname__}",
                why=f"the callbacks are {', '.join(known)}",
                fix=close_names(name, known, "callback"),
            )


def registers_of(source: str) -> tuple[list[str], list[str]]:
    """Return the names of the report fields and of the control registers that CCP source text declares."""
    text = re.sub(r"#[^\n]*", "", source)
    declared = text[: text.find("(when")] if "(when" in text else text
    names = re.findall(r"\(\s*(?:volatile\s+)?([\w.]+)\s+(?:\d+|\+infinity|true|false)\s*\)", declared)
    block = re.search(r"\(\s*Report\b((?:\s*\([^()]*\))*)\s*\)", declared)
    inside = re.findall(r"\(\s*(?:volatile\s+)?([\w.]+)\s", block.group(1)) if block else []
    fields = inside + [name.removeprefix("Report.") for name in names if name.startswith("Report.")]
    return fields, [name for name in names if name not in inside and not name.startswith("Report.")]


def _reports(fields: list[str]) -> Iterator[tuple[dict[str, Any], dict[str, int]]]:
    """Yield head and fields of the reports that every algorithm must take."""

    def report(now_us: int, value: int, **head: Any) -> tuple[dict[str, Any], dict[str, int]]:
        common = {
            "now_us": now_us,
            "rate_bytes_per_s": 0,
            "program": "default",
            "missed": 0,
            "timeout": False,
            "fold_error": False,
        }
        return common | head, dict.fromkeys(fields, value)

    yield report(1_010_000, 0)
    for step in range(20):  # every value of a small enumeration, and counts
        yield report(1_030_000 + 20_000 * step, step)
    usual = report(1_500_000, _MSS_BYTES)
    yield usual
    yield usual
    yield report(1_400_000, 1)
    yield report(1_520_000, 2, missed=1000)
    yield report(1_800_000, 1, timeout=True, cwnd_bytes=_MSS_BYTES)
    yield report(1_810_000, 0, fold_error=True)
    yield report(1_820_000, _HUGE)
    yield report(1_830_000, _HUGE, cwnd_bytes=1 << 30, rate_bytes_per_s=1 << 37, missed=(1 << 32) - 1)
    yield report(1_840_000, 1)


def _told(cls: AnyAlgorithm) -> Iterator[tuple[str, bytes]]:
    """Yield what extensions may tell, by the algorithm's own word."""
    for extension, examples in cls.told_examples.items():
        for octets in examples:
            yield extension, octets


class _Trial:
    """An algorithm on a flow that does not exist.

    Attributes:
        algorithm: The instance; `on_create` was called.
        calls: What it decided.
    """

    def __init__(self, cls: type[Algorithm], programs: Mapping[str, str]) -> None:
        self.info = FakeInfo()
        self.flow = RecordingFlow(self.info, programs)
        self.algorithm: Any = cls()
        self.algorithm.flow = self.flow
        self.algorithm.on_create(self.info)

    @property
    def calls(self) -> list[tuple[str, dict[str, int]]]:
        return self.flow.calls

    def run(self) -> None:
        """Let it take all reports."""
        for i in range(sum(1 for _ in _reports([]))):
            head, fields = list(_reports(self.flow.fields))[i]  # the program may change from one to the next
            head = {"flow_id": self.info.flow_id, "cwnd_bytes": min(self.flow.cwnd_bytes, 1 << 30)} | head
            self.algorithm.on_report(FakeReport(head, fields, type(self.algorithm).__name__))
        self.algorithm.on_params(frozenset(params_of(type(self.algorithm))))
        for extension, octets in _told(type(self.algorithm)):
            self.algorithm.on_extension(extension, octets)

    def close(self) -> None:
        """Let it say good-bye."""
        self.algorithm.on_close(_LAST_TOTALS)


class _VectorTrial:
    """A vectorised algorithm on flows that do not exist; attributes as of `_Trial`."""

    def __init__(self, cls: type[VectorAlgorithm], programs: Mapping[str, str]) -> None:
        self.infos = [
            FakeInfo(flow_id=(generation << 32) | slot) for generation, slot in enumerate((0, 5, 70), start=1)
        ]
        self.algorithm: Any = cls()
        self.calls: list[tuple[str, dict[str, int]]] = []
        flows = {info.flow_id: RecordingFlow(info, programs) for info in self.infos}
        for flow in flows.values():
            flow.calls = self.calls
        self.algorithm.flows = flows
        for info in self.infos:
            self.algorithm.on_create(info)
        self._program, source = next(iter(programs.items()))
        self._fields, self._registers = registers_of(source)

    def run(self) -> None:
        """Let it take all reports."""
        dtype = np.dtype([*_HEAD, *((name, "<u8") for name in self._fields)])
        known = {info.flow_id for info in self.infos}
        self._record(self.algorithm.on_reports(np.zeros(0, dtype), self._program), known)
        for head, values in _reports(self._fields):
            reports = np.zeros(_VECTOR_FLOWS + 1, dtype)
            reports["flow_id"] = [info.flow_id for info in (*self.infos, self.infos[0])]  # one flow twice
            for name, value in {"cwnd_bytes": 10 * _MSS_BYTES, **head, **values}.items():
                if name in (dtype.names or ()):
                    reports[name] = value
            reports["flags"] = int(head["timeout"]) + 2 * int(head["fold_error"])
            self._record(self.algorithm.on_reports(reports, self._program), known)
        self._record(self.algorithm.on_params(frozenset(params_of(type(self.algorithm)))), known)
        for extension, octets in _told(type(self.algorithm)):
            self.algorithm.on_extension(self.infos[0].flow_id, extension, octets)

    def _record(self, decided: Decided, flow_ids: set[int]) -> None:
        if decided is not None:
            for updates in decided if isinstance(decided, list | tuple) else (decided,):
                self.calls += _recorded(updates, flow_ids, self._registers)

    def close(self) -> None:
        """Let it say good-bye."""
        for info in self.infos:
            self.algorithm.on_close(info.flow_id)


def _begin(cls: AnyAlgorithm, programs: Mapping[str, str]) -> _Trial | _VectorTrial:
    return _VectorTrial(cls, programs) if issubclass(cls, VectorAlgorithm) else _Trial(cls, programs)


def _drive(cls: AnyAlgorithm, programs: Mapping[str, str]) -> list[tuple[str, dict[str, int]]]:
    trial = _begin(cls, programs)
    trial.run()
    trial.close()
    return trial.calls


def _recorded(updates: Updates, flow_ids: set[int], registers: list[str]) -> list[tuple[str, dict[str, int]]]:
    if not isinstance(updates, Updates):
        raise ContractError(
            "contract.not_updates",
            f"on_reports returned {updates!r}",
            why="it returns Updates, a list of them, or None",
            fix="return Updates(flow_ids, cwnd_bytes)",
        )
    amounts = {"cwnd_bytes": updates.cwnd_bytes, "rate_bytes_per_s": updates.rate_bytes_per_s}
    columns = {name: column for name, column in amounts.items() if column is not None}
    for name, column in updates.registers.items():
        if name not in registers:
            raise ContractError(
                "contract.unknown_register",
                f"the program has no control register `{name}`",
                why="Updates.registers has control registers",
                fix=close_names(name, registers, "register"),
            )
        columns[name] = column
    for column in (updates.flow_ids, *columns.values()):
        if column.shape != updates.flow_ids.shape or column.dtype != np.uint64:
            raise ContractError(
                "contract.not_updates",
                f"an array of Updates has shape {column.shape} and type {column.dtype}",
                why="all have shape (n,) and type uint64",
                fix="convert with .astype(np.uint64)",
            )
    calls = []
    for row, flow_id in enumerate(updates.flow_ids.tolist()):
        if flow_id not in flow_ids:
            raise ContractError(
                "contract.unknown_flow", f"Updates names the flow {flow_id}, which does not exist"
            )
        most = {name: MAX_AMOUNT if name in amounts else _MAX_REGISTER for name in columns}
        values = {name: _integer(name, column[row].item(), 0, most[name]) for name, column in columns.items()}
        calls.append((str(flow_id), values))
    return calls


def _integer(name: str, value: float, low: int, high: int) -> int:
    is_number = isinstance(value, SupportsFloat)  # algorithms pass what they computed, whatever they declare
    if is_number and math.isfinite(value):
        whole = int(value)
        if low <= whole <= high:
            return whole
    raise ContractError(
        "contract.bad_value",
        f"{name} cannot be {value!r}",
        why=f"it must be a number from {low} to {high}",
        fix="bound what you compute: reports can be empty, late, doubled and huge",
    )
