"""Candidates: an edited algorithm, imported alongside the running version, compiled and checked.

Nothing here touches a flow, so it runs outside the agent's thread. A candidate and the modules that it
imports from its directory are in a separate package, invisible to other code until the candidate takes over.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from types import ModuleType
from typing import Final

from ccp_algs import VectorAlgorithm, check_algorithm, siblings
from ccp_algs.api import AnyAlgorithm
from ccp_algs.check import check_reload
from ccp_algs.registry import algorithms_in
from ccplane.agent.algorithms import check_signatures, compile_programs, name_of
from ccplane.agent.blame import blamed
from ccplane.agent.locate import shown
from ccplane.agent.source import Past, Source, Version, version_of
from ccplane.base.errors import UsageError
from ccplane.base.names import close_names
from ccplane.datapath.protocol import Compile, Program

PREFIX: Final = "ccp_algs_live_"
"""Prefix of the names of candidates' packages."""

_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Candidate:
    """An algorithm that passed all checks.

    Attributes:
        algorithm: Its class.
        name: The name that it gives itself.
        programs: Its compiled fold programs by name, the initial program first.
        version: Its source.
    """

    algorithm: AnyAlgorithm
    name: str
    programs: dict[str, Program]
    version: Version

    def drop(self) -> None:
        """Unload the module of a rejected candidate."""
        drop_module(self.algorithm)


def drop_module(algorithm: AnyAlgorithm) -> None:
    """Unload the module of an unused version, and the modules imported from its directory."""
    package = siblings.package_of(algorithm)
    if package is not None:
        package.drop()


def package_for(source: Source, read: siblings.Read = siblings.read_text) -> siblings.Package:
    """Return a new package to import a candidate into."""
    return siblings.Package(f"{PREFIX}{next(_numbers)}", source.file, read)


def prepare(
    source: Source,
    compile_program: Compile[Program],
    wanted: str = "",
    package: siblings.Package | None = None,
) -> Candidate:
    """Import, compile and check an algorithm; its programs are not yet installed.

    Args:
        source: Its source.
        compile_program: The compiler.
        wanted: Name of the class; may be empty if there is only one.
        package: Package to import it into; None creates one that reads files with this process's permissions.

    Raises:
        CcpError: The only problem, with file and line.
        Several: All problems, if there are at least two.
    """
    if package is None:
        package = package_for(source)
    with blamed(source.file, _import_failed):
        module = package.load(source.text)
    try:
        algorithm = _choose(module, source, wanted)
        programs = compile_programs(algorithm, compile_program)
        check_signatures(algorithm)
        with blamed(source.file, _check_failed):
            check_algorithm(algorithm)
        return Candidate(algorithm, name_of(algorithm, source.file), programs, version_of(algorithm))
    except BaseException:
        package.drop()
        raise


def again(past: Past, name: str, compile_program: Compile[Program]) -> Candidate:
    """Import an earlier version of an algorithm from its stored source.

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
        f"{shown(source.file)} defines {len(own)} algorithms" + (f", but not {wanted}" if wanted else ""),
        where=shown(source.file),
        fix=close_names(wanted, own, "algorithm"),
    )


def check_takeover(old: AnyAlgorithm, candidate: Candidate) -> None:
    """Check on a simulated flow that a candidate can take over from the running class.

    Raises:
        CcpError: Why it cannot, with file and line.
    """
    new, file = candidate.algorithm, candidate.version.file
    vectorised = issubclass(new, VectorAlgorithm)
    if vectorised != issubclass(old, VectorAlgorithm):
        raise UsageError(
            "reload.other_kind",
            f"{new.__name__} {'is now vectorised' if vectorised else 'is now per-flow, not vectorised'}",
            where=shown(file),
            why="a vectorised algorithm cannot take over flows from a per-flow algorithm, or vice versa",
            fix="load the algorithm under another name, and move the flows with `ccp switch`",
        )
    with blamed(file, cannot_take_over):
        check_reload(old, new)


def _import_failed(file: str, where: str, why: str) -> UsageError:
    return UsageError(
        "reload.import_failed",
        f"{shown(file)} cannot be imported",
        where=where,
        why=why,
        fix="fix this line; a running version is not affected",
    )


def _check_failed(file: str, where: str, why: str) -> UsageError:
    return UsageError(
        "reload.check_failed",
        f"{shown(file)} breaks the contract of its callbacks",
        where=where,
        why=why,
        fix="fix this line; a running version is not affected. `ccp check` runs the same check",
    )


def cannot_take_over(file: str, where: str, why: str) -> UsageError:
    """Return the error of a version that cannot continue the previous version's flows."""
    return UsageError(
        "reload.cannot_take_over",
        f"{shown(file)} cannot take over from the running version",
        where=where,
        why=why,
        fix="fix on_reload, or the state that it carries over; the previous version keeps running",
    )
