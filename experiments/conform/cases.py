"""Cases of suites and their results: what was compared, and how it came out."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Literal

if TYPE_CHECKING:
    from experiments.conform.lab import Lab
    from experiments.scenario import Scenario

Outcome = Literal["passes", "fails", "undecided"]
PASSES: Final = "passes"
FAILS: Final = "fails"
UNDECIDED: Final = "undecided"

Test = Callable[["Lab"], None]


class Ended(Exception):  # noqa: N818 -- a way to end a case, not an error
    """A case ends early, because a condition for its other comparisons does not hold."""


class Undecided(Exception):  # noqa: N818 -- an outcome, not an error
    """The path did not produce the situation that a case is about."""


@dataclasses.dataclass(frozen=True)
class Case:
    """A case of a suite.

    Attributes:
        name: Name on the command line.
        title: What the algorithm must do, in words.
        source: Document and section that ask for it.
        why: Why it matters, and how it is measured.
        test: Runs paths and compares numbers.
        number: Position in its file.
    """

    name: str
    title: str
    source: str
    why: str
    test: Test
    number: int


@dataclasses.dataclass(frozen=True)
class Comparison:
    """One number against its bounds.

    Attributes:
        what: What was measured, with its unit.
        value: The number; None if there is none, as for a quantity that the algorithm does not have.
        at_least: Lower bound; None for none.
        at_most: Upper bound; None for none.
        at_s: The moment in its run, or the end of what was measured [s].
        since_s: Begin of what was measured [s]; None for a moment.
        run: Number of the run within the case, from 0.
        is_condition: Whether it is a condition, with 1 for yes and 0 for no.
    """

    what: str
    value: float | None
    at_least: float | None = None
    at_most: float | None = None
    at_s: float = 0.0
    since_s: float | None = None
    run: int = 0
    is_condition: bool = False

    @property
    def holds(self) -> bool:
        """Whether the number is within its bounds."""
        return (
            self.value is not None
            and (self.at_least is None or self.value >= self.at_least)
            and (self.at_most is None or self.value <= self.at_most)
        )

    def __str__(self) -> str:
        """Return the comparison in words."""
        if self.is_condition:
            return f"{self.what}: {'yes' if self.value else 'no'}"
        found = "no value" if self.value is None else _short(self.value)
        return f"{self.what}: {found} ({self._bounds()})"

    def _bounds(self) -> str:
        low, high = self.at_least, self.at_most
        if low is None or high is None:
            bounds = (("at least", low), ("at most", high))
            return " and ".join(f"{how} {_short(bound)}" for how, bound in bounds if bound is not None)
        return _short(low) if low == high else f"{_short(low)} to {_short(high)}"


def _short(number: float) -> str:
    if number == int(number) and abs(number) < 1e6:
        return f"{number:.0f}"
    return f"{number:,.0f}" if abs(number) >= 1e4 else f"{number:.3g}"


@dataclasses.dataclass(frozen=True)
class CaseResult:
    """How one case came out for one algorithm and seed.

    Attributes:
        suite: Name of the suite.
        case: Name of the case.
        title: What the algorithm must do.
        source: Document and section.
        why: Why it matters.
        algorithm: The algorithm.
        seed: Seed of the case's paths.
        outcome: `passes`, `fails`, or `undecided`.
        comparisons: All numbers that were compared.
        reason: Why the case is undecided; else empty.
        scenarios: The runs of the case as scenarios, for replays.
        files: Scenario and plot of a failure, if they were written.
        datapath: Where it ran: `sim` or `ebpf` (real sockets).
    """

    suite: str
    case: str
    title: str
    source: str
    why: str
    algorithm: str
    seed: int
    outcome: Outcome
    comparisons: tuple[Comparison, ...]
    reason: str = ""
    scenarios: tuple[Scenario, ...] = ()
    files: tuple[str, ...] = ()
    datapath: str = "sim"

    @property
    def failure(self) -> Comparison | None:
        """The first number out of its bounds."""
        return next((one for one in self.comparisons if not one.holds), None)

    @property
    def said(self) -> str:
        """The outcome's reason in words: the failure, why it is undecided, or the numbers that hold."""
        failure = self.failure
        if failure is not None:
            return str(failure)
        return self.reason or "; ".join(map(str, self.comparisons))

    def as_dict(self) -> dict[str, Any]:
        """Return plain data for JSON, without scenarios."""
        plain = {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)
            if field.name not in ("scenarios", "comparisons")
        }
        compared = [dataclasses.asdict(one) | {"holds": one.holds} for one in self.comparisons]
        return plain | {"files": list(self.files), "comparisons": compared}


def case(source: str, title: str = "") -> Callable[[Test], Test]:
    """Mark a function as a case of the suite in its file.

    Args:
        source: Document and section, such as `RFC 5681 section 3.1`.
        title: What the algorithm must do; default the function's name with spaces.

    Returns:
        The function. Its name, with dashes, is the case's name; its docstring says why it matters.
    """

    def mark(test: Test) -> Test:
        name = test.__name__.strip("_")
        test.conform_case = Case(  # type: ignore[attr-defined]
            name.replace("_", "-"),
            title or name.replace("_", " "),
            source,
            " ".join((inspect.getdoc(test) or "").split()),
            test,
            test.__code__.co_firstlineno,
        )
        return test

    return mark


def cases_of(namespace: dict[str, Any]) -> list[Case]:
    """Return the cases that a module defines, in the order of its text."""
    found = {
        id(one): one
        for value in namespace.values()
        if isinstance(one := getattr(value, "conform_case", None), Case)
    }
    return sorted(found.values(), key=lambda one: one.number)
