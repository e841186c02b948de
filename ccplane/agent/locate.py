"""Finds the text of a fold program in its Python file, so that errors can give the line."""

from __future__ import annotations

import ast
import functools
import inspect
import linecache
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Origin:
    """The place where a text begins.

    Attributes:
        file: Path, or a name in angle brackets if there is no file.
        first_line: Line of the text's first line in `file`, counted from 1.
    """

    file: str
    first_line: int


def locate(owner: type, text: str) -> Origin:
    """Find the string literal of a fold program.

    Only white space may differ (`textwrap.dedent`, `strip`). A literal in the class takes precedence over one
    elsewhere in the module. The origin of a text that was built at run time is the class.
    """
    nowhere = Origin(f"<{owner.__module__}.{owner.__qualname__}>", 1)
    try:
        file = inspect.getsourcefile(owner)
        lines, class_line = inspect.getsourcelines(owner)
    except (TypeError, OSError):
        return nowhere
    if file is None:
        return nowhere
    wanted = text.split()
    class_lines = range(class_line, class_line + len(lines))
    best: int | None = None
    for literal in _literals(file):
        if literal.value.split() != wanted:
            continue
        line = literal.first_line + _blank_lines(literal.value) - _blank_lines(text)
        if literal.line in class_lines:
            return Origin(shown(file), line)
        best = line if best is None else best
    return nowhere if best is None else Origin(shown(file), best)


@dataclass(frozen=True, slots=True)
class _Literal:
    """A string literal: its value, the line of its opening quotes, and the line of its first character."""

    value: str
    line: int
    first_line: int


@functools.lru_cache(maxsize=32)
def _parsed(source: str) -> tuple[_Literal, ...]:
    try:
        return tuple(_walk(ast.parse(source), source.splitlines()))
    except (SyntaxError, ValueError):
        return ()


def _literals(file: str) -> tuple[_Literal, ...]:
    """Return the literals of a file, or of a text with this name in `linecache`."""
    linecache.checkcache(file)
    return _parsed("".join(linecache.getlines(file)))


def _walk(tree: ast.AST, lines: list[str]) -> Iterator[_Literal]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            first = node.lineno
            # A backslash directly after the opening quotes removes the line end from the value.
            while first <= len(lines) and lines[first - 1].rstrip().endswith(('"""\\', "'''\\")):
                first += 1
            yield _Literal(node.value, node.lineno, first)


def _blank_lines(text: str) -> int:
    """Return the number of line ends before the first character that is not white space."""
    return text[: len(text) - len(text.lstrip())].count("\n")


def shown(file: str) -> str:
    """Return the path relative to the working directory, if the file is below it."""
    path = Path(file)
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return file
