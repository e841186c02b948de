"""`ccp new`: a file to start an algorithm from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ccp_algs import example_aimd, registry
from ccplane.base.errors import UsageError

_ADVICE = " Copy this file to begin\nyour own."
_IMPORTS = "from ccp_algs import Algorithm, Param, register\nfrom ccp_algs.api import FlowInfo\n"
_FOR_USERS = "from ccplane import Algorithm, FlowInfo, Param, register\n"


def for_users(text: str) -> str:
    """Return the source of a shipped algorithm as users write it: with names from `ccplane` alone."""
    return text.replace(_IMPORTS, _FOR_USERS).replace("from ccp_algs.fold import", "from ccplane.fold import")


def text_for(name: str) -> str:
    """Return the example algorithm under another name, as the source of a file."""
    title = "".join(part.capitalize() for part in name.split("_"))
    text = for_users(Path(example_aimd.__file__).read_text(encoding="utf-8")).replace(_ADVICE, "")
    return text.replace("Aimd", title).replace('"aimd"', f'"{name}"')


def new(
    name: Annotated[str, typer.Argument(help="Name: at most 11 of a-z, 0-9 and _.")],
    directory: Annotated[Path, typer.Option("--in", help="Directory of the file.")] = Path(),
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file.")] = False,
) -> None:
    """Write NAME.py, a working algorithm to change."""
    if not (name.isascii() and name.isidentifier() and name == name.lower() and len(name) <= 11):
        raise UsageError(
            "algorithm.bad_name",
            f"an algorithm cannot be called `{name}`",
            why="it is a Python module, and sockets choose it as `ccp.NAME`; the kernel takes 15 characters",
            fix="use at most 11 lower-case letters, digits and underscores, the first a letter",
        )
    if name in registry.names() and not force:
        raise UsageError(
            "algorithm.exists",
            f"there is an algorithm `{name}` already",
            why="yours could be run by its path only, and results would have the same name",
            fix="choose another name, or use --force",
        )
    path = directory / f"{name}.py"
    if path.exists() and not force:
        raise UsageError(
            "algorithm.file_exists",
            f"{path} exists",
            fix="choose another name or directory, or overwrite it with --force",
        )
    if not directory.is_dir():
        raise UsageError(
            "algorithm.no_directory",
            f"there is no directory {directory}",
            fix=f"make it: mkdir -p {directory}",
        )
    path.write_text(text_for(name), encoding="utf-8")
    typer.echo(f"wrote {path}; next: ccp check {path}, then sudo ccp run {path} --reload")
