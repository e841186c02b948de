"""A simulated flow and its reports, for checks and tests of algorithms without a datapath."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping
from typing import Any, Final, SupportsFloat

from ccp_algs.api import check_event
from ccp_algs.errors import ContractError
from ccplane.base.flows import MAX_AMOUNT, MAX_REGISTER, EcnMode, FlowInfo
from ccplane.base.names import close_names

MSS_BYTES: Final = 1448


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FakeInfo(FlowInfo):
    """Information about a simulated flow."""

    flow_id: int = 1 << 32
    src_addr: str = "2001:db8::1"
    src_port: int = 40000
    dst_addr: str = "2001:db8::2"
    dst_port: int = 443
    family: int = 10
    mss_bytes: int = MSS_BYTES
    init_cwnd_bytes: int = 10 * MSS_BYTES
    cc_name: str = "ccp"
    netns_inum: int = 1
    cgroup_id: int = 1
    created_us: int = 1_000_000
    sock_cookie: int = 1
    ecn_mode: EcnMode = "rfc3168"


class FakeReport:
    """A report with the fields of one program; reading another field raises an error with their names."""

    def __init__(self, head: Mapping[str, Any], fields: Mapping[str, int], algorithm: str) -> None:
        """Take the attributes that every report has, and the program's own fields."""
        self.__dict__.update(head)
        self.__dict__.update(fields)
        self._fields = dict(fields)
        self._algorithm = algorithm

    def as_dict(self) -> dict[str, int]:
        """Return the program's fields."""
        return dict(self._fields)

    def __getattr__(self, name: str) -> int:
        """Raise an error that lists the fields."""
        if name.startswith("__"):
            raise AttributeError(name)
        raise ContractError(
            "contract.unknown_field",
            f"{self._algorithm} reads report.{name}, which its fold program does not report",
            why=f"the program reports {', '.join(self._fields) or 'nothing'}",
            fix=close_names(name, self._fields, "field"),
        )


class RecordingFlow:
    """A flow that records each decision, and rejects decisions that a datapath would reject.

    Attributes:
        info: What is known about the flow.
        calls: All decisions, in order; events excluded.
        events: All emitted events, in order: kind and detail.
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
        """Record a decision."""
        self.calls.append(("set", self._checked(cwnd_bytes, rate_bytes_per_s, registers)))

    def set_program(
        self,
        name: str,
        *,
        cwnd_bytes: float | None = None,
        rate_bytes_per_s: float | None = None,
        **registers: float,
    ) -> None:
        """Record a change of program."""
        if name not in self._programs:
            raise ContractError(
                "contract.unknown_program",
                f"there is no fold program `{name}`",
                fix=close_names(name, self._programs, "program"),
            )
        self._program = name
        self.calls.append((name, self._checked(cwnd_bytes, rate_bytes_per_s, registers)))

    def extend(self, extension: str, message: bytes | None) -> None:
        """Record a message to an extension, one entry per byte."""
        self.calls.append((extension, {str(place): byte for place, byte in enumerate(message or b"")}))

    def emit(self, kind: str, /, **detail: Any) -> None:
        """Record an event."""
        check_event(kind)
        self.events.append((kind, detail))

    def _checked(
        self, cwnd_bytes: float | None, rate_bytes_per_s: float | None, registers: Mapping[str, float]
    ) -> dict[str, int]:
        known = registers_of(self._programs[self._program])[1]
        checked = {}
        if cwnd_bytes is not None:
            self.cwnd_bytes = checked["cwnd_bytes"] = integer("cwnd_bytes", cwnd_bytes, 1, MAX_AMOUNT)
        if rate_bytes_per_s is not None:
            checked["rate_bytes_per_s"] = integer("rate_bytes_per_s", rate_bytes_per_s, 0, MAX_AMOUNT)
        for name, value in registers.items():
            if name not in known:
                raise ContractError(
                    "contract.unknown_register",
                    f"program `{self._program}` has no control register `{name}`",
                    why="flow.set accepts cwnd_bytes, rate_bytes_per_s and control registers",
                    fix=close_names(name, known, "register"),
                )
            checked[name] = integer(name, value, 0, MAX_REGISTER)
        return checked


def registers_of(source: str) -> tuple[list[str], list[str]]:
    """Return the names of the report fields and of the control registers that CCP source text declares."""
    text = re.sub(r"#[^\n]*", "", source)
    declared = text[: text.find("(when")] if "(when" in text else text
    names = re.findall(r"\(\s*(?:volatile\s+)?([\w.]+)\s+(?:\d+|\+infinity|true|false)\s*\)", declared)
    block = re.search(r"\(\s*Report\b((?:\s*\([^()]*\))*)\s*\)", declared)
    inside = re.findall(r"\(\s*(?:volatile\s+)?([\w.]+)\s", block.group(1)) if block else []
    fields = inside + [name.removeprefix("Report.") for name in names if name.startswith("Report.")]
    return fields, [name for name in names if name not in inside and not name.startswith("Report.")]


def integer(name: str, value: float, low: int, high: int) -> int:
    """Return a value that a datapath can hold, rounded down.

    Raises:
        ContractError: `contract.bad_value`.
    """
    is_number = isinstance(value, SupportsFloat)  # algorithms may pass other types than they declare
    if is_number and math.isfinite(value):
        whole = int(value)
        if low <= whole <= high:
            return whole
    raise ContractError(
        "contract.bad_value",
        f"{name} cannot be {value!r}",
        why=f"the value must be a number from {low} to {high}",
        fix="bound the computed value: reports can be empty, late, repeated or huge",
    )
