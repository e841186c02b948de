"""`ccp experiment examples` and `notebook`: copies of the scenarios and notebooks that come with ccplane."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Final

import typer

from ccplane.base.extras import extra_part
from experiments.errors import ResultError
from experiments.writing import cannot_write

KINDS: Final = {"scenarios": "*.yaml", "notebooks": "*.ipynb"}
"""Folder next to this module -> its files."""


def copied(folder: Path) -> list[tuple[Path, bool]]:
    """Copy the scenarios and notebooks into a folder; files that exist are left alone.

    Returns:
        Each file, and whether it was written.

    Raises:
        ResultError: `result.cannot_write`.
    """
    found = []
    try:
        for kind, pattern in KINDS.items():
            (folder / kind).mkdir(parents=True, exist_ok=True)
            for file in sorted((Path(__file__).parent / kind).glob(pattern)):
                target = folder / kind / file.name
                is_new = not target.exists()
                if is_new:
                    target.write_bytes(file.read_bytes())
                found.append((target, is_new))
    except OSError as error:
        raise cannot_write(Path(error.filename or folder), error, "choose another folder") from error
    return found


def examples(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Folder for the copies; created if missing.")
    ] = Path("examples"),
) -> None:
    """Copy the scenarios and notebooks that come with ccplane. Existing files are left alone."""
    for file, is_new in copied(folder):
        typer.echo(f"{file}{'' if is_new else '  (left alone: it exists)'}")


def notebook_file(name: str, folder: Path) -> Path:
    """Copy the scenarios and notebooks into a folder, and return one of the notebooks.

    Raises:
        ResultError: `result.cannot_write`, `result.no_notebook`.
    """
    names = {file.stem: file for file, _ in copied(folder) if file.suffix == ".ipynb"}
    file = names.get(name.removesuffix(".ipynb"))
    if file is None:
        raise ResultError(
            "result.no_notebook",
            f"ccplane comes with no notebook `{name}`",
            name,
            "a wheel has fewer notebooks than a clone of the repository",
            f"choose one of {', '.join(sorted(names))}",
        )
    return file


def notebook(
    name: Annotated[str, typer.Argument(help="Notebook, such as quickstart or hyvar.")] = "quickstart",
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="OPTION", help="Options of JupyterLab, after `--`.")
    ] = None,
    folder: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Folder for the copies; existing files are left alone.")
    ] = Path("examples"),
) -> None:
    """Copy the notebooks that come with ccplane, and open one in JupyterLab, until Ctrl-C."""
    with extra_part():
        import jupyterlab  # noqa: F401  # before anything is copied
    file = notebook_file(name, folder)
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, "-m", "jupyterlab", str(file), *(arguments or ())])
