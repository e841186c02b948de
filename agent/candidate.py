"""Candidates: an edited algorithm, imported beside the one that runs, compiled and checked.

Nothing here touches a flow, so it is done in another thread than the event loop's. The candidate is a module
of its own: as long as it has not been taken over, nobody else can see it. Modules that it imports are
imported as usual, once: only the algorithm's own file is read again.
"""

from __future__ import annotations

import itertools
import re
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Final

from agent.algorithms import ccp_errors, compile_programs, name_of
from agent.locate import shown
from agent.source import Source, Version, version_of
from ccp_algs import VectorAlgorithm, check_algorithm
from ccp_algs.api import AnyAlgorithm
from ccp_algs.check import check_reload
from ccp_algs.registry import algorithms_in, any_name
from datapath.errors import CcpError, Several, UsageError, close_names
from datapath.protocol import Compile, Program

PREFIX: Final = "ccp_algs_live_"
"""What the names of modules of candidates begin with."""

_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Candidate:
    """An algorithm that is fit to run.

    Attributes:
        algorithm: Its class.
        name: The name that it gives itself.
        programs: Its compiled fold programs by name, the first of a flow first.
        version: What it was made of.
    """

    algorithm: AnyAlgorithm
    name: str
    programs: dict[str, Program]
    version: Version

    def drop(self) -> None:
        """Forget the module, because the candidate is not taken over."""
        drop_module(self.algorithm)


def drop_module(algorithm: AnyAlgorithm) -> None:
    """Forget the module of a version that runs no longer, if it was made here."""
    if algorithm.__module__.startswith(PREFIX):
        sys.modules.pop(algorithm.__module__, None)


def prepare(
    source: Source,
    compile_program: Compile[Program],
    wanted: str = "",
) -> Candidate:
    """Import, compile and check an algorithm.

    Args:
        source: Its text.
        compile_program: The compiler.
        wanted: Name of the class; else the only one there is.

    Returns:
        The candidate; its programs are not yet installed.

    Raises:
        CcpError: What is wrong with it, with file and line.
        Several: Everything that is wrong with it, if there is more.
    """
    source.show()
    with _module(source) as module:
        algorithm = _choose(module, source, wanted)
        programs = compile_programs(algorithm, compile_program)
        with blamed(source.file, _check_failed):
            check_algorithm(algorithm)
        return Candidate(algorithm, name_of(algorithm, source.file), programs, version_of(algorithm, source))


@contextmanager
def _module(source: Source) -> Iterator[ModuleType]:
    """Import the text as a module of its own; it stays imported if the block has no error."""
    stem = re.sub(r"\W", "_", Path(source.file.strip("<>")).stem)
    name = f"{PREFIX}{stem}_{next(_numbers)}"
    module = ModuleType(name)
    module.__file__ = source.file
    sys.modules[name] = module
    try:
        with blamed(source.file, _import_failed), any_name():
            exec(compile(source.text, source.file, "exec", dont_inherit=True), vars(module))
        yield module
    except BaseException:
        sys.modules.pop(name, None)
        raise


def _choose(module: ModuleType, source: Source, wanted: str) -> AnyAlgorithm:
    own = {cls.__qualname__: cls for cls in algorithms_in(module)}
    if wanted in own:
        return own[wanted]
    if len(own) == 1:
        return next(iter(own.values()))
    if not own:
        raise UsageError(
            "reload.no_algorithm",
            f"{shown(source.file)} defines no algorithm",
            where=shown(source.file),
            fix="derive a class from ccp_algs.Algorithm",
        )
    raise UsageError(
        "reload.which_class",
        f"{shown(source.file)} defines {len(own)} algorithms" + (f", but no {wanted}" if wanted else ""),
        where=shown(source.file),
        fix=close_names(wanted, own, "algorithm"),
    )


def check_takeover(old: AnyAlgorithm, candidate: Candidate) -> None:
    """Check that a candidate can take over from the class that runs, on a flow that does not exist.

    Raises:
        CcpError: Why it cannot, with file and line.
    """
    new, file = candidate.algorithm, candidate.version.file
    vectorised = issubclass(new, VectorAlgorithm)
    if vectorised != issubclass(old, VectorAlgorithm):
        raise UsageError(
            "reload.other_kind",
            f"{new.__name__} is {'vectorised' if vectorised else 'not vectorised any more'}",
            where=shown(file),
            why="instances of one kind cannot take over from the other",
            fix="load it under another name, and switch the flows over",
        )
    with blamed(file, cannot_take_over):
        check_reload(old, new)


def _import_failed(file: str, where: str, why: str) -> UsageError:
    return UsageError(
        "reload.import_failed",
        f"{shown(file)} cannot be imported",
        where=where,
        why=why,
        fix="repair the line; the version before goes on",
    )


def _check_failed(file: str, where: str, why: str) -> UsageError:
    return UsageError(
        "reload.check_failed",
        f"{shown(file)} breaks the contract of its callbacks",
        where=where,
        why=why,
        fix="repair the line; the version before goes on. `ccp check` tries the callbacks, too",
    )


def cannot_take_over(file: str, where: str, why: str) -> UsageError:
    """Return the error of a version that cannot continue what the version before began."""
    return UsageError(
        "reload.cannot_take_over",
        f"{shown(file)} cannot take over from the version that runs",
        where=where,
        why=why,
        fix="repair on_reload, or what it carries over; the version before goes on",
    )


Problem = Callable[[str, str, str], UsageError]
"""Makes an error from file, where and why."""


@contextmanager
def blamed(file: str, problem: Problem) -> Iterator[None]:
    """Turn whatever an algorithm's code raises into one error with file, line and reason."""
    try:
        with ccp_errors():
            yield
    except Several:
        raise
    except (Exception, SystemExit) as error:
        where = place_of(error, file) or shown(file)
        if isinstance(error, CcpError):
            raise type(error)(error.slug, error.message, where, error.why, error.fix) from error
        raise problem(file, where, f"{type(error).__name__}: {error}") from error


def place_of(error: BaseException, file: str) -> str:
    """Return `FILE:LINE` of the innermost line of a file at which an exception passed; empty if none."""
    while isinstance(error, CcpError) and error.__cause__ is not None:
        error = error.__cause__
    if isinstance(error, SyntaxError) and error.filename == file:
        return f"{shown(file)}:{error.lineno}"
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    return f"{shown(file)}:{lines[-1]}" if lines else ""
