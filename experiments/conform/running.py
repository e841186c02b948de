"""Runs suites: finds a suite by name or file, and runs its cases for one algorithm."""

from __future__ import annotations

import contextlib
import runpy
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from ccplane.agent.algorithms import check_contract, find, name_of
from ccplane.agent.params import parse, resolve
from ccplane.base.errors import CcpError
from ccplane.base.names import close_names
from experiments.conform.cases import (
    FAILS,
    PASSES,
    UNDECIDED,
    Case,
    CaseResult,
    Ended,
    Outcome,
    Undecided,
    cases_of,
)
from experiments.conform.errors import ConformError
from experiments.conform.lab import Lab
from experiments.events import ParamValue
from experiments.runs.check import SIM, check_datapath, is_own
from experiments.runs.files import absolute

SUITES: Final = Path(__file__).parent / "suites"


def parsed_params(algorithm: str, given: Sequence[str]) -> dict[str, ParamValue]:
    """Return parameters given as `NAME=VALUE`.

    Raises:
        CcpError: If the algorithm, the parameter or the value does not exist.
        Several: If several are wrong.
    """
    if not given:
        return {}
    own = find(algorithm)
    name = name_of(own, algorithm)
    settings = resolve(parse(given), {name: own})
    return {one.parameter.name: one.value for all_of in settings.values() for one in all_of}


Progress = Callable[[str, int, int], None]
"""Called with the name of the next case, its number from 0, and the number of all."""


def suite_names() -> list[str]:
    """Return the names of the suites that come with ccplane."""
    return sorted(
        file.stem.replace("_", "-") for file in SUITES.glob("*.py") if not file.stem.startswith("_")
    )


def file_of(name: str) -> Path:
    """Return the file of a suite.

    Raises:
        ConformError: `conform.unknown_suite`.
    """
    known = suite_names()
    file = SUITES / f"{name.replace('-', '_')}.py" if name in known else Path(name)
    if name in known or (name.endswith(".py") and file.is_file()):
        return file
    raise ConformError(
        "conform.unknown_suite",
        f"there is no suite `{name}`",
        name,
        "there is no such file" if name.endswith(".py") else "",
        close_names(name, known, "suite") + "\nor give a file: path/to/suite.py",
    )


def cases(name: str) -> list[Case]:
    """Return the cases of a suite, in their order.

    Args:
        name: Name of a suite, or path of a suite's file.

    Raises:
        ConformError: `conform.unknown_suite`, `conform.bad_suite` or `conform.no_cases`.
    """
    file = file_of(name)
    try:
        found = cases_of(runpy.run_path(str(file)))
    except Exception as error:
        raise _bad(file, "cannot be imported", error) from error
    if not found:
        raise ConformError(
            "conform.no_cases",
            f"{file} defines no case",
            str(file),
            "no function in it is marked with `@case(SOURCE)`",
            "mark functions that take a `Lab` with `@case`, from experiments.conform",
        )
    return found


def chosen(name: str, only: Sequence[str] = ()) -> list[Case]:
    """Return some cases of a suite by name, or all.

    Raises:
        ConformError: As in `cases`, and `conform.unknown_case`.
    """
    found = cases(name)
    known = {one.name: one for one in found}
    for wanted in only:
        if wanted not in known:
            raise ConformError(
                "conform.unknown_case",
                f"suite `{name}` has no case `{wanted}`",
                wanted,
                fix=close_names(wanted, known, "case"),
            )
    return [one for one in found if not only or one.name in only]


def run_suite(
    name: str,
    algorithm: str,
    *,
    params: Mapping[str, ParamValue] | None = None,
    seeds: Sequence[int] = (1,),
    only: Sequence[str] = (),
    out: str | Path | None = None,
    progress: Progress | None = None,
    datapath: str = SIM,
) -> list[CaseResult]:
    """Run the cases of a suite.

    Args:
        name: Name of a suite, or path of a suite's file.
        algorithm: `kernel/NAME`, a name, `FILE.py`, `FILE.py:Class` or `module:Class`.
        params: Parameters that differ from the defaults.
        seeds: Each case runs once with each of these. 1 has the paths as written; others have rates and RTTs
            that differ by up to 20 %.
        only: Names of cases; default all.
        out: Directory for a scenario file and a plot of each failure; None writes none.
        progress: Called before each case.
        datapath: `sim` for the simulator, `ebpf` for real sockets, which need root.

    Returns:
        A result for each case and seed.

    Raises:
        ConformError: If the suite is not found, or a case of it raises an exception.
        RunError: `run.datapath`.
        CcpError: If the algorithm does not exist, or cannot run there.
        Several: If several things are wrong.
    """
    check_datapath(datapath)
    suite = Path(name).stem if name.endswith(".py") else name
    if is_own(algorithm):
        check_contract(find(algorithm))
    order = [(one, seed) for one in chosen(name, only) for seed in seeds]
    results = []
    for number, (one, seed) in enumerate(order):
        if progress is not None:
            progress(one.name, number, len(order))
        results.append(
            run_case(suite, one, algorithm, params, seed, None if out is None else Path(out), datapath)
        )
    return results


def run_case(
    suite: str,
    one: Case,
    algorithm: str,
    params: Mapping[str, ParamValue] | None,
    seed: int,
    out: Path | None,
    datapath: str = SIM,
) -> CaseResult:
    """Run one case; on failure, write its scenario and plot into `out`.

    Raises:
        ConformError: `conform.bad_suite` if the case raises an exception, `conform.cannot_write`.
        CcpError: If the algorithm does not exist, or cannot run there.
    """
    # The path of a file is absolute, so that scenarios are portable.
    lab = Lab(absolute(algorithm), seed, params, f"{suite} {one.name}"[:100], datapath)
    reason = ""
    outcome: Outcome = PASSES
    try:
        with contextlib.suppress(Ended):
            one.test(lab)
    except Undecided as said:
        reason, outcome = str(said), UNDECIDED
    except CcpError:
        raise
    except Exception as error:
        raise _bad(
            Path(one.test.__code__.co_filename), f"raises an exception in `{one.name}`", error
        ) from error
    finally:
        scenarios = tuple(net.scenario() for net in lab.runs)
        lab.close()
    if any(not compared.holds for compared in lab.comparisons):
        outcome = FAILS
    elif outcome == PASSES and not lab.comparisons:
        reason, outcome = "the case compared nothing", UNDECIDED
    result = CaseResult(
        suite,
        one.name,
        one.title,
        one.source,
        one.why,
        algorithm,
        seed,
        outcome,
        tuple(lab.comparisons),
        reason,
        scenarios,
        datapath=datapath,
    )
    if out is None:
        return result
    from experiments.conform import failures  # draws with pandas, which is slow to import

    return failures.keep(result, out)


def _bad(file: Path, what: str, error: Exception) -> ConformError:
    lines = [
        frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(file)
    ]
    line = getattr(error, "lineno", None) if isinstance(error, SyntaxError) else (lines or [None])[-1]
    return ConformError(
        "conform.bad_suite",
        f"the suite {what}",
        f"{file}:{line}" if line else str(file),
        f"{type(error).__name__}: {error}",
        "fix this line",
    )
