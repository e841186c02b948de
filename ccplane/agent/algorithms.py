"""Finds and compiles the algorithms that a user names. Nothing here touches a datapath."""

from __future__ import annotations

import inspect
import re
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, TypeVar

from ccp_algs import check_algorithm, registry, siblings
from ccp_algs.api import Algorithm, AnyAlgorithm, VectorAlgorithm, programs_of
from ccp_algs.errors import AlgorithmError
from ccplane.agent.blame import blamed
from ccplane.agent.deadline import TooSlow, deadline
from ccplane.agent.locate import Origin, locate, shown
from ccplane.agent.names import derived, duplicate_algorithm
from ccplane.base.errors import Collector, UsageError
from ccplane.datapath.protocol import Compile, Program

P = TypeVar("P", bound=Program)

CHECK_S: Final = 10.0
"""Time limit for the reports of a check [s]; usually they take a few milliseconds."""


@dataclass(frozen=True, slots=True)
class Running:
    """An algorithm, ready to run.

    Attributes:
        algorithm: Its class.
        name: Its name in rules, parameters and messages.
        programs: Its compiled fold programs by name.
        initial: The program of a flow whose `on_create` sets none; None leaves the flow to the fallback.
        cc_name: The algorithm's congestion-control name; empty if it has none.
    """

    algorithm: AnyAlgorithm
    name: str
    programs: Mapping[str, Program]
    initial: str | None
    cc_name: str = ""

    @property
    def needs_ecn(self) -> bool:
        """Whether connections request ECN."""
        return self.algorithm.needs_ecn

    def called(self, cc_name: str) -> Running:
        """Return a copy with this congestion-control name."""
        return replace(self, cc_name=cc_name)


def find(name: str) -> AnyAlgorithm:
    """Return an algorithm's class.

    Args:
        name: A registered name, a `.py` file, `FILE.py:Class` or `module:Class`.

    Raises:
        UsageError: If it does not exist, or its module cannot be imported; then with the line.
    """
    try:
        return registry.get(name)
    except AlgorithmError as error:
        where = error.where
        if error.__cause__ is not None:
            where = _line_of(error.__cause__, where)
        raise UsageError(error.slug, error.message, where, error.why, error.fix) from error


Find = Callable[[str], AnyAlgorithm]
"""Returns an algorithm's class by name; same errors as `find`."""


def _line_of(cause: BaseException, where: str) -> str:
    """Return `FILE:LINE` of the algorithm's line where an import failed, else `where`."""
    if isinstance(cause, SyntaxError) and cause.filename is not None:
        return f"{shown(cause.filename)}:{cause.lineno}"
    frames = [
        frame
        for frame in traceback.extract_tb(cause.__traceback__)
        if not frame.filename.startswith("<") and Path(frame.filename) != Path(registry.__file__)
    ]
    own = [frame for frame in frames if siblings.is_executed(frame.filename)]
    wanted = own or [frame for frame in frames if Path(frame.filename).name == Path(where).name] or frames
    return f"{shown(wanted[-1].filename)}:{wanted[-1].lineno}" if wanted else where


def name_of(algorithm: AnyAlgorithm, asked: str) -> str:
    """Return an algorithm's name: its registered name, else the name of its file, else of its class."""
    if algorithm.name:
        return algorithm.name
    target = asked.partition(":")[0]
    stem = Path(target).stem if target.endswith(".py") else algorithm.__name__
    return re.sub(r"\W", "_", stem).lower()


def compile_programs(algorithm: AnyAlgorithm, compile_program: Compile[P]) -> dict[str, P]:
    """Compile all fold programs of an algorithm; return programs by name, the initial program first.

    Raises:
        UsageError: If the algorithm has no program, or one is not a program.
        LangError: If a program does not compile.
        Several: If several programs do not compile.
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
    """Run the callbacks of an algorithm on simulated flows, see `ccp_algs.check`.

    Raises:
        UsageError: `algorithm.bad_signature` or `algorithm.check_failed`, with file, line and reason.
    """
    check_signatures(algorithm)
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
            fix="fix this line; this error would move a live flow to the fallback",
        )

    try:
        with deadline(limit_s), blamed(file, raised):
            check_algorithm(algorithm)
    except TooSlow:
        raise UsageError(
            "algorithm.check_failed",
            f"the callbacks of {algorithm.__name__} did not finish within {limit_s:g} s",
            where=shown(file),
            why="a callback has an endless loop, or does too much work per report",
            fix="make the callback faster; the delay would move live flows to the fallback",
        ) from None


def check_signatures(algorithm: AnyAlgorithm) -> None:
    """Check that callbacks can be called with the arguments that they receive.

    Raises:
        UsageError: `algorithm.bad_signature`, with file and line: the callback does not run, so its own
            exceptions have none.
    """
    base = VectorAlgorithm if issubclass(algorithm, VectorAlgorithm) else Algorithm
    idle = object.__new__(algorithm)
    for name in (name for name in dir(base) if name.startswith("on_")):
        callback, wanted = getattr(idle, name), list(inspect.signature(getattr(base, name)).parameters)
        try:
            inspect.signature(callback).bind(*wanted[1:])
        except TypeError as error:
            code = getattr(inspect.unwrap(getattr(callback, "__func__", callback)), "__code__", None)
            place = algorithm.__qualname__ if code is None else f"{code.co_filename}:{code.co_firstlineno}"
            raise UsageError(
                "algorithm.bad_signature",
                f"{algorithm.__name__}.{name} cannot be called with ({', '.join(wanted[1:])})",
                where=shown(place),
                why=str(error),
                fix=f"write `def {name}({', '.join(wanted)})`; this error would move a flow to the fallback",
            ) from None


def _origin(algorithm: AnyAlgorithm, name: str, text: str) -> Origin:
    """Return where a program's text is: in the file, or in the output of a FoldProgram class."""
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
        asked: Classes, or names as for `find`.
        compile_program: The compiler.
        finds: Finds an algorithm by name.

    Returns:
        The algorithms in the same order, without congestion-control names (see `ccplane.agent.names`).

    Raises:
        CcpError: The only problem.
        Several: All problems, if there are at least two.
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
