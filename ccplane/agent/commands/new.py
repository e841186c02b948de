"""`ccp new`: a file to begin an algorithm with."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ccp_algs import example_aimd, registry
from ccplane.base import options
from ccplane.base.errors import UsageError

app = typer.Typer(add_completion=False)

_ADVICE = " Copy this file to begin\nyour own."
_IMPORTS = "from ccp_algs import Algorithm, Param, register\nfrom ccp_algs.api import FlowInfo\n"
_FOR_USERS = "from ccplane import Algorithm, FlowInfo, Param, register\n"


def for_users(text: str) -> str:
    """Return the source of a shipped algorithm as users write it: with imports only from `ccplane`."""
    return text.replace(_IMPORTS, _FOR_USERS).replace("from ccp_algs.fold import", "from ccplane.fold import")


def text_for(name: str) -> str:
    """Return the example algorithm under another name, as the source of a file."""
    title = "".join(part.capitalize() for part in name.split("_"))
    text = for_users(Path(example_aimd.__file__).read_text(encoding="utf-8")).replace(_ADVICE, "")
    return text.replace("Aimd", title).replace('"aimd"', f'"{name}"')


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
    typer.echo(f"wrote {path}; next: ccp check {path}, then sudo ccp run {path} --reload")
