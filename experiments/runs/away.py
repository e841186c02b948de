"""Runs on other machines: inputs go there and results come back, both as plain data.

The files that a scenario uses (algorithms with their local imports, traces) are written below a separate
directory on the other machine, each with its whole path. Paths in the result are those of the machine that
planned the run.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet

from ccplane.agent.algorithms import find
from ccplane.base.errors import CcpError
from experiments.errors import SweepError
from experiments.results import SCENARIO
from experiments.run import run
from experiments.runs import files, places, reading
from experiments.scenario import Scenario
from experiments.writing import cannot_write

_TEXTS: Final = frozenset({".json", ".log"})


@dataclass(frozen=True)
class Outcome:
    """The outcome of a run.

    Attributes:
        error: Parts of the error that stopped the run; None if it finished.
        files: Files of the result, or of the incomplete result: path in its directory -> content.
    """

    error: Mapping[str, str] | None
    files: Mapping[str, bytes]


def needed(scenarios: Iterable[Scenario]) -> dict[str, bytes]:
    """Return the files that scenarios use and that are not part of ccplane: path -> content.

    Raises:
        ScenarioError: `scenario.no_file`.
    """
    named: dict[tuple[str, str], None] = {}

    def note(name: str, value: str) -> str:
        named[name, value] = None
        return value

    for scenario in scenarios:
        files.with_files(scenario.plain(), note)
    paths: dict[Path, None] = {}
    for name, value in named:
        file = value.partition(":")[0]
        if name == "trace":
            paths[Path(value)] = None
        elif file.endswith(".py"):
            paths.update(dict.fromkeys(_of_algorithm(value, Path(file))))
    return {str(path): files.content_of(path, str(path)) for path in paths}


def _of_algorithm(name: str, file: Path) -> list[Path]:
    """Return an algorithm's file, its local imports, and its other dependencies."""
    alongside = [
        one for one in files.sources(name) if one.is_relative_to(file.parent) and not files.is_of_ccplane(one)
    ]
    return [file, *alongside, *find(name).depends_on]


def do(scenario: dict[str, Any], expected: str, sent: Mapping[str, bytes], scratch: Path) -> Outcome:
    """Do a run here that was planned on another machine.

    Args:
        scenario: Plain data, with the other machine's paths.
        expected: Prefix of the scenario's hash there.
        sent: The files that it uses: path there -> content.
        scratch: Directory for files and results, which this process may fill.

    Raises:
        SweepError: `sweep.other_algorithm`, if the run would differ here.
    """
    root = _written(sent, scratch) if sent else None
    with tempfile.TemporaryDirectory(prefix="ccplane-run-", dir=scratch) as place:
        out = Path(place) / "result"
        try:
            here = Scenario.parse(scenario if root is None else _moved(scenario, root, sent))
            _compare(here, expected)
            run(here, out)
        except SweepError:
            raise
        except CcpError as error:
            reported = {name: _as_there(text, root) for name, text in error.as_dict().items()}
            return Outcome(reported, _result(places.incomplete(out), scenario, root))
        return Outcome(None, _result(out, scenario, root))


def put(outcome: Outcome, out: Path) -> CcpError | None:
    """Write a run's result as if the run had been done here.

    Returns:
        The error that stopped the run; None if it finished.

    Raises:
        ResultError: `result.cannot_write`.
    """
    with places.scratch(out) as place:
        try:
            for name, content in outcome.files.items():
                file = place / name
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(content)
        except OSError as error:
            raise cannot_write(out, error) from error
        if outcome.error is None:
            places.finish(place, out)
            return None
        if outcome.files:
            places.keep(place, out)
        return CcpError(**outcome.error)


def _compare(here: Scenario, expected: str) -> None:
    if here.content_hash().startswith(expected):
        return
    raise SweepError(
        "sweep.other_algorithm",
        f"a run of `{here.name}` would differ on a worker",
        why="an algorithm named as `module:Class`, or registered by a package, differs on the worker",
        fix="install the same package on all machines, or name the algorithm's file: files are sent",
    )


def _written(sent: Mapping[str, bytes], scratch: Path) -> Path:
    """Write files below a directory named after their contents, unless they exist."""
    digest = hashlib.sha256()
    for path, content in sorted(sent.items()):
        digest.update(f"{path}\0{len(content)}\0".encode() + content)
    root = scratch / f"ccplane-sent-{digest.hexdigest()[:16]}"
    if root.exists():
        return root
    partly = Path(tempfile.mkdtemp(prefix="ccplane-sent-", dir=scratch))
    for path, content in sent.items():
        file = Path(f"{partly}{path}")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    try:
        partly.rename(root)
    except OSError:  # another thread was faster
        shutil.rmtree(partly, ignore_errors=True)
        if not root.exists():
            raise
    return root


def _moved(scenario: dict[str, Any], root: Path, sent: Mapping[str, bytes]) -> Any:
    def move(_name: str, value: str) -> str:
        return f"{root}{value}" if value.partition(":")[0] in sent else value

    return files.with_files(scenario, move)


def _as_there(text: str, root: Path | None) -> str:
    return text if root is None else text.replace(str(root), "")


def _result(directory: Path, scenario: dict[str, Any], root: Path | None) -> dict[str, bytes]:
    found = [file for file in sorted(directory.rglob("*")) if file.is_file()]
    if root is not None:
        for file in found:
            _restore(file, scenario, root)
    return {os.path.relpath(file, directory): file.read_bytes() for file in found}


def _restore(file: Path, scenario: dict[str, Any], root: Path) -> None:
    """Replace paths in a file of a result by those of the machine that planned the run."""
    if file.name == SCENARIO:  # YAML also folds lines inside of paths
        reading.convert(scenario, Scenario, "").save(file)
    elif file.suffix in _TEXTS:
        file.write_text(_as_there(file.read_text(), root))
    elif file.suffix == ".parquet":
        table = pyarrow.parquet.read_table(file)
        for number, column in enumerate(table.schema):
            if pa.types.is_string(column.type):
                reported = pyarrow.compute.replace_substring(table[column.name], str(root), "")
                table = table.set_column(number, column, reported)
        pyarrow.parquet.write_table(table, file)
