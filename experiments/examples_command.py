"""`ccp experiment examples`: copies of the scenarios and notebooks that come with ccplane."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from experiments.errors import ResultError

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
        raise ResultError(
            "result.cannot_write",
            f"cannot write the examples to {folder}",
            str(error.filename or folder),
            error.strerror or str(error),
            "choose another folder",
        ) from error
    return found


def examples(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Folder for the copies; created if missing.")
    ] = Path("examples"),
) -> None:
    """Copy the scenarios and notebooks that come with ccplane. Existing files are left alone."""
    for file, is_new in copied(folder):
        typer.echo(f"{file}{'' if is_new else '  (left alone: it exists)'}")
