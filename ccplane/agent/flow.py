"""The flow object of an algorithm, `self.flow`: it checks decisions and writes them to the datapath."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Final, Protocol, SupportsFloat, SupportsIndex

from ccp_algs.api import check_event
from ccplane.agent.programs import Installed, ProgramSet
from ccplane.base.errors import FlowGone, ParamError, ProgramError, RegisterError
from ccplane.base.flows import MAX_AMOUNT, MAX_REGISTER, FlowInfo
from ccplane.base.names import close_names
from ccplane.datapath.protocol import FALLBACK_PROGRAM, STAMP_SHIFT

Number = SupportsIndex | SupportsFloat
"""Types accepted for windows, rates and registers: int, float, bool and their NumPy equivalents."""


MAX_STAMP: Final = 0xFFFF
"""Maximum stamp. The stamp of a program counts the programs set for the flow, see `Datapath.update`."""

Emit = Callable[[str, FlowInfo, dict[str, Any]], None]
"""Emits an event of a flow: kind, flow, details."""


class Writes(Protocol):
    """Writes updates of flows: the agent loop's writer, or a datapath."""

    @property
    def update(self) -> Callable[..., bool]:
        """`Datapath.update`."""
        ...


def whole_number(value: Number, name: str, low: int, high: int) -> int:
    """Return `value` as an integer, rounded towards zero.

    Raises:
        ParamError: `update.not_a_number` or `update.out_of_range`.
    """
    # Plain types first: this runs for every report, and isinstance with SupportsIndex would take 5 us.
    if type(value) is int:
        number = value
    else:
        try:
            number = int(value) if type(value) is float else _converted(value)
        except (TypeError, ValueError, OverflowError):
            raise ParamError(
                "update.not_a_number",
                f"{name} must be a finite number, not {value!r}",
                fix="check how the value is computed; a possible cause is a division by an RTT of 0",
            ) from None
    if low <= number <= high:
        return number
    if number < 0:
        why = "it is negative"
    elif number < low:
        why = f"the minimum is {low}"
    else:
        why = f"the maximum is {high}"
    raise ParamError(
        "update.out_of_range",
        f"{name} cannot be {value!r}",
        why=why,
        fix="give windows in bytes, not segments, and rates in bytes/s, not bit/s; None means unchanged",
    )


def describe(info: FlowInfo) -> str:
    """Return a flow's id and addresses, for errors."""
    return f"{info.flow_id} ({info.src_addr}:{info.src_port} -> {info.dst_addr}:{info.dst_port})"


def _converted(value: Number) -> int:
    """Convert bool and NumPy numbers; refuse text, even if it spells a number."""
    if isinstance(value, str | bytes):
        raise TypeError
    try:
        return operator.index(value)  # type: ignore[arg-type] # raises if it is not an integer
    except TypeError:
        return int(float(value))


class FlowControl:
    """One flow, as its algorithm sees it.

    Settings made in `on_create` are collected and sent to the datapath as one update together with the first
    program, so that all of them take effect at the same ACK.

    Attributes:
        info: Properties of the flow.
        handle: Handle and stamp of the flow's current program, 0 = none. Reports with another handle or stamp
            are stale: they come from an earlier program, or from an earlier run of the same program.
    """

    __slots__ = (
        "_extended",
        "_flow_id",
        "_installed",
        "_one_of_many",
        "_pending",
        "_programs",
        "_report",
        "_stamp",
        "_writes",
        "handle",
        "info",
    )

    def __init__(
        self,
        info: FlowInfo,
        programs: ProgramSet,
        writes: Writes,
        emit: Emit = lambda _kind, _info, _detail: None,
        *,
        one_of_many: bool = False,
    ) -> None:
        """Create the flow without a program; settings are collected until `open()`.

        Args:
            info: Properties of the flow.
            programs: Programs of its algorithm.
            writes: Writes updates.
            emit: Takes events that the algorithm emits for the flow.
            one_of_many: The instance has several flows: updates of a closed flow are ignored instead of
                raising FlowGone.
        """
        self.info = info
        self.handle = FALLBACK_PROGRAM
        self._flow_id = info.flow_id
        self._programs = programs
        self._writes = writes
        self._report = emit
        self._one_of_many = one_of_many
        self._installed: Installed | None = None
        self._stamp = MAX_STAMP  # the first is 0
        self._extended: dict[str, bytes] = {}
        self._pending: _Pending | None = _Pending()

    def set(
        self, *, cwnd_bytes: Number | None = None, rate_bytes_per_s: Number | None = None, **registers: Number
    ) -> None:
        """Set window, pacing rate and control registers in one update.

        Args:
            cwnd_bytes: New window [bytes], >= 1; the datapath uses at least 2 segments. None: unchanged.
            rate_bytes_per_s: New pacing rate [bytes/s]; 0 ends pacing by the algorithm. None: unchanged.
            **registers: Control registers of the program by name.

        Raises:
            ParamError: If a value is not a number, negative or too large.
            RegisterError: If the program has no such control register.
            FlowGone: If the flow closed.
        """
        if cwnd_bytes is not None:
            cwnd_bytes = whole_number(cwnd_bytes, "cwnd_bytes", 1, MAX_AMOUNT)
        if rate_bytes_per_s is not None:
            rate_bytes_per_s = whole_number(rate_bytes_per_s, "rate_bytes_per_s", 0, MAX_AMOUNT)
        if self._pending is not None:
            self._pending.add(cwnd_bytes, rate_bytes_per_s, _checked(self._assumed(), registers))
            return
        update = self._writes.update
        try:
            written = update(self._flow_id, cwnd_bytes, rate_bytes_per_s, None, registers or None)
        except (TypeError, OverflowError, RegisterError):  # values are checked only after a failure: faster
            checked = _checked(self._installed, registers)
            written = update(self._flow_id, cwnd_bytes, rate_bytes_per_s, None, checked)
        if not written:
            self._gone()

    def set_program(
        self,
        name: str,
        *,
        cwnd_bytes: Number | None = None,
        rate_bytes_per_s: Number | None = None,
        **registers: Number,
    ) -> None:
        """Change the fold program of this flow; its registers start at their initial values.

        Args:
            name: A program of the algorithm.
            cwnd_bytes: As in `set`.
            rate_bytes_per_s: As in `set`.
            **registers: Other initial values for control registers of the new program.

        Raises:
            ProgramError: If the algorithm has no such program.
            ParamError: If a value is not a number, negative or too large.
            RegisterError: If the program has no such control register.
            FlowGone: If the flow closed.
        """
        installed = self._programs.named(name)
        checked = _checked(installed, registers)
        if cwnd_bytes is not None:
            cwnd_bytes = whole_number(cwnd_bytes, "cwnd_bytes", 1, MAX_AMOUNT)
        if rate_bytes_per_s is not None:
            rate_bytes_per_s = whole_number(rate_bytes_per_s, "rate_bytes_per_s", 0, MAX_AMOUNT)
        if self._pending is not None:
            self._pending.program = installed
            self._pending.goes_on = False
            self._pending.registers.clear()
            self._pending.add(cwnd_bytes, rate_bytes_per_s, checked)
            return
        handle = self._stamped(installed)
        if not self._writes.update(self._flow_id, cwnd_bytes, rate_bytes_per_s, handle, checked or None):
            self._gone()
        self._run(installed)

    def emit(self, kind: str, /, **detail: Any) -> None:
        """Emit an event of the flow to the listeners of the agent's events.

        Args:
            kind: `area:thing_happened`; the areas of the agent's own events are reserved.
            **detail: Details: text, numbers, None.

        Raises:
            ContractError: `contract.bad_event`.
        """
        check_event(kind)
        if self._pending is not None:
            self._pending.events.append((kind, detail))
        else:
            self._report(kind, self.info, detail)

    def extend(self, extension: str, message: bytes | None) -> None:
        """Attach the flow to an extension of the datapath, or send the extension another message.

        Args:
            extension: Name of one of the algorithm's `extensions`.
            message: The message, in the extension's format; None detaches the flow.

        Raises:
            LoadError: `load.extension`, if the extension is not loaded.
            CcpError: `update.extension`, if the extension does not accept the message.
            FlowGone: If the flow closed.
        """
        pending = message or b""
        reported = {extension: pending}
        if self._pending is None and not self._writes.update(self._flow_id, None, None, None, None, reported):
            self._gone()
        self._extended[extension] = pending

    def open(self, before: FlowControl | None = None) -> None:
        """Send the collected settings with the first program; later settings are sent immediately.

        Raises:
            FlowGone: If the flow closed.
        """
        pending = self._pending
        assert pending is not None, "a flow is opened once"
        program = pending.program or self._programs.initial
        self._pending = None
        if before is not None:
            self._stamp = before._stamp
        handle: int | None = None  # a handle would restart a program that continues
        if not pending.goes_on:
            handle = FALLBACK_PROGRAM if program is None else self._stamped(program)
        left = () if before is None else (name for name, message in before._extended.items() if message)
        messages = dict.fromkeys(left, b"") | self._extended
        if (
            handle is not None
            or messages
            or pending.cwnd_bytes is not None
            or pending.rate_bytes_per_s is not None
            or pending.registers
        ) and not self._writes.update(
            self._flow_id,
            pending.cwnd_bytes,
            pending.rate_bytes_per_s,
            handle,
            pending.registers or None,
            messages or None,
        ):
            self._gone()
        self._run(program)
        for kind, detail in pending.events:
            self._report(kind, self.info, detail)

    def continue_from(self, before: FlowControl) -> None:
        """Continue with the window, rate and program of an older version of the algorithm.

        Call this after `on_create`. Of the settings made in `on_create`, only registers of a restarted
        program are kept, because nothing else sets these registers.
        """
        pending = self._pending
        assert pending is not None, "it has not been opened"
        pending.cwnd_bytes = pending.rate_bytes_per_s = None
        pending.events.clear()
        program = None if before.program is None else self._programs.get(before.program)
        if program is None:
            return
        pending.goes_on = program is before._installed
        if pending.goes_on or program is not self._assumed():
            pending.registers.clear()
        pending.program = program

    def move(self, installed: Installed) -> bool:
        """Give the flow another program; return False if the flow closed."""
        if not self._writes.update(self._flow_id, None, None, self._stamped(installed), None):
            return False
        self._run(installed)
        return True

    def retire(self) -> None:
        """Release the program, because the flow closed or moved to the fallback."""
        self._run(None)

    @property
    def program(self) -> str | None:
        """Name of the flow's current program; None while it has none."""
        return None if self._installed is None else self._installed.name

    def _run(self, installed: Installed | None) -> None:
        before, self._installed = self._installed, installed
        self.handle = FALLBACK_PROGRAM if installed is None else installed.handle | self._stamp << STAMP_SHIFT
        self._programs.moved(before, installed)

    def _stamped(self, installed: Installed) -> int:
        """Return the program's handle with a new stamp."""
        self._stamp = self._stamp + 1 & MAX_STAMP
        return installed.handle | self._stamp << STAMP_SHIFT

    def runs(self, installed: Installed) -> bool:
        """Return whether this is the flow's current program."""
        return self._installed is installed

    def _assumed(self) -> Installed | None:
        """Return the program whose registers `set` writes; in `on_create`, the first program."""
        if self._pending is not None:
            return self._pending.program or self._programs.initial
        return self._installed

    def _gone(self) -> None:
        if self._one_of_many:
            return
        raise FlowGone(
            "flow.gone",
            f"flow {describe(self.info)} closed",
            fix="forget the flow; on_close is called with its last totals",
        )


def _checked(installed: Installed | None, registers: dict[str, Number]) -> dict[str, int]:
    """Return the registers with their values as integers."""
    if installed is None and registers:
        raise ProgramError(
            "program.none",
            f"cannot set {', '.join(f'`{name}`' for name in registers)}: the flow has no program",
            why="control registers belong to a fold program",
            fix="call flow.set_program(NAME, ...) first",
        )
    for name in registers:
        if installed is not None and name not in installed.registers:
            raise _no_register(name, installed)
    return {name: whole_number(value, name, 0, MAX_REGISTER) for name, value in registers.items()}


class _Pending:
    """Settings of a flow collected during `on_create`.

    Attributes:
        events: Events that the algorithm emitted.
        goes_on: `program` already runs, and keeps its registers.
    """

    __slots__ = ("cwnd_bytes", "events", "goes_on", "program", "rate_bytes_per_s", "registers")

    def __init__(self) -> None:
        self.cwnd_bytes: int | None = None
        self.rate_bytes_per_s: int | None = None
        self.program: Installed | None = None
        self.goes_on = False
        self.registers: dict[str, int] = {}
        self.events: list[tuple[str, dict[str, Any]]] = []

    def add(self, cwnd_bytes: int | None, rate_bytes_per_s: int | None, registers: dict[str, int]) -> None:
        if cwnd_bytes is not None:
            self.cwnd_bytes = cwnd_bytes
        if rate_bytes_per_s is not None:
            self.rate_bytes_per_s = rate_bytes_per_s
        self.registers.update(registers)


def _no_register(name: str, installed: Installed) -> RegisterError:
    program = installed.program
    if name in program.report_fields:
        return RegisterError(
            "register.read_only",
            f"`{name}` of program `{installed.name}` is a Report register",
            why="only the fold program writes Report registers",
            fix=f"also define a control register, (def ({name}_set 0) (Report ...)), and set that register",
        )
    return RegisterError(
        "register.unknown",
        f"program `{installed.name}` has no control register `{name}`",
        fix=close_names(name, program.control_registers, "control register"),
    )
