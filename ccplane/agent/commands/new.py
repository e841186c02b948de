"""`ccp new`: a file to begin an algorithm with."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ccp_algs import registry
from ccplane.agent.commands.first import text_for
from ccplane.base import options
from ccplane.base.errors import UsageError

app = typer.Typer(add_completion=False)


@app.command(epilog=options.examples("ccp new mine", "ccp new mine -o algorithms"))
def new(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Name: at most 11 lower-case letters, digits and _.")
    ],
    out: Annotated[
        Path, options.out("Directory of the file.", metavar="DIRECTORY", show_default="current directory")
    ] = Path(),
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file.")] = False,
) -> None:
    """Write NAME.py, a working algorithm to edit."""
    if not (name.isascii() and name.isidentifier() and name == name.lower() and len(name) <= 11):
        raise UsageError(
            "algorithm.bad_name",
            f"`{name}` is not a valid name of an algorithm",
            why="the name must be usable as a Python module's name, and `ccp.NAME` may have 15 characters",
            fix="use at most 11 lower-case letters, digits and underscores, the first a letter",
        )
    if name in registry.names() and not force:
        raise UsageError(
            "algorithm.exists",
            f"an algorithm called `{name}` exists",
            why="a second algorithm of this name could only be run by its path, and results would mix the "
            "two algorithms",
            fix="choose another name, or use --force",
        )
    path = out / f"{name}.py"
    if path.exists() and not force:
        raise UsageError(
            "algorithm.file_exists",
            f"{path} exists",
            fix="choose another name or directory, or overwrite it with --force",
        )
    if not out.is_dir():
        raise UsageError(
            "algorithm.no_directory",
            f"there is no directory {out}",
            fix=f"create the directory: mkdir -p {out}",
        )
    path.write_text(text_for(name), encoding="utf-8")
    typer.echo(f"wrote {path}; next: ccp check {path}, then ccp play {path}")
