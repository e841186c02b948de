"""Candidates: an edited algorithm, imported beside the one that runs, compiled and checked.

Nothing here touches a flow, so it is done in another thread than the event loop's. The candidate is a module
of a package of its own, and so are the modules that it imports from its directory: as long as it has not been
taken over, nobody else can see them.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from types import ModuleType
from typing import Final

from ccp_algs import VectorAlgorithm, beside, check_algorithm
from ccp_algs.api import AnyAlgorithm
from ccp_algs.check import check_reload
from ccp_algs.registry import algorithms_in
from ccplane.agent.algorithms import compile_programs, name_of
from ccplane.agent.blame import blamed
from ccplane.agent.locate import shown
from ccplane.agent.source import Past, Source, Version, version_of
from ccplane.base.errors import UsageError
from ccplane.base.names import close_names
from ccplane.datapath.protocol import Compile, Program

PREFIX: Final = "ccp_algs_live_"
"""What the names of packages of candidates begin with."""

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
    """Forget the module of a version that runs no longer, and those beside it."""
    package = beside.package_of(algorithm)
    if package is not None:
        package.drop()


def package_for(source: Source, read: beside.Read = beside.read_text) -> beside.Package:
    """Return a new package to import a candidate into.

    Args:
        source: Its text.
        read: Reads modules beside its file.
    """
    return beside.Package(f"{PREFIX}{next(_numbers)}", source.file, read)


def prepare(
    source: Source,
    compile_program: Compile[Program],
    wanted: str = "",
    package: beside.Package | None = None,
) -> Candidate:
    """Import, compile and check an algorithm.

    Args:
        source: Its text.
        compile_program: The compiler.
        wanted: Name of the class; else the only one there is.
        package: Where to import it to; None for one that reads files as we may.

    Returns:
        The candidate; its programs are not yet installed.

    Raises:
        CcpError: What is wrong with it, with file and line.
        Several: Everything that is wrong with it, if there is more.
    """
    if package is None:
        package = package_for(source)
    with blamed(source.file, _import_failed):
        module = package.load(source.text)
    try:
        algorithm = _choose(module, source, wanted)
        programs = compile_programs(algorithm, compile_program)
        with blamed(source.file, _check_failed):
            check_algorithm(algorithm)
        return Candidate(algorithm, name_of(algorithm, source.file), programs, version_of(algorithm))
    except BaseException:
        package.drop()
        raise


def again(past: Past, name: str, compile_program: Compile[Program]) -> Candidate:
    """Import a version that ran before, as it was then.

    Args:
        past: The version.
        name: Of the algorithm.
        compile_program: The compiler.

    Raises:
        CcpError: What is wrong with it now.
    """
    if past.algorithm is not None:
        programs = compile_programs(past.algorithm, compile_program)
        return Candidate(past.algorithm, name, programs, version_of(past.algorithm))
    source = Source(past.texts[past.file], past.file)
    return prepare(source, compile_program, past.class_name, package_for(source, past.read))


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
        fix="repair the line; what ran before goes on",
    )


def _check_failed(file: str, where: str, why: str) -> UsageError:
    return UsageError(
        "reload.check_failed",
        f"{shown(file)} breaks the contract of its callbacks",
        where=where,
        why=why,
        fix="repair the line; what ran before goes on. `ccp check` tries the callbacks, too",
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
