"""Output of the command line: errors without tracebacks, and exit codes."""

from __future__ import annotations

import json
import time
import traceback
from typing import Any, Final

import typer

from ccplane.base import site
from ccplane.base.errors import CcpError, LoadError, Several
from ccplane.base.printable import printable

FAILED: Final = 1
"""Exit code: a request was invalid, or a check found errors."""

NOT_LOADED: Final = 2
"""Exit code: the datapath cannot be loaded or is not loaded."""


def problems(error: CcpError) -> list[CcpError]:
    """Return the individual problems of an error."""
    return list(error.errors) if isinstance(error, Several) else [error]


def exit_code(error: CcpError) -> int:
    """Return the exit code for an error."""
    return NOT_LOADED if isinstance(error, LoadError) else FAILED


def show_error(error: CcpError, *, debug: bool) -> None:
    """Print an error to stderr: on one line if the datapath cannot be loaded, else with where, why and fix.

    Args:
        error: What to print.
        debug: Also print the traceback.
    """
    if debug:
        typer.echo(printable("".join(traceback.format_exception(error)), keep="\n\t"), err=True, nl=False)
    for problem in problems(error):
        text = one_line(problem) if isinstance(problem, LoadError) else str(problem)
        typer.echo(printable(text, keep="\n\t"), err=True)


def one_line(problem: CcpError) -> str:
    """Return an error as one line."""
    parts = [f"{problem.slug}: {problem.message}"]
    if problem.where:
        parts.append(f" at {problem.where}")
    if problem.why:
        parts.append(f" ({problem.why})")
    if problem.fix:
        parts.append(f"; {problem.fix}")
    if more := site.page_of(problem.slug):
        parts.append(f"; more: {more}")
    return "".join(parts).replace("\n", " ")


def clock(t_wall_s: float) -> str:
    """Return the local time of day for a wall-clock time [s]."""
    return time.strftime("%H:%M:%S", time.localtime(t_wall_s))


def print_json(value: Any) -> None:
    """Print a JSON document to stdout."""
    typer.echo(json.dumps(value, indent=2))
