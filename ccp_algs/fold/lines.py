"""The lines of a fold program: registers, statements, blocks."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self, overload

from ccp_algs.errors import FoldError, caller
from ccp_algs.fold.expressions import (
    INFINITY,
    Expr,
    Flag,
    HasSample,
    Literal,
    Negation,
    Num,
    flag,
    max_,
    min_,
    number,
)


class Statement:
    """One assignment.

    Attributes:
        where: File and line of the assignment.
    """

    def __init__(self, target: Register | Implicit, value: Num | int, when: Flag | None) -> None:
        """Assign `value` to `target` on every ACK, or on ACKs that satisfy `when`."""
        self.target = target
        self.value = number(value)
        self.when = None if when is None else flag(when)
        if self.value.sampled:
            self.when = HasSample() if self.when is None else HasSample() & self.when
        self.where = caller()

    def render(self) -> list[str]:
        """Return the statement in the CCP language."""
        target, value = self.target.render(), self.value.render()
        if self.when is None:
            return [f"(:= {target} {value})"]
        if isinstance(self.target, Implicit):
            # The language has `if` only for declared registers.
            copy = copy_of(self.target)
            return [
                f"(:= {copy} {target})",
                *Conditional(copy, value, self.when).render(),
                f"(:= {target} {copy})",
            ]
        return Conditional(target, value, self.when).render()


@dataclasses.dataclass(frozen=True)
class Conditional:
    """`if` or `!if`."""

    target: str
    value: str
    when: Flag

    def render(self) -> list[str]:
        """Return the statement in the CCP language."""
        if isinstance(self.when, Negation):
            return [f"(:= {self.target} (!if {self.when.of.render()} {self.value}))"]
        return [f"(:= {self.target} (if {self.when.render()} {self.value}))"]


class Average(Statement):
    """A moving average; ACKs without a value leave it unchanged."""

    def __init__(self, target: Register, value: Num, keep: int, when: Flag | None) -> None:
        """Keep `keep` tenths of the old average."""
        super().__init__(target, value, when)
        self.keep = keep

    def render(self) -> list[str]:
        """Return the average as an expression in the CCP language; ACKs without a value repeat the last."""
        target, value = self.target.render(), self.value.render()
        if self.when is None:
            return [f"(:= {target} (ewma {self.keep} {value}))"]
        copy = copy_of(self.target)
        conditional = Conditional(copy, value, self.when).render()
        return [f"(:= {copy} {target})", *conditional, f"(:= {target} (ewma {self.keep} {copy}))"]


def copy_of(target: Register | Implicit) -> str:
    """Return the name of the register in which a new value of `target` is prepared."""
    return f"{target.name.lower()}_next"


class _Target(Num):
    """A number that can be assigned."""

    name: str

    def set(self, value: Num | int, when: Flag | None = None) -> Statement:
        """Return the statement that assigns `value`, always or on ACKs that satisfy `when`."""
        raise NotImplementedError

    def add(self, value: Num | int, when: Flag | None = None) -> Statement:
        """Return the statement that adds `value`, always or on ACKs that satisfy `when`."""
        return self.set(self + value, when)

    def __repr__(self) -> str:
        """Return the name."""
        return self.render()


class Register(_Target):
    """A number that the program keeps between ACKs.

    Attributes:
        in_report: It is a field of the report; otherwise Python can set it.
        volatile: It returns to `initial` after each report.
        update: The statement that changes it on every ACK, if it was declared with one.
    """

    in_report: ClassVar[bool] = False

    def __init__(self, initial: int, *, volatile: bool = False, nonzero: bool = False) -> None:
        """Declare a register. Its name is that of the class attribute."""
        self.initial = _constant(initial)
        self.nonzero = nonzero
        self.volatile = volatile
        self.name = ""
        self.huge = self.initial.huge
        self.update: Statement | None = None
        self.where = caller()

    def set(self, value: Num | int, when: Flag | None = None) -> Statement:
        """Return the statement that assigns `value`, always or on ACKs that satisfy `when`."""
        return Statement(self, value, when)

    def render(self) -> str:
        """Return the register's name in the program."""
        return self.name

    def declare(self) -> str:
        """Return the register's declaration."""
        return f"({'volatile ' if self.volatile else ''}{self.name} {self.initial.render()})"


class ReportField(Register):
    """A register that is a field of the report.

    In a program the field is the register. To type checkers a report is an instance of its program (see
    `FoldProgram`), in which the field is the reported number.
    """

    in_report = True

    def render(self) -> str:
        """Return the register's name in the program."""
        return f"Report.{self.name}"

    if TYPE_CHECKING:

        @overload
        def __get__(self, report: None, program: type) -> Self: ...
        @overload
        def __get__(self, report: object, program: type) -> int: ...
        def __get__(self, report: object, program: type) -> Self | int:
            """Return the register of a program, or the number in a report."""


def _constant(value: int) -> Literal:
    constant = number(value)
    if isinstance(constant, Literal):
        return constant
    raise FoldError(
        "fold.not_a_number",
        f"{value!r} is not an initial value",
        where=caller(),
        why="the initial value of a register must be a constant",
        fix="declare the register with an int and add a line `name = register.set(...)`",
    )


class Implicit(_Target):
    """A number that exists in every program: Cwnd, Rate or Micros."""

    def __init__(self, name: str, *, nonzero: bool = False) -> None:
        """Take the name."""
        self.name = name
        self.nonzero = nonzero

    def set(self, value: Num | int, when: Flag | None = None) -> Statement:
        """Return the statement that assigns `value`, always or on ACKs that satisfy `when`."""
        return Statement(self, value, when)

    def render(self) -> str:
        """Return the name."""
        return self.name


Cwnd: Final = Implicit("Cwnd", nonzero=True)
"""The congestion window [bytes]; assign it to set the window."""
Rate: Final = Implicit("Rate")
"""The pacing rate [bytes/s]; 0: the algorithm does not pace."""
Micros: Final = Implicit("Micros")
"""Time since the last report, or since the program set it to 0 [us]."""


class Local:
    """A named intermediate result."""

    def __init__(self, value: Expr, name: str = "") -> None:
        """Take the expression, and the name if the result is not a line of its own."""
        self.value = value
        self.name = name
        self.where = caller()

    def bind(self) -> list[str]:
        """Return the statement that computes the result, in the CCP language."""
        return [f"(:= {self.name} {self.value.render()})"]


class LocalNum(Local, Num):
    """A named number; see `let`."""

    def __init__(self, value: Num, name: str = "") -> None:
        """Take the expression."""
        super().__init__(value, name)
        self.huge = value.huge
        self.nonzero = value.nonzero
        self.sampled = value.sampled

    def render(self) -> str:
        """Return the name."""
        return self.name


class LocalFlag(Local, Flag):
    """A named condition; see `let`."""

    def render(self) -> str:
        """Return the name."""
        return self.name


@overload
def let(value: Num | int, name: str = "") -> LocalNum: ...
@overload
def let(value: Flag, name: str = "") -> LocalFlag: ...
def let(value: Num | Flag | int, name: str = "") -> LocalNum | LocalFlag:
    """Name an intermediate result, so that it is computed once.

    The result is computed where the line stands, or inside the `on(...)` that it is passed to.

    Args:
        value: Expression or condition.
        name: Name in the program; needed only if it is not a line of its own.

    Returns:
        The named result, for use in later lines.
    """
    return LocalFlag(value, name) if isinstance(value, Flag) else LocalNum(number(value), name)


class Block:
    """Statements under one condition; see `on`."""

    def __init__(self, condition: Flag, body: tuple[Statement | Local, ...]) -> None:
        """Take the condition and the statements."""
        self.condition = condition
        self.body = body


def on(condition: Flag, *body: Any) -> Block:
    """Run several statements on ACKs that satisfy `condition`; on other ACKs the datapath skips all of them.

    Args:
        condition: The condition.
        *body: Statements and `let`s, also in lists and tuples. A statement that is also a line of the class
        runs only
            here.

    Returns:
        The block, for one line of the program.
    """
    return Block(flag(condition), tuple(_flatten(body)))


def _flatten(items: Any) -> Iterator[Statement | Local]:
    for item in items:
        if isinstance(item, Statement | Local):
            yield item
        elif isinstance(item, list | tuple):
            yield from _flatten(item)
        else:
            raise FoldError(
                "fold.not_a_statement",
                f"{item!r} is not a statement",
                where=caller(),
                why="only statements can run when an ACK arrives",
                fix="use `x.set(...)`, `x.add(...)` or `let(...)`",
            )


@dataclasses.dataclass(frozen=True)
class AtEnd:
    """A statement that runs after all other lines; see `at_end`."""

    statement: Statement


def at_end(statement: Statement) -> AtEnd:
    """Run `statement` after all other lines, wherever it stands; for parts that must come last."""
    return AtEnd(statement)


class Part:
    """Base of groups of lines that functions build for several programs.

    A part is a frozen dataclass. The fields of a part that are registers, statements, blocks or `let`s become
    lines of the program at the place of the part, named like the fields.
    """

    __dataclass_fields__: ClassVar[dict[str, Any]]


def control(initial: int = 0, *, volatile: bool = False, nonzero: bool = False) -> Register:
    """Declare a number that Python sets with `flow.set(name=value)`.

    Args:
        initial: Initial value.
        volatile: Reset it to `initial` after every report.
        nonzero: Promise that it is never set to 0, so that it can be a divisor without a guard. A division by
            0 aborts the fold.
    """
    return Register(initial, volatile=volatile, nonzero=nonzero)


def state(initial: int = 0) -> Register:
    """Declare a number that the program keeps between ACKs; the datapath treats it like a `control`."""
    return Register(initial)


def field(initial: int = 0, *, volatile: bool = True) -> ReportField:
    """Declare a report field that the program's own statements set.

    Args:
        initial: Initial value.
        volatile: Reset it to `initial` after every report.
    """
    return ReportField(initial, volatile=volatile)


def _ruled(register: ReportField, update: Statement) -> ReportField:
    register.update = update
    return register


def total(value: Num | int, when: Flag | None = None) -> ReportField:
    """Report the sum of `value` over the ACKs since the last report."""
    register = ReportField(0, volatile=True)
    return _ruled(register, register.add(value, when))


def count(condition: Flag | None = None) -> ReportField:
    """Report the number of ACKs since the last report that satisfy `condition`, or of all ACKs."""
    return total(1, condition)


def latest(value: Num, when: Flag | None = None) -> ReportField:
    """Report the last `value`. ACKs without an RTT sample are skipped if the value needs one."""
    register = ReportField(0)
    return _ruled(register, register.set(value, when))


def minimum(value: Num, when: Flag | None = None, *, per_report: bool = False) -> ReportField:
    """Report the minimum of `value` since the program started or the last report; INFINITY without values."""
    register = ReportField(INFINITY, volatile=per_report)
    return _ruled(register, register.set(min_(register, value), when))


def maximum(value: Num, when: Flag | None = None, *, per_report: bool = False) -> ReportField:
    """Report the maximum of `value` since the program started or the last report; 0 without values."""
    register = ReportField(0, volatile=per_report)
    return _ruled(register, register.set(max_(register, value), when))


def smoothed(value: Num, when: Flag | None = None, *, keep: int = 8) -> ReportField:
    """Report a moving average.

    Args:
        value: Value to average.
        when: Condition for ACKs that count; default all.
        keep: Weight of the old average, in tenths, 0 to 9.

    Raises:
        FoldError: `fold.bad_weight`, if `keep` is out of range.
    """
    if keep not in range(10):
        raise FoldError(
            "fold.bad_weight",
            f"a moving average cannot keep {keep!r} tenths of its old value",
            where=caller(),
            why="weights of the CCP language are whole tenths",
            fix="choose `keep` from 0 to 9",
        )
    register = ReportField(0)
    return _ruled(register, Average(register, number(value), keep, when))
