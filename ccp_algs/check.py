"""Check that an algorithm keeps its contract; used by `ccp check`, by live editing and by tests.

    check_algorithm(Vegas)        # raises an error for each violation, else returns a summary

The algorithm receives ordinary and difficult reports (all zero, repeated, late, huge, a timeout). It must
accept them all, set only values that a datapath can hold, and decide the same when run again.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from ccp_algs.api import (
    Algorithm,
    AnyAlgorithm,
    Decided,
    Updates,
    VectorAlgorithm,
    programs_of,
)
from ccp_algs.errors import ContractError
from ccp_algs.params import params_of
from ccp_algs.simulated_flow import (
    MSS_BYTES,
    FakeInfo,
    FakeReport,
    RecordingFlow,
    integer,
    registers_of,
)
from ccplane.base.flows import MAX_AMOUNT, MAX_REGISTER, REPORT_HEAD, FlowStats
from ccplane.base.names import close_names

_HUGE: Final = 1 << 40
_VECTOR_FLOWS: Final = 3


_LAST_TOTALS: Final = FlowStats(
    flow_id=1 << 32,
    cwnd_bytes=10 * MSS_BYTES,
    fallback=False,
    program=1,
    now_us=1_900_000,
    bytes_acked=100 * MSS_BYTES,
    bytes_retrans=MSS_BYTES,
    mss_bytes=MSS_BYTES,
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


@dataclasses.dataclass(frozen=True)
class Summary:
    """Result of a check.

    Attributes:
        name: Registered name, or else the class name.
        programs: CCP source text by program name.
        params: Default by parameter name.
        needs_ecn: Whether the algorithm asks for ECN.
        reports: Number of reports that it received.
        updates: Number of decisions that it made.
    """

    name: str
    programs: Mapping[str, str]
    params: Mapping[str, object]
    needs_ecn: bool
    reports: int
    updates: int


def check_algorithm(
    cls: AnyAlgorithm, compile_program: Callable[[str, str], object] | None = None
) -> Summary:
    """Check that an algorithm keeps the contract of `ccp_algs.api`.

    Args:
        cls: The class.
        compile_program: Compiles source text under a program name and raises on errors, for example
            `ccplane.base._native.compile`. None: the programs are not compiled.

    Returns:
        Summary of the check.

    Raises:
        ContractError: A slug `contract.*`, if the algorithm violates its contract.
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
            f"{cls.__name__} decides differently when it receives the same reports again",
            where=f"{cls.__module__}.{cls.__qualname__}",
            why="the algorithm probably draws random numbers, reads a clock, or keeps state outside its "
            "instances",
            fix="take the time from report.now_us, and seed the instance's own random generator from a Param",
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
    """Check that a new version of an algorithm can take over from a running one.

    Args:
        old: The class of the running version.
        new: The class of the new version, which has passed `check_algorithm`.

    Raises:
        Exception: Whatever the new version raises: in `on_reload`, or on the reports after it.
    """
    for name in ("on_report", "on_reports"):
        own = getattr(_base(new), name, None)
        if getattr(old, name, None) is not own and getattr(new, name, None) is own:
            raise ContractError(
                "contract.missing_callback",
                f"{new.__name__} does not define {name}",
                where=f"{new.__module__}.{new.__qualname__}",
                why="the previous version defines this callback; without it, reports would have no effect",
                fix=f"define {name}",
            )
    try:
        before = _begin(old, programs_of(old))
        before.run()
    except Exception:
        return  # the old version fails on these reports, so they cannot test the new one
    after = _begin(new, programs_of(new))
    after.algorithm.on_reload(before.algorithm)
    after.run()
    after.close()


def _base(cls: AnyAlgorithm) -> AnyAlgorithm:
    return VectorAlgorithm if issubclass(cls, VectorAlgorithm) else Algorithm


def _check_callbacks(cls: AnyAlgorithm) -> None:
    """Reject methods named `on_...` that nothing calls."""
    base = _base(cls)
    known = [*(name for name in dir(base) if name.startswith("on_")), *cls.callbacks]
    for name in dir(cls):
        if name.startswith("on_") and callable(getattr(cls, name)) and name not in known:
            raise ContractError(
                "contract.unknown_callback",
                f"{cls.__name__}.{name} is never called",
                where=f"{cls.__module__}.{cls.__qualname__}",
                why=f"the callbacks are {', '.join(known)}",
                fix=close_names(name, known, "callback"),
            )


def _reports(fields: list[str]) -> Iterator[tuple[dict[str, Any], dict[str, int]]]:
    """Yield head and fields of the reports that every algorithm must accept."""

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
    for step in range(20):  # all values of a small enumeration, or small counts
        yield report(1_030_000 + 20_000 * step, step)
    usual = report(1_500_000, MSS_BYTES)
    yield usual
    yield usual
    yield report(1_400_000, 1)
    yield report(1_520_000, 2, missed=1000)
    yield report(1_800_000, 1, timeout=True, cwnd_bytes=MSS_BYTES)
    yield report(1_810_000, 0, fold_error=True)
    yield report(1_820_000, _HUGE)
    yield report(1_830_000, _HUGE, cwnd_bytes=1 << 30, rate_bytes_per_s=1 << 37, missed=(1 << 32) - 1)
    yield report(1_840_000, 1)


@contextlib.contextmanager
def _noted(fields: Mapping[str, int]) -> Iterator[None]:
    """Add the report's values to an exception."""
    try:
        yield
    except Exception as error:
        error.add_note(f"every field of the report is {next(iter(fields.values()), 0)}")
        raise


def _reported(cls: AnyAlgorithm) -> Iterator[tuple[str, bytes]]:
    """Yield the messages that extensions may send, as the algorithm declares them."""
    for extension, examples in cls.message_examples.items():
        for message in examples:
            yield extension, message


class _Trial:
    """An algorithm on a simulated flow.

    Attributes:
        algorithm: The instance, after `on_create`.
        calls: Its decisions.
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
        """Feed the algorithm all reports."""
        for i in range(sum(1 for _ in _reports([]))):
            head, fields = list(_reports(self.flow.fields))[i]  # the program may have changed
            head = {"flow_id": self.info.flow_id, "cwnd_bytes": min(self.flow.cwnd_bytes, 1 << 30)} | head
            with _noted(fields):
                self.algorithm.on_report(FakeReport(head, fields, type(self.algorithm).__name__))
        self.algorithm.on_params(frozenset(params_of(type(self.algorithm))))
        for extension, message in _reported(type(self.algorithm)):
            self.algorithm.on_extension(extension, message)

    def close(self) -> None:
        """Close the flow."""
        self.algorithm.on_close(_LAST_TOTALS)


class _VectorTrial:
    """A vectorised algorithm on simulated flows; same attributes as `_Trial`."""

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
        """Feed the algorithm all reports."""
        import numpy as np

        dtype = np.dtype([*REPORT_HEAD, *((name, "<u8") for name in self._fields)])
        known = {info.flow_id for info in self.infos}
        self._record(self.algorithm.on_reports(np.zeros(0, dtype), self._program), known)
        for head, values in _reports(self._fields):
            reports = np.zeros(_VECTOR_FLOWS + 1, dtype)
            reports["flow_id"] = [info.flow_id for info in (*self.infos, self.infos[0])]  # one flow twice
            for name, value in {"cwnd_bytes": 10 * MSS_BYTES, **head, **values}.items():
                if name in (dtype.names or ()):
                    reports[name] = value
            reports["flags"] = int(head["timeout"]) + 2 * int(head["fold_error"])
            with _noted(values):
                self._record(self.algorithm.on_reports(reports, self._program), known)
        self._record(self.algorithm.on_params(frozenset(params_of(type(self.algorithm)))), known)
        for extension, message in _reported(type(self.algorithm)):
            self.algorithm.on_extension(self.infos[0].flow_id, extension, message)

    def _record(self, decided: Decided, flow_ids: set[int]) -> None:
        if decided is not None:
            for updates in decided if isinstance(decided, list | tuple) else (decided,):
                self.calls += _recorded(updates, flow_ids, self._registers)

    def close(self) -> None:
        """Close the flows."""
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
            why="on_reports must return Updates, a list of Updates, or None",
            fix="return Updates(flow_ids, cwnd_bytes)",
        )
    amounts = {"cwnd_bytes": updates.cwnd_bytes, "rate_bytes_per_s": updates.rate_bytes_per_s}
    columns = {name: column for name, column in amounts.items() if column is not None}
    for name, column in updates.registers.items():
        if name not in registers:
            raise ContractError(
                "contract.unknown_register",
                f"the program has no control register `{name}`",
                why="Updates.registers may contain only control registers",
                fix=close_names(name, registers, "register"),
            )
        columns[name] = column
    for column in (updates.flow_ids, *columns.values()):
        if column.shape != updates.flow_ids.shape or column.dtype != "uint64":
            raise ContractError(
                "contract.not_updates",
                f"an array of Updates has the wrong shape or type: {column.shape} and type {column.dtype}",
                why="all arrays must have shape (n,) and type uint64",
                fix="convert with .astype(np.uint64)",
            )
    calls = []
    for row, flow_id in enumerate(updates.flow_ids.tolist()):
        if flow_id not in flow_ids:
            raise ContractError(
                "contract.unknown_flow", f"Updates contains the flow {flow_id}, which does not exist"
            )
        maximum = {name: MAX_AMOUNT if name in amounts else MAX_REGISTER for name in columns}
        values = {
            name: integer(name, column[row].item(), 0, maximum[name]) for name, column in columns.items()
        }
        calls.append((str(flow_id), values))
    return calls
