"""Compile the body of a FoldProgram class to a program in the CCP language."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NoReturn

from ccp_algs.errors import FoldError, caller
from ccp_algs.fold.expressions import Flag, Negation, flag
from ccp_algs.fold.lines import (
    AtEnd,
    Average,
    Block,
    Implicit,
    Local,
    Part,
    Register,
    Statement,
    copy_of,
)
from ccp_algs.fold.reporting import Every, Never

_RESERVED: Final = frozenset({"Cwnd", "Rate", "Micros", "Report", "Ack", "Flow", "Int", "source", "when"})


class FoldMeta(type):
    """Metaclass that compiles the body of a FoldProgram class to a program."""

    _lines: Mapping[str, Any]
    _source: str
    _fields: tuple[Register, ...]
    _controls: tuple[Register, ...]

    def __new__(
        mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any], abstract: bool = False
    ) -> FoldMeta:
        """Build the program here, so that errors point to the class definition.

        Args:
            mcs: This metaclass.
            name: Name of the class.
            bases: Its bases.
            namespace: Its body.
            abstract: The class is a base for other programs and needs no `when`.
        """
        cls = super().__new__(mcs, name, bases, namespace)
        lines: dict[str, Any] = {}
        for base in reversed(cls.__mro__):
            body = ((key, value) for key, value in vars(base).items() if not key.startswith("_"))
            lines.update((key, value) for key, value in body if _is_line(key, value))
        cls._lines = lines
        if not abstract:
            builder = Builder(f"{caller()}, {name}", lines)
            cls._source = builder.build()
            cls._fields = tuple(register for register in builder.registers if register.in_report)
            cls._controls = tuple(register for register in builder.registers if not register.in_report)
        return cls

    def __init__(
        cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], abstract: bool = False
    ) -> None:
        """Accept `abstract` from the class statement."""
        super().__init__(name, bases, namespace)

    def __call__(cls, *_args: object, **_kwargs: object) -> NoReturn:
        """Raise an error: the class itself is the program.

        Raises:
            FoldError: `fold.not_instantiable`.
        """
        raise FoldError(
            "fold.not_instantiable",
            f"{cls.__name__} cannot be instantiated",
            where=caller(),
            why="the class itself is the program",
            fix=f"write `program = {cls.__name__}`",
        )

    def __str__(cls) -> str:
        """Return the program in the CCP language."""
        return cls.source

    @property
    def source(cls) -> str:
        """The program in the CCP language."""
        return cls._source

    @property
    def report_fields(cls) -> tuple[str, ...]:
        """Names of the report's fields."""
        return tuple(register.name for register in cls._fields)

    @property
    def control_registers(cls) -> tuple[str, ...]:
        """Names of the registers that `flow.set` can set."""
        return tuple(register.name for register in cls._controls)


def _is_line(key: str, value: object) -> bool:
    if isinstance(value, list | tuple):
        return len(value) > 0 and all(_is_line("", item) for item in value)
    return key == "when" or isinstance(value, Register | Statement | Block | Part | AtEnd | Local)


def _in_blocks(values: Iterable[object]) -> Iterator[Statement | Local]:
    """Yield the statements and `let`s inside blocks."""
    for value in values:
        if isinstance(value, Block):
            yield from value.body
        elif isinstance(value, Part):
            yield from _in_blocks(getattr(value, part.name) for part in dataclasses.fields(value))
        elif isinstance(value, list | tuple):
            yield from _in_blocks(value)


class Builder:
    """Builds one program.

    Attributes:
        registers: All registers, in order of appearance.
    """

    def __init__(self, where: str, lines: Mapping[str, Any]) -> None:
        """Take the lines of the class."""
        self.where = where
        self.lines = lines
        self.registers: list[Register] = []
        self._named: dict[str, Register | Local] = {}
        self._events: list[tuple[str, list[str]]] = []
        self._ending: list[Statement] = []
        self._elsewhere = {id(item) for item in _in_blocks(lines.values())}

    def build(self) -> str:
        """Return the source text.

        Raises:
            FoldError: If the lines are not a valid program.
        """
        for key, value in self.lines.items():
            if key != "when":
                self._line(key, value)
        for statement in self._ending:
            self._statement(statement)
        self._report()
        return "\n".join([*self._declarations(), *(_event(*event) for event in self._events)]) + "\n"

    def _line(self, name: str, value: Any) -> None:
        if isinstance(value, Register):
            self._name(name, value)
            self.registers.append(value)
            if value.update is not None:
                self._statement(value.update)
        elif isinstance(value, Local):
            self._name(name, value)
            if id(value) not in self._elsewhere:
                self._append("true", value.bind())
        elif isinstance(value, Statement):
            if id(value) not in self._elsewhere:
                self._statement(value)
        elif isinstance(value, Block):
            self._block(name, value)
        elif isinstance(value, AtEnd):
            self._ending.append(value.statement)
        elif isinstance(value, Part):
            for part in dataclasses.fields(value):
                self._line(part.name, getattr(value, part.name))
        elif isinstance(value, list | tuple):
            for item in value:
                self._line(name, item)

    def _block(self, name: str, block: Block) -> None:
        body: list[str] = []
        for i, item in enumerate(block.body):
            if isinstance(item, Local):
                self._name(item.name or f"{name}_{i}", item)
                body += item.bind()
            else:
                self._copy(item)
                body += self._rendered(item)
        condition = self._condition(block.condition)
        self._events.append((condition, body))

    def _statement(self, statement: Statement) -> None:
        if (
            isinstance(statement.target, Implicit)
            and statement.when is not None
            and not _negated(statement.when)
        ):
            # Cheaper than a copy of the register: the event is skipped where the condition does not hold.
            target, value = statement.target.render(), statement.value.render()
            self._events.append((self._condition(statement.when), [f"(:= {target} {value})"]))
            return
        self._copy(statement)
        self._append("true", self._rendered(statement))

    def _rendered(self, statement: Statement) -> list[str]:
        if isinstance(statement.target, Register) and not statement.target.name:
            raise FoldError(
                "fold.unnamed_register",
                "a statement uses a register that is not a line of the program",
                where=statement.where,
                why=f"{self.where} has no line `name = ...` for this register",
                fix="assign the register to a name in the body of the class",
            )
        return statement.render()

    def _condition(self, condition: Flag) -> str:
        text = condition.render()
        return text if text.startswith("(") else f"(&& {text} true)"

    def _append(self, condition: str, body: list[str]) -> None:
        if self._events and self._events[-1][0] == condition:
            self._events[-1][1].extend(body)
        else:
            self._events.append((condition, list(body)))

    def _copy(self, statement: Statement) -> None:
        """Declare the register that prepares a conditional assignment to Cwnd, or an average."""
        needs_copy = isinstance(statement.target, Implicit) or isinstance(statement, Average)
        name = copy_of(statement.target)
        if needs_copy and statement.when is not None and name not in self._named:
            register = Register(0)
            self._name(name, register)
            self.registers.append(register)

    def _report(self) -> None:
        when = self.lines.get("when")
        if when is None:
            raise FoldError(
                "fold.never_reports",
                "the program does not say when to report",
                where=self.where,
                why="without reports Python receives nothing between the flow's start and its end",
                fix="add `when = every(Flow.srtt_us)`, or `when = never` for a program without reports",
            )
        if isinstance(when, Never):
            return
        condition = flag(when)
        timed = any(isinstance(part, Every) for part in condition.parts())
        self._events.append((self._condition(condition), ["(report)", *(["(:= Micros 0)"] if timed else [])]))

    def _name(self, name: str, thing: Register | Local) -> None:
        if self._named.get(name, thing) is not thing:
            raise FoldError(
                "fold.duplicate_name",
                f"two lines are called `{name}`",
                where=self.where,
                why="a part of the program already has a line of this name",
                fix="rename one of them",
            )
        if name in _RESERVED or not re.fullmatch(r"(?!true|false|volatile)[A-Za-z][A-Za-z0-9_]*", name):
            raise FoldError(
                "fold.bad_name",
                f"a register cannot be called `{name}`",
                where=thing.where,
                why="the CCP language reserves the name",
                fix="do not use Cwnd, Rate, Micros, source, when, _..., true..., false..., volatile...",
            )
        if thing.name not in ("", name):
            raise FoldError(
                "fold.two_names",
                f"the register `{thing.name}` gets a second name, `{name}`",
                where=thing.where,
                why="a register must have the same name in all programs that share it",
                fix="use the same name, or declare another register",
            )
        thing.name = name
        self._named[name] = thing

    def _declarations(self) -> list[str]:
        fields = [register.declare() for register in self.registers if register.in_report]
        controls = [register.declare() for register in self.registers if not register.in_report]
        text = ["(def"]
        if fields:
            text += ["  (Report", *(f"    {one}" for one in fields), "  )"]
        return [*text, *(f"  {one}" for one in controls), ")"]


def _negated(condition: Flag) -> bool:
    return isinstance(condition, Negation)


def _event(condition: str, body: list[str]) -> str:
    # One (fallthrough) holds for the rest of the program; it is repeated so that each event can be read
    # alone.
    return "\n".join([f"(when {condition}", *(f"  {one}" for one in body), "  (fallthrough)", ")"])


class FoldProgram(metaclass=FoldMeta, abstract=True):
    """Base of fold programs. Derive a class from it; the derived class itself is the program.

    For editors and mypy a report is an instance of its program, with the attributes that all reports have
    (`ccp_algs.api.ReportHead`) and a number for each field: `def on_report(self, report: MyFold)`.
    """

    # facts: report_attributes (made by `make facts` from native/ccp-bpf/src/bpf/intf.h)
    flow_id: int
    now_us: int
    cwnd_bytes: int
    rate_bytes_per_s: int
    missed: int
    program: str
    timeout: bool
    fold_error: bool
    # end of facts
