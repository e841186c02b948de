"""From what a user names to a running algorithm: found, named, compiled; nothing here touches a datapath."""

from __future__ import annotations

import inspect
import re
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, TypeVar

from ccp_algs import beside, check_algorithm, registry
from ccp_algs.api import AnyAlgorithm, programs_of
from ccp_algs.errors import AlgorithmError
from ccplane.agent.blame import blamed
from ccplane.agent.deadline import TooSlow, deadline
from ccplane.agent.locate import Origin, locate, shown
from ccplane.agent.names import derived, duplicate_algorithm
from ccplane.base.errors import Collector, UsageError
from ccplane.datapath.protocol import Compile, Program

P = TypeVar("P", bound=Program)

CHECK_S: Final = 10.0
"""How long the callbacks may take for the reports of a check [s]; it is some milliseconds."""


@dataclass(frozen=True, slots=True)
class Running:
    """An algorithm that is ready to run.

    Attributes:
        algorithm: Its class.
        name: Name by which rules, parameters and messages know it.
        programs: Its compiled fold programs by name.
        initial: The program of a flow whose `on_create` chooses none; None leaves the flow to the fallback
            law.
        cc_name: Congestion-control name of its own, empty for none.
    """

    algorithm: AnyAlgorithm
    name: str
    programs: Mapping[str, Program]
    initial: str | None
    cc_name: str = ""

    @property
    def needs_ecn(self) -> bool:
        """Whether connections shall ask for ECN."""
        return self.algorithm.needs_ecn

    def called(self, cc_name: str) -> Running:
        """Return it with this congestion-control name."""
        return replace(self, cc_name=cc_name)


def find(name: str) -> AnyAlgorithm:
    """Return an algorithm's class.

    Args:
        name: A registered name, a `.py` file, `FILE.py:Class` or `module:Class`.

    Raises:
        UsageError: If there is none; with the line if its module does not import.
    """
    try:
        return registry.get(name)
    except AlgorithmError as error:
        where = error.where
        if error.__cause__ is not None:
            where = _line_of(error.__cause__, where)
        raise UsageError(error.slug, error.message, where, error.why, error.fix) from error


Find = Callable[[str], AnyAlgorithm]
"""Returns the class of what a user names; raises what `find` raises."""


def _line_of(cause: BaseException, where: str) -> str:
    """Return `FILE:LINE` of the algorithm's line at which an import failed, else `where`."""
    if isinstance(cause, SyntaxError) and cause.filename is not None:
        return f"{shown(cause.filename)}:{cause.lineno}"
    frames = [
        frame
        for frame in traceback.extract_tb(cause.__traceback__)
        if not frame.filename.startswith("<") and Path(frame.filename) != Path(registry.__file__)
    ]
    own = [frame for frame in frames if beside.is_executed(frame.filename)]
    wanted = own or [frame for frame in frames if Path(frame.filename).name == Path(where).name] or frames
    return f"{shown(wanted[-1].filename)}:{wanted[-1].lineno}" if wanted else where


def name_of(algorithm: AnyAlgorithm, asked: str) -> str:
    """Return the name of an algorithm: the registered one, else that of its file, else that of its class."""
    if algorithm.name:
        return algorithm.name
    target = asked.partition(":")[0]
    stem = Path(target).stem if target.endswith(".py") else algorithm.__name__
    return re.sub(r"\W", "_", stem).lower()


def compile_programs(algorithm: AnyAlgorithm, compile_program: Compile[P]) -> dict[str, P]:
    """Compile all fold programs of an algorithm.

    Args:
        algorithm: The class.
        compile_program: The compiler.

    Returns:
        Programs by name, the first of a flow first.

    Raises:
        UsageError: If there is none, or one is no program.
        LangError: If one does not compile.
        Several: If more than one do not.
    """
    texts = programs_of(algorithm)
    problems = Collector()
    programs: dict[str, P] = {}
    for name, text in texts.items():
        origin = _origin(algorithm, name, text)
        with problems.check():
            programs[name] = compile_program(text, name, origin.file, origin.first_line)
    problems.finish()
    return programs


def check_contract(algorithm: AnyAlgorithm, limit_s: float = CHECK_S) -> None:
    """Try the callbacks of an algorithm on flows that do not exist, see `ccp_algs.check`.

    Args:
        algorithm: The class.
        limit_s: How long it may take [s].

    Raises:
        UsageError: What is wrong, with file, line and reason.
    """
    try:
        file = inspect.getsourcefile(algorithm) or ""
    except TypeError:
        file = ""

    def raised(_file: str, where: str, why: str) -> UsageError:
        return UsageError(
            "algorithm.check_failed",
            f"{algorithm.__name__} breaks the contract of its callbacks",
            where=where,
            why=why,
            fix="repair the line: a running flow would go to the fallback law here",
        )

    try:
        with deadline(limit_s), blamed(file, raised):
            check_algorithm(algorithm)
    except TooSlow:
        raise UsageError(
            "algorithm.check_failed",
            f"{algorithm.__name__} is not done with some reports after {limit_s:g} s",
            where=shown(file),
            why="a loop without end in a callback, or far too much work",
            fix="repair it: a running flow would go to the fallback law here",
        ) from None


def _origin(algorithm: AnyAlgorithm, name: str, text: str) -> Origin:
    """Return where a program's text stands: in the file, or in what a FoldProgram class emits."""
    declared = algorithm.program
    program = declared.get(name) if isinstance(declared, Mapping) else declared
    if isinstance(program, type):
        return Origin(f"<{program.__module__}.{program.__qualname__}.source>", 1)
    return locate(algorithm, text)


def prepare(
    asked: Sequence[str | AnyAlgorithm], compile_program: Compile[Program], finds: Find = find
) -> list[Running]:
    """Find and compile all algorithms of a run.

    Args:
        asked: What the user named, as in `find`, or classes.
        compile_program: The compiler.
        finds: Finds what is named.

    Returns:
        The algorithms in the same order; congestion-control names are given later, see `ccplane.agent.names`.

    Raises:
        CcpError: The problem, if there is one.
        Several: All problems, if there are more.
    """
    problems = Collector()
    found: list[Running] = []
    for one in asked:
        with problems.check():
            algorithm = finds(one) if isinstance(one, str) else one
            programs = compile_programs(algorithm, compile_program)
            asked_as = one if isinstance(one, str) else algorithm.__name__
            name = name_of(algorithm, asked_as)
            if any(name == other.name for other in found):
                raise duplicate_algorithm(name, asked_as)
            found.append(Running(algorithm, name, programs, next(iter(programs)), derived(name)))
    problems.finish()
    return found
