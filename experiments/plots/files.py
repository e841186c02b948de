"""Figures as files."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

from experiments.metrics import MetricError
from experiments.plots import style

FORMATS = ("png", "svg", "pdf")


def format_of(path: Path) -> str:
    """Return the format of a figure's file, by its suffix.

    Raises:
        MetricError: `plot.format`, for an unsupported format.
    """
    kind = path.suffix.removeprefix(".")
    if kind not in FORMATS:
        raise MetricError(
            "plot.format", f"unsupported format of a figure: `{kind}`", str(path), fix="use png, svg or pdf"
        )
    return kind


def save(figure: Figure, path: Path) -> Path:
    """Write a figure to a file; create the directory if needed.

    Args:
        figure: The figure.
        path: The file; its suffix determines the format: png, svg or pdf. When written by root, the file gets
            the owner of its directory. Equal figures give equal files.

    Returns:
        The path.

    Raises:
        MetricError: `plot.format`, for an unsupported format.
        OSError: If the file cannot be written.
    """
    kind = format_of(path)
    made = [parent for parent in (path.parent, *path.parent.parents) if not parent.exists()]
    path.parent.mkdir(parents=True, exist_ok=True)
    # No date, so that equal figures give equal files.
    metadata = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind)
    with style.styled():
        figure.savefig(path, dpi=style.DPI, format=kind, metadata=metadata)
    if os.geteuid() == 0:
        around = (made[-1] if made else path).absolute().parent.stat()
        for one in (*made, path):
            os.chown(one, around.st_uid, around.st_gid)
    return path


def as_svg(figure: Figure) -> bytes:
    """Return a figure as SVG; equal figures give equal bytes."""
    out = io.BytesIO()
    with style.styled():
        figure.savefig(out, format="svg", metadata={"Date": None})
    return out.getvalue()


def save_as(figure: Figure, directory: Path, name: str, formats: Sequence[str]) -> list[Path]:
    """Write a figure in several formats; return the files.

    Args:
        figure: The figure.
        directory: Target directory.
        name: Name of the files, without suffix.
        formats: Suffixes.

    Raises:
        MetricError: As in `save`.
        OSError: If a file cannot be written.
    """
    return [save(figure, directory / f"{name}.{kind}") for kind in formats]
