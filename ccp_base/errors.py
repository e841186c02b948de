"""The one hierarchy of errors, raised by the datapaths, the native module and the agent.

Every error carries a slug for programs and four sentences for people: what, where, why, and what to do next.
`str(error)` prints them in this shape (empty parts are left out):

    lang.unknown_field: no field `Flow.rtt_sample_ms`
      at   ccp_algs/vegas.py:41:23, program "default", line 6
      why  this datapath provides Flow.rtt_sample_us [us]
      fix  did you mean `Flow.rtt_sample_us`?

`SLUGS` lists the slugs that Python code raises; a test compares it with the sources and with the tests. Those
of the native module (`lang.*`, `verifier.*`, `load.*`) are listed and tested in its crates.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, TypeVar

_Given = TypeVar("_Given")
_Made = TypeVar("_Made")

SLUGS: Final[dict[str, str]] = {
    "load.already_running": "another agent steers the flows of this pin directory",
    "load.no_native_module": "the package was installed without its compiled part",
    "load.no_run_dir": "the run file, which keeps a second agent out, cannot be written",
    "flow.gone": "the flow closed before the update reached it",
    "update.not_a_number": "a window, rate or register value is no finite number",
    "update.out_of_range": "a window, rate or register value is negative or absurd",
    "update.shape": "windows or rates of a vectorised algorithm are not one a flow",
    "param.nobody_has": "no running algorithm has such a parameter",
    "param.shared": "the parameter cannot be set for one flow, because all flows share an instance",
    "param.syntax": "a parameter setting is not of the form name=value",
    "param.unknown": "there is no such option",
    "param.wrong_type": "an option cannot have this value",
    "register.unknown": "the program has no such control register",
    "register.read_only": "the register exists, but only the fold program writes it",
    "program.unknown": "the algorithm declares no such fold program",
    "program.none": "a register was set of a flow that runs no fold program",
    "algorithm.unknown": "no running algorithm has this name",
    "algorithm.check_failed": "the algorithm compiles, but breaks the contract of its callbacks",
    "algorithm.duplicate": "two algorithms of one run have the same name",
    "algorithm.bad_name": "the name cannot be a congestion-control name or a Python module",
    "algorithm.exists": "a new algorithm would have the name of another",
    "algorithm.file_exists": "the file that would be written is already there",
    "algorithm.no_directory": "the directory of a new algorithm is not there",
    "name.invalid": "the congestion-control name is not one that the kernel or ccplane accepts",
    "name.duplicate": "two algorithms would register one congestion-control name",
    "rule.syntax": "a rule is not of the form `CONDITION... -> ALGORITHM`",
    "rule.unknown_key": "a rule's condition tests something that rules cannot test",
    "rtcp.cannot_record": "recorded ACKs cannot be written to the directory",
    "rtcp.no_detector": "no detector of rate limits has this name",
    "rule.bad_value": "the value of a rule's condition cannot be read",
    "rule.unknown_algorithm": "a rule names an algorithm that is not running",
    "command.broken": "a plug-in command could not be loaded",
    "reload.not_readable": "the file of an algorithm cannot be read",
    "reload.no_file": "the source of an algorithm is in no file, so it cannot be read again",
    "reload.import_failed": "an edited algorithm cannot be imported",
    "reload.no_algorithm": "a source defines no algorithm",
    "reload.which_class": "a source defines several algorithms, and none is the one that runs",
    "reload.check_failed": "an edited algorithm breaks the contract of its callbacks",
    "reload.other_kind": "an edited algorithm became vectorised, or is so no longer",
    "reload.cannot_take_over": "an edited algorithm cannot continue what the version before began",
    "reload.too_slow": "an edited algorithm is not done with importing and checking in time",
    "control.cannot_listen": "the control socket cannot be opened",
    "control.no_user": "the user who shall control the agent does not exist",
    "control.no_keys": "control over TCP needs keys",
    "control.bad_keys": "the keys for control over TCP cannot be used",
    "control.bad_address": "the address of the control socket cannot be read",
    "control.no_agent": "no agent can be reached",
    "control.no_answer": "the agent did not answer in time",
    "control.no_stream": "there is no such stream",
    "control.bad_request": "a request is not one that the agent knows",
    "control.failed": "a request failed in a way that should not happen",
    "telemetry.no_bus": "the agent has no telemetry bus",
    "trace.not_readable": "a trace of ACKs cannot be opened or decompressed, or is no text",
    "trace.bad_row": "a trace of ACKs lacks a column, or has a row that cannot be",
    "command.no_terminal": "a live screen was asked for where there is no terminal",
}
"""Slug -> what it means. Raised by Python code; each has a test that names it."""


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


def close_names(name: str, known: Iterable[str], what: str = "name") -> str:
    """Return the `fix` sentence for an unknown name.

    Args:
        name: What was asked for.
        known: What there is.
        what: What kind of thing it is, for the sentence.

    Returns:
        A suggestion if a known name is close, else the list of known names when it is short, else where
        to look; never empty.
    """
    names = sorted(set(known))
    if not names:
        return f"there is no {what} to choose from"
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.6)
    if near:
        return "did you mean " + " or ".join(f"`{n}`" for n in near) + "?"
    shown = names if len(names) <= 12 else [*names[:12], f"... ({len(names)} in all)"]
    return f"known {what}s: " + ", ".join(shown)
