"""Errors of algorithms, their parameters and their fold programs.

Every error has a slug for programs and a sentence for people, and says where, why, and what to do next;
`str()` prints them in the shape of all ccplane errors. They are defined here because `ccp_algs` imports
nothing of ours.
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Iterable
from pathlib import Path

_PACKAGE = Path(__file__).parent
_PLUMBING = (str(_PACKAGE / "errors.py"), str(_PACKAGE / "fold"))


class AlgorithmError(Exception):
    """Base of everything that can be wrong with an algorithm.

    Attributes:
        slug: Stable name for programs, `area.what`.
        message: What is wrong, one sentence.
        where: Place, such as `vegas.py:41`; empty if there is none.
        why: Reason; may be empty.
        fix: What to do next; may be empty.
    """

    def __init__(self, slug: str, message: str, where: str = "", why: str = "", fix: str = "") -> None:
        """Keep the five parts; all are also in `args`, so that the error survives pickling."""
        super().__init__(slug, message, where, why, fix)
        self.slug = slug
        self.message = message
        self.where = where
        self.why = why
        self.fix = fix

    def __str__(self) -> str:
        """Return the error as people read it; empty parts are left out."""
        parts = [f"{self.slug}: {self.message}"]
        for label, text in (("at", self.where), ("why", self.why), ("fix", self.fix)):
            if text:
                parts.append(f"  {label:<4} " + text.replace("\n", "\n       "))
        return "\n".join(parts)


class ParamError(AlgorithmError):
    """A parameter does not exist or refuses a value."""


class FoldError(AlgorithmError):
    """A fold program cannot be built."""


class UnknownPrimitiveError(FoldError, AttributeError):
    """No datapath has this primitive. Also an AttributeError, as Python expects of a missing attribute."""


class RegistryError(AlgorithmError):
    """An algorithm cannot be found, loaded or registered."""


class ContractError(AlgorithmError):
    """An algorithm breaks the contract of `ccp_algs.api`; found by `check_algorithm`."""


def suggest(name: str, known: Iterable[str], what: str) -> str:
    """Return the `fix` sentence for an unknown name.

    Args:
        name: What was asked for.
        known: What exists.
        what: What a known thing is called, for example `parameter`.

    Returns:
        Close names if there are any, else the whole list.
    """
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=3)
    if close:
        return "did you mean " + " or ".join(f"`{one}`" for one in close) + "?"
    return f"{what}s: " + ", ".join(names) if names else f"there is no {what}"


def caller() -> str:
    """Return `file:line` of the nearest frame outside the plumbing of this package, for `where`."""
    frame = sys._getframe(1)
    while frame.f_code.co_filename.startswith(_PLUMBING) and frame.f_back is not None:
        frame = frame.f_back
    path = Path(frame.f_code.co_filename)
    if path.is_relative_to(_PACKAGE):
        path = path.relative_to(_PACKAGE.parent)
    return f"{path}:{frame.f_lineno}"
