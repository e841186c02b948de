"""Expressions of fold programs: the results of Python operators on primitives and registers.

Every value is an unsigned 64-bit number or a flag. The CCP language aborts a fold when a subtraction goes
below zero, an addition overflows or a divisor is zero. The expressions emitted here never abort a fold:

* `a - b` is 0 where b is larger,
* `a // b` divides by 1 where b is 0 (without a check where b cannot be 0),
* `a + b` stays at INFINITY where an operand may be INFINITY,
* a comparison of `Flow.rtt_sample_us` is false on ACKs without a sample.

The author remains responsible for products: they must fit 64 bits.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NoReturn

from ccp_algs.errors import FoldError, caller

INFINITY: Final = (1 << 64) - 1
"""Maximum value of a register; the language writes it +infinity."""

NO_SAMPLE: Final = 0xFFFF_FFFF
"""Value of `Flow.rtt_sample_us` on an ACK without an RTT sample."""

_SAMPLE_TEST: Final = f"(< Flow.rtt_sample_us {NO_SAMPLE})"


class Expr:
    """An expression that a fold program can evaluate.

    Attributes:
        sampled: It reads `Flow.rtt_sample_us`, so it is meaningful only on ACKs with a sample.
    """

    sampled: bool = False

    def render(self) -> str:
        """Return the expression in the CCP language."""
        raise NotImplementedError

    def __bool__(self) -> NoReturn:
        """Raise an error: the value is known only in the datapath, when an ACK arrives."""
        raise FoldError(
            "fold.no_truth_value",
            "Python cannot evaluate this condition: its value is known only when an ACK arrives",
            where=caller(),
            why="`if`, `and`, `or`, `not` and chains such as `a < b < c` require a truth value in Python",
            fix="write `&`, `|`, `~` with parentheses around comparisons, and `when=` instead of `if`",
        )


class Num(Expr):
    """A numeric expression.

    Attributes:
        huge: It may be INFINITY, so an addition to it could overflow.
        nonzero: It is never 0, so it can be a divisor without a guard.
    """

    huge: bool = False
    nonzero: bool = False

    def __add__(self, other: Num | int) -> Num:
        """Return the sum; INFINITY plus something is INFINITY."""
        return Sum(self, number(other))

    def __radd__(self, other: int) -> Num:
        """Return the sum."""
        return Sum(number(other), self)

    def __sub__(self, other: Num | int) -> Num:
        """Return the difference, 0 where it would be negative."""
        return Difference(self, number(other))

    def __rsub__(self, other: int) -> Num:
        """Return the difference, 0 where it would be negative."""
        return Difference(number(other), self)

    def __mul__(self, other: Num | int) -> Num:
        """Return the product."""
        return Product(self, number(other))

    def __rmul__(self, other: int) -> Num:
        """Return the product."""
        return Product(number(other), self)

    def __floordiv__(self, other: Num | int) -> Num:
        """Return the quotient, rounded down; a divisor of 0 counts as 1."""
        return Quotient(self, number(other))

    def __rfloordiv__(self, other: int) -> Num:
        """Return the quotient, rounded down."""
        return Quotient(number(other), self)

    def __truediv__(self, other: object) -> NoReturn:
        """Raise an error: fold programs have no fractions."""
        raise FoldError(
            "fold.no_fractions",
            "fold programs have no fractions",
            where=caller(),
            why="registers are 64-bit integers",
            fix="use `//` with a scaled factor: `x * 7 // 10` for 0.7 x",
        )

    def __lt__(self, other: Num | int) -> Flag:
        """Return whether this is smaller."""
        return Comparison("<", self, number(other))

    def __gt__(self, other: Num | int) -> Flag:
        """Return whether this is larger."""
        return Comparison(">", self, number(other))

    def __le__(self, other: Num | int) -> Flag:
        """Return whether this is smaller or equal."""
        return Comparison("<=", self, number(other))

    def __ge__(self, other: Num | int) -> Flag:
        """Return whether this is larger or equal."""
        return Comparison(">=", self, number(other))

    def __eq__(self, other: Num | int) -> Flag:  # type: ignore[override]
        """Return whether both are equal."""
        return Comparison("==", self, number(other))

    def __ne__(self, other: Num | int) -> Flag:  # type: ignore[override]
        """Return whether both differ."""
        return Comparison("!=", self, number(other))

    __hash__ = object.__hash__


class Flag(Expr):
    """A condition."""

    def __and__(self, other: Flag) -> Flag:
        """Return whether both hold."""
        return Junction("&&", self, flag(other))

    def __or__(self, other: Flag) -> Flag:
        """Return whether at least one holds."""
        return Junction("||", self, flag(other))

    def __invert__(self) -> Flag:
        """Return the opposite."""
        return Negation(self)

    def parts(self) -> Iterator[Flag]:
        """Yield this flag and all flags that it is made of."""
        yield self


def number(value: object) -> Num:
    """Return `value` as an expression.

    Raises:
        FoldError: `fold.not_a_number`, if it is neither an expression nor an int from 0 to INFINITY.
    """
    if isinstance(value, Num):
        return value
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= INFINITY:
        return Literal(value)
    if isinstance(value, float):
        why, fix = "registers are 64-bit integers", "use a scaled factor: `x * 7 // 10` for 0.7 x"
    elif isinstance(value, Flag):
        why = "it is a flag"
        fix = "convert it to a number: `n = state(0)`, `set_n = n.set(1, when=...)`"
    else:
        why, fix = (
            "registers are unsigned 64-bit integers",
            "pass an int from 0 to INFINITY, or an expression",
        )
    raise FoldError(
        "fold.not_a_number", f"expected a number, got {value!r}", where=caller(), why=why, fix=fix
    )


def flag(value: object) -> Flag:
    """Return `value` as a condition.

    Raises:
        FoldError: `fold.not_a_flag`, if it is not a condition.
    """
    if isinstance(value, Flag):
        return value
    raise FoldError(
        "fold.not_a_flag",
        f"expected a condition, got {value!r}",
        where=caller(),
        why="a condition is a comparison or a flag such as Flow.cwnd_limited",
        fix="write a comparison, for example `x > 0`; use parentheses: `(a > 0) | (b > 0)`",
    )


class Literal(Num):
    """A constant."""

    def __init__(self, value: int) -> None:
        """Take a value from 0 to INFINITY."""
        self.value = value
        self.huge = value == INFINITY
        self.nonzero = value > 0

    def render(self) -> str:
        """Return the number's decimal digits."""
        return "+infinity" if self.value == INFINITY else str(self.value)


class Binary(Num):
    """An operation on two numbers."""

    def __init__(self, left: Num, right: Num) -> None:
        """Take both operands."""
        self.left = left
        self.right = right
        self.sampled = left.sampled or right.sampled

    def apply(self, op: str, left: str | Num, right: str | Num) -> str:
        """Return one operation in the CCP language."""
        texts = [one if isinstance(one, str) else one.render() for one in (left, right)]
        return f"({op} {texts[0]} {texts[1]})"


class Sum(Binary):
    """`left + right`, never above INFINITY."""

    def __init__(self, left: Num, right: Num) -> None:
        """Take both operands."""
        super().__init__(left, right)
        self.huge = left.huge or right.huge
        self.nonzero = left.nonzero or right.nonzero

    def render(self) -> str:
        """Return the sum; if it could overflow, the left operand is clipped first."""
        if not self.huge:
            return self.apply("+", self.left, self.right)
        room = self.apply("-", "+infinity", self.right)
        return self.apply("+", self.apply("min", self.left, room), self.right)


class Difference(Binary):
    """`left - right`, never below 0."""

    def __init__(self, left: Num, right: Num) -> None:
        """Take both operands."""
        super().__init__(left, right)
        self.huge = left.huge

    def render(self) -> str:
        """Return the difference; the right side is evaluated twice."""
        if isinstance(self.left, Maximum) and (self.left.left is self.right or self.left.right is self.right):
            return self.apply("-", self.left, self.right)  # max_(a, b) - b cannot be negative
        return self.apply("-", self.apply("max", self.left, self.right), self.right)


class Product(Binary):
    """`left * right`."""

    def __init__(self, left: Num, right: Num) -> None:
        """Take both operands.

        Raises:
            FoldError: `fold.overflow`, if one may be INFINITY.
        """
        super().__init__(left, right)
        self.nonzero = left.nonzero and right.nonzero
        if left.huge or right.huge:
            raise FoldError(
                "fold.overflow",
                "this product can overflow 64 bits",
                where=caller(),
                why="one factor may be INFINITY, and an overflow aborts the fold",
                fix="bound the factor: `min_(x, limit) * y`, or divide before multiplying",
            )

    def render(self) -> str:
        """Return the product."""
        return self.apply("*", self.left, self.right)


class Quotient(Binary):
    """`left // right`."""

    def __init__(self, left: Num, right: Num) -> None:
        """Take both operands.

        Raises:
            FoldError: `fold.division_by_zero`, if the divisor is the constant 0.
        """
        super().__init__(left, right)
        self.huge = left.huge and not (isinstance(right, Literal) and right.value > 1)
        if isinstance(right, Literal) and right.value == 0:
            raise FoldError(
                "fold.division_by_zero", "division by 0", where=caller(), fix="use a divisor other than 0"
            )

    def render(self) -> str:
        """Return the quotient; a divisor that could be 0 is raised to 1."""
        divisor = self.right.render() if self.right.nonzero else self.apply("max", self.right, "1")
        return self.apply("/", self.left, divisor)


class Minimum(Binary):
    """The smaller of two numbers."""

    def __init__(self, left: Num, right: Num) -> None:
        """Take both operands."""
        super().__init__(left, right)
        self.huge = left.huge and right.huge
        self.nonzero = left.nonzero and right.nonzero

    def render(self) -> str:
        """Return the smaller number in the CCP language."""
        return self.apply("min", self.left, self.right)


class Maximum(Binary):
    """The larger of two numbers."""

    def __init__(self, left: Num, right: Num) -> None:
        """Take both operands."""
        super().__init__(left, right)
        self.huge = left.huge or right.huge
        self.nonzero = left.nonzero or right.nonzero

    def render(self) -> str:
        """Return the larger number in the CCP language."""
        return self.apply("max", self.left, self.right)


class Distance(Binary):
    """`|left - right|`, cheaper than the larger of two differences."""

    def __init__(self, left: Num, right: Num) -> None:
        """Take both operands."""
        super().__init__(left, right)
        self.huge = left.huge or right.huge

    def render(self) -> str:
        """Return the larger minus the smaller."""
        high = self.apply("max", self.left, self.right)
        return self.apply("-", high, self.apply("min", self.left, self.right))


def min_(first: Num | int, *others: Num | int) -> Num:
    """Return the smallest of the operands."""
    result = number(first)
    for other in others:
        result = Minimum(result, number(other))
    return result


def max_(first: Num | int, *others: Num | int) -> Num:
    """Return the largest of the operands."""
    result = number(first)
    for other in others:
        result = Maximum(result, number(other))
    return result


def distance(left: Num | int, right: Num | int) -> Num:
    """Return the absolute difference of two numbers."""
    return Distance(number(left), number(right))


_OPPOSITE = {"<": ">=", ">": "<=", "<=": ">", ">=": "<", "==": "!=", "!=": "=="}
_MIRROR = {"<=": ">=", ">=": "<="}


class Comparison(Flag):
    """A comparison of two numbers; false on ACKs without an RTT sample if it reads one."""

    def __init__(self, op: str, left: Num, right: Num) -> None:
        """Take the operator as Python spells it."""
        self.op = op
        self.left = left
        self.right = right
        self.sampled = left.sampled or right.sampled

    def __invert__(self) -> Flag:
        """Return the opposite comparison."""
        return Comparison(_OPPOSITE[self.op], self.left, self.right)

    def render(self) -> str:
        """Return the comparison; the language has only <, > and ==."""
        text = self._core()
        return f"(&& {text} {_SAMPLE_TEST})" if self.sampled else text

    def _core(self) -> str:
        op, left, right = self.op, self.left, self.right
        if op in _MIRROR and isinstance(left, Literal):
            op, left, right = _MIRROR[op], right, left
        if op == "<=" and isinstance(right, Literal) and right.value < INFINITY:
            op, right = "<", Literal(right.value + 1)
        elif op == ">=" and isinstance(right, Literal) and right.value > 0:
            op, right = ">", Literal(right.value - 1)
        low, high = left.render(), right.render()
        if op in ("<", ">", "=="):
            return f"({op} {low} {high})"
        if op == "!=":
            return f"(|| (< {low} {high}) (> {low} {high}))"
        if isinstance(left, Binary) and isinstance(right, Binary):
            if op == "<=" and not right.huge:
                return f"(< {low} (+ {high} 1))"
            if op == ">=" and not left.huge:
                return f"(> (+ {low} 1) {high})"
        # The extreme of two numbers equals one of them; the shorter text is the one written twice.
        once, twice = (low, high) if isinstance(left, Binary) else (high, low)
        extreme = "max" if (op == ">=") == (twice == low) else "min"
        return f"(== ({extreme} {once} {twice}) {twice})"


class Junction(Flag):
    """An operation on two flags."""

    def __init__(self, op: str, left: Flag, right: Flag) -> None:
        """Take `&&` or `||`."""
        self.op = op
        self.left = left
        self.right = right
        self.sampled = left.sampled or right.sampled

    def __invert__(self) -> Flag:
        """Return the opposite, by De Morgan."""
        return Junction("||" if self.op == "&&" else "&&", ~self.left, ~self.right)

    def parts(self) -> Iterator[Flag]:
        """Yield this flag and all flags that it is made of."""
        yield self
        yield from self.left.parts()
        yield from self.right.parts()

    def render(self) -> str:
        """Return the combination of the two flags in the CCP language."""
        return f"({self.op} {self.left.render()} {self.right.render()})"


class HasSample(Flag):
    """This ACK gives an RTT sample."""

    def render(self) -> str:
        """Return the test for an RTT sample in the CCP language."""
        return _SAMPLE_TEST


class Negation(Flag):
    """The opposite of a flag other than a comparison; the language has only `!if` for it."""

    def __init__(self, of: Flag) -> None:
        """Take the flag."""
        self.of = of

    def __invert__(self) -> Flag:
        """Return the flag itself."""
        return self.of

    def render(self) -> str:
        """Raise an error: only a statement whose whole condition is a negation can be emitted, as `!if`.

        Raises:
            FoldError: `fold.negated_flag`.
        """
        raise FoldError(
            "fold.negated_flag",
            f"`~` of the flag {self.of.render()} cannot be part of a larger condition",
            why="the CCP language has no `not`",
            fix="instead of the flag, use a number that is 0 or 1: `x = state(0)`, `a = x.set(0)`, `b = "
            "x.set(1, when=~flag)`, `x > 0`",
        )
