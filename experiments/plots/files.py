"""Figures as files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

from experiments.metrics import MetricError
from experiments.plots import style

FORMATS = ("png", "svg", "pdf")


def save(figure: Figure, path: Path) -> Path:
    """Write a figure, into a directory that is made if need be.

    Args:
        figure: The figure.
        path: The file; its ending is the format: png, svg or pdf. Run by root, it belongs to whom the
            directory around it belongs. The same figure makes the same file.

    Returns:
        The path.

    Raises:
        MetricError: `plot.format`, if that is no format of figures.
        OSError: If it cannot be written.
    """
    kind = path.suffix.removeprefix(".")
    if kind not in FORMATS:
        raise MetricError(
            "plot.format", f"`{kind}` is no format of figures", str(path), fix="png, svg or pdf"
        )
    made = [parent for parent in (path.parent, *path.parent.parents) if not parent.exists()]
    path.parent.mkdir(parents=True, exist_ok=True)
    # Files that are the same for the same figure carry no date.
    metadata = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind)
    with style.styled():
        figure.savefig(path, dpi=style.DPI, format=kind, metadata=metadata)
    if os.geteuid() == 0:
        around = (made[-1] if made else path).absolute().parent.stat()
        for one in (*made, path):
            os.chown(one, around.st_uid, around.st_gid)
    return path


def save_as(figure: Figure, directory: Path, name: str, formats: Sequence[str]) -> list[Path]:
    """Write a figure in several formats.

    Args:
        figure: The figure.
        directory: Where.
        name: Of the files, without ending.
        formats: Endings.

    Returns:
        The files.

    Raises:
        MetricError: As `save`.
        OSError: If one cannot be written.
    """
    return [save(figure, directory / f"{name}.{kind}") for kind in formats]
