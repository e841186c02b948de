"""Files that a scenario uses (algorithms and traces): their paths and contents."""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib.util
import inspect
import json
import os
from collections.abc import Callable, Mapping
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ccp_algs import siblings
from ccplane.agent.algorithms import find
from experiments.errors import ScenarioError
from experiments.runs import reading
from experiments.runs.check import is_own
from experiments.runs.shapes import Graph

if TYPE_CHECKING:
    from experiments.scenario import Scenario

_ROOT: Final = Path(__file__).parents[2]

_FILE_FIELDS: Final = ("algorithm", "becomes", "single", "shared", "trace")
"""Fields that may hold the path of a file, anywhere in a scenario."""


def resolved(raw: Any, directory: Path) -> Any:
    """Return a scenario's plain data with absolute paths of files."""

    def in_directory(name: str, value: str) -> str:
        if name != "trace" and not value.partition(":")[0].endswith(".py"):
            return value
        return os.path.normpath((directory / value).absolute())

    return with_files(raw, in_directory)


def absolute(algorithm: str) -> str:
    """Return an algorithm's name; `FILE.py` and `FILE.py:Class` with the absolute path of the file."""
    file, colon, member = algorithm.partition(":")
    return f"{Path(file).resolve()}{colon}{member}" if file.endswith(".py") else algorithm


def with_files(raw: Any, change: Callable[[str, str], Any]) -> Any:
    """Return a scenario's plain data with fields that may name a file replaced."""
    if isinstance(raw, Mapping):
        return {
            name: change(name, value)
            if name in _FILE_FIELDS and isinstance(value, str)
            else value
            if name == "params"
            else with_files(value, change)
            for name, value in raw.items()
        }
    if isinstance(raw, list | tuple):
        return [with_files(one, change) for one in raw]
    return raw


def content(name: str, value: str) -> Any:
    """Return the value that a scenario's hash uses instead of a field that may name a file.

    Raises:
        ScenarioError: `scenario.no_file`, for a trace.
        UsageError: If the algorithm does not exist.
    """
    if name == "trace":
        return file_hash(Path(value), "trace")
    return [_label(value), source_hash(value)] if is_own(value) else value


def content_hash(scenario: Scenario, content: Callable[[str, str], Any] = content) -> str:
    """Return the hash of a scenario; see `Scenario.content_hash`.

    Args:
        scenario: The scenario.
        content: The function of that name; pass a cached one to hash many scenarios while no file changes.
    """
    graph = scenario.replace(topology=Graph.of(scenario.network))
    canonical = {
        "ccplane": _version(),
        # With all defaults, so that writing them out makes no difference.
        "scenario": with_files(reading.full(graph), content),
    }
    return hashlib.sha256(json.dumps(canonical, sort_keys=True).encode()).hexdigest()


@functools.cache
def _version() -> str:
    return metadata.version("ccplane")


def _label(algorithm: str) -> str:
    path, colon, name = algorithm.partition(":")
    return Path(path).name + colon + name if path.endswith(".py") else algorithm


def source_hash(algorithm: str) -> str:
    """Return the hash of an algorithm's sources, including its imports of ccplane's algorithms.

    Raises:
        UsageError: If the algorithm does not exist.
    """
    digest = hashlib.sha256()
    found = sources(algorithm)
    if ":" in algorithm or algorithm.endswith(".py") or not all(map(is_of_ccplane, found)):
        # Sort by name and content: the order of paths may differ between machines.
        found.sort(key=lambda path: (path.name, path.read_bytes()))
    for path in found:
        digest.update(f"{path.name}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()


def sources(algorithm: str) -> list[Path]:
    """Return the files of an algorithm: its classes' modules, their imports, and its other dependencies.

    Imports are followed to files next to the module and to ccplane's algorithms.

    Raises:
        UsageError: If the algorithm does not exist.
    """
    cls = find(algorithm)
    found: dict[Path, None] = {}
    for base in cls.__mro__:
        try:
            file = inspect.getsourcefile(base)
        except (TypeError, OSError):  # builtins, and classes created at run time
            continue
        if file is not None:
            _follow(Path(file), base.__module__, found)
    found |= dict.fromkeys(path for path in cls.depends_on if path.is_file())
    package = siblings.package_of(cls)
    if package is not None:
        for name, digest in package.seen.items():
            if digest is not None and (path := Path(name)).is_file():
                found[path] = None
    return sorted(found)


def is_of_ccplane(path: Path) -> bool:
    """Return whether a file is in one of ccplane's packages."""
    return path.is_relative_to(_ROOT) and path.relative_to(_ROOT).parts[0] in siblings.OWN


def _follow(file: Path, module: str, found: dict[Path, None]) -> None:
    if file in found or not file.is_file():
        return
    found[file] = None
    roots = {module.partition(".")[0], "ccp_algs"}
    for name in _imports(file.read_text(), module, file.name == "__init__.py"):
        if name.partition(".")[0] in roots and (origin := _origin(name)) is not None:
            _follow(origin, name, found)


@functools.lru_cache(maxsize=256)  # a grid asks for the same files at every point
def _imports(text: str, module: str, is_package: bool) -> tuple[str, ...]:
    """Return the modules that a source file imports, `from package import module` included."""
    package = module if is_package else module.rpartition(".")[0]
    found: list[str] = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*parents, base] if base else parents)
            found += [base, *(f"{base}.{alias.name}" for alias in node.names)]
    return tuple(found)


def _origin(module: str) -> Path | None:
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError, AttributeError):  # a name in a module, not a module
        return None
    return Path(spec.origin) if spec is not None and spec.origin and spec.origin.endswith(".py") else None


def file_hash(path: Path, field: str) -> str:
    """Return the hash of a file.

    Raises:
        ScenarioError: `scenario.no_file`.
    """
    return hashlib.sha256(content_of(path, field)).hexdigest()


def content_of(path: Path, field: str) -> bytes:
    """Return the content of a file.

    Raises:
        ScenarioError: `scenario.no_file`.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        raise ScenarioError(
            "scenario.no_file", f"cannot read {path}", field, error.strerror or str(error), "check the path"
        ) from error
