"""The error classes of ccplane. Packages add classes where callers catch them separately.

Every error has a slug for programs and four texts for people: what happened, where, why, and how to fix it.
`str(error)` prints the texts in the following form, without empty ones:

    lang.unknown_field: no field `Flow.rtt_sample_ms`
      at   ccp_algs/vegas.py:41:23, program "default", line 6
      why  this datapath provides Flow.rtt_sample_us [us]
      fix  did you mean `Flow.rtt_sample_us`?

If the package names a site for its documents (`ccplane.base.site`), a last line `more` has the address of the
slug's row there. Without a site there is no such line: the row says what the slug means, the error says more.

The `errors` module of each package lists the package's slugs; tests check that the list is complete and that
each slug has a test. The slugs of the compiled part (`lang.*`, `verifier.*`, `load.*`) are listed and tested
in its crates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, TypeVar

from ccplane.base import site

_Given = TypeVar("_Given")
_Made = TypeVar("_Made")

SLUGS: Final[dict[str, str]] = {
    "load.no_extra": "an optional dependency is not installed",
    "load.no_native_module": "ccplane was installed without its compiled part",
    "load.not_private": "another user could have written a file that this program trusts",
    "load.shadowed": "a user's file or folder has the name of one of ccplane's packages",
    "option.bad_quantity": "a duration, rate or size cannot be parsed",
    "option.out_of_range": "a duration, rate or size is outside the option's range",
}
"""Slug -> meaning, for this package."""


class CcpError(Exception):
    """Base of all ccplane errors.

    Attributes:
        slug: Stable name for programs, `area.thing`.
        message: What is wrong, in one sentence.
        where: Place, such as `FILE:LINE:COLUMN` or an option; may be empty.
        why: Reason; may be empty.
        fix: How to fix it; may be empty.
    """

    def __init__(self, slug: str, message: str, where: str = "", why: str = "", fix: str = "") -> None:
        super().__init__(slug, message, where, why, fix)  # `args` has all parts: pickling needs them
        self.slug = slug
        self.message = message
        self.where = where
        self.why = why
        self.fix = fix

    def __str__(self) -> str:
        """Return the error as printed text, one line per part."""
        lines = [f"{self.slug}: {self.message}"]
        more = site.page_of(self.slug)
        for label, text in (("at", self.where), ("why", self.why), ("fix", self.fix), ("more", more)):
            if text:
                lines.append(f"  {label:<4} " + text.replace("\n", "\n       "))
        return "\n".join(lines)

    def as_dict(self) -> dict[str, str]:
        """Return the slug and the four texts by name, for `--json` and the control socket."""
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


class FlowGone(CcpError):  # noqa: N818 -- a normal event, like StopIteration
    """The flow closed, so nothing can be written to it."""


class ParamError(CcpError):
    """The name or value of a parameter, window, rate or setting is invalid."""


class RegisterError(CcpError):
    """A fold program has no such register, or an algorithm cannot write it."""


class ProgramError(CcpError):
    """An algorithm has no such fold program."""


class UsageError(CcpError):
    """A request to the agent is invalid, because of an algorithm, a rule or a name."""


class Several(CcpError):  # noqa: N818 -- more than one error
    """Several problems, reported together so that they can be fixed together.

    Attributes:
        errors: The problems, at least two, in printing order; slug and message are the first problem's.
    """

    def __init__(self, errors: Sequence[CcpError]) -> None:
        first = errors[0]
        super().__init__(first.slug, first.message, first.where, first.why, first.fix)
        self.errors = tuple(errors)

    def __str__(self) -> str:
        """Return the texts of all problems."""
        return "\n".join(str(error) for error in self.errors)

    def __reduce__(self) -> tuple[type[Several], tuple[tuple[CcpError, ...]]]:
        """Pickle all problems, not the parts of the first."""
        return Several, (self.errors,)


class Collector:
    """Collects the problems of a validation and raises them together."""

    def __init__(self) -> None:
        self.errors: list[CcpError] = []

    @contextmanager
    def check(self) -> Iterator[None]:
        """Collect a CcpError raised by the block, and continue after the block."""
        try:
            yield
        except Several as several:
            self.errors.extend(several.errors)
        except CcpError as error:
            self.errors.append(error)

    def finish(self) -> None:
        """Raise the collected problems, if any.

        Raises:
            CcpError: The only problem.
            Several: All problems, if there are at least two.
        """
        if len(self.errors) == 1:
            raise self.errors[0]
        if self.errors:
            raise Several(self.errors)


def collected(make: Callable[[_Given], _Made], given: Iterable[_Given]) -> list[_Made]:
    """Return `make(item)` for each item, or raise all problems together.

    Raises:
        CcpError: The only problem.
        Several: All problems, if there are at least two.
    """
    problems = Collector()
    made = []
    for one in given:
        with problems.check():
            made.append(make(one))
    problems.finish()
    return made
