"""The one family of errors. Packages have classes of their own where somebody tells them apart.

Every error carries a slug for programs and four sentences for people: what, where, why, and what to do next.
`str(error)` prints them in this shape (empty parts are left out):

    lang.unknown_field: no field `Flow.rtt_sample_ms`
      at   ccp_algs/vegas.py:41:23, program "default", line 6
      why  this datapath provides Flow.rtt_sample_us [us]
      fix  did you mean `Flow.rtt_sample_us`?

The `errors` module of each package lists the slugs that it raises; tests hold the list against the sources
and the tests. Those of the compiled part (`lang.*`, `verifier.*`, `load.*`) are listed and tested in its
crates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, TypeVar

_Given = TypeVar("_Given")
_Made = TypeVar("_Made")

SLUGS: Final[dict[str, str]] = {
    "load.no_extra": "a package that an extra of ccplane brings is not installed",
    "load.no_native_module": "the package was installed without its compiled part",
    "load.shadowed": "a file or folder of the user's has the name of a package of ccplane",
    "option.bad_quantity": "a duration, rate or size cannot be parsed",
    "option.out_of_range": "a duration, rate or size is outside the option's range",
}
"""Slug of this package -> what it means."""


class CcpError(Exception):
    """Base of all ccplane errors.

    Attributes:
        slug: Stable name for programs, `area.thing`.
        message: What is wrong, one sentence.
        where: Place, such as `FILE:LINE:COLUMN` or the option; may be empty.
        why: Reason; may be empty.
        fix: What to do next; may be empty.
    """

    def __init__(self, slug: str, message: str, where: str = "", why: str = "", fix: str = "") -> None:
        """Make the error; all five parts are kept in `args`, so that it can be pickled."""
        super().__init__(slug, message, where, why, fix)
        self.slug = slug
        self.message = message
        self.where = where
        self.why = why
        self.fix = fix

    def __str__(self) -> str:
        """Return the error as people read it, one line a part."""
        lines = [f"{self.slug}: {self.message}"]
        for label, text in (("at", self.where), ("why", self.why), ("fix", self.fix)):
            if text:
                lines.append(f"  {label:<4} " + text.replace("\n", "\n       "))
        return "\n".join(lines)

    def as_dict(self) -> dict[str, str]:
        """Return the five parts by name, for `--json` and for messages."""
        return {
            "slug": self.slug,
            "message": self.message,
            "where": self.where,
            "why": self.why,
            "fix": self.fix,
        }


class LangError(CcpError):
    """A fold program does not compile."""


class VerifierError(CcpError):
    """The kernel's verifier refused a fold program that compiled."""


class LoadError(CcpError):
    """The datapath cannot be loaded or opened; the message says what is missing."""


class FlowGone(CcpError):  # noqa: N818 -- a state of the world, like StopIteration
    """The flow closed: nothing can be written to it any more."""


class ParamError(CcpError):
    """A parameter, window, rate or setting has a name or value that cannot be."""


class RegisterError(CcpError):
    """A fold program has no such register, or it cannot be written from here."""


class ProgramError(CcpError):
    """An algorithm has no such fold program."""


class UsageError(CcpError):
    """A request to the agent (algorithm, rule, name) makes no sense."""


class Several(CcpError):  # noqa: N818 -- it is not one error
    """Several problems at once, so that nobody has to fix them one by one.

    Attributes:
        errors: The problems, two or more; slug and message are those of the first.
    """

    def __init__(self, errors: Sequence[CcpError]) -> None:
        """Take the problems in the order in which to print them."""
        first = errors[0]
        super().__init__(first.slug, first.message, first.where, first.why, first.fix)
        self.errors = tuple(errors)

    def __str__(self) -> str:
        """Return all problems, one after the other."""
        return "\n".join(str(error) for error in self.errors)

    def __reduce__(self) -> tuple[type[Several], tuple[tuple[CcpError, ...]]]:
        """Pickle the problems, not the parts of the first."""
        return Several, (self.errors,)


class Collector:
    """Collects problems of a validation and raises them together."""

    def __init__(self) -> None:
        """Start without problems."""
        self.errors: list[CcpError] = []

    @contextmanager
    def check(self) -> Iterator[None]:
        """Keep a CcpError of the block and go on behind it."""
        try:
            yield
        except Several as several:
            self.errors.extend(several.errors)
        except CcpError as error:
            self.errors.append(error)

    def finish(self) -> None:
        """Raise what was collected, if anything.

        Raises:
            CcpError: The problem, if there is one.
            Several: The problems, if there are more.
        """
        if len(self.errors) == 1:
            raise self.errors[0]
        if self.errors:
            raise Several(self.errors)


def collected(make: Callable[[_Given], _Made], given: Iterable[_Given]) -> list[_Made]:
    """Return what is made of each thing, or all problems together.

    Raises:
        CcpError: The problem, if there is one.
        Several: The problems, if there are more.
    """
    problems = Collector()
    made = []
    for one in given:
        with problems.check():
            made.append(make(one))
    problems.finish()
    return made
