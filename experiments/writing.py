"""Writing files that a user asked for: their names, and one error if that fails."""

from __future__ import annotations

from pathlib import Path

from experiments.errors import ResultError


def write_text(file: Path, text: str, fix: str) -> Path:
    """Write a text to a file, whose folder is created if it is missing, and return the file.

    Args:
        file: The file.
        text: Its content.
        fix: What to do if it cannot be written.

    Raises:
        ResultError: `result.cannot_write`.
    """
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise cannot_write(file, error, fix) from error
    return file


def cannot_write(out: Path, error: OSError, fix: str = "choose another directory with --out") -> ResultError:
    """Return the error for a file or directory of results that cannot be written."""
    return ResultError(
        "result.cannot_write", f"cannot write to {out}", str(out), error.strerror or str(error), fix
    )


def file_name(name: str) -> str:
    """Return a name in which all characters that do not suit a folder are replaced."""
    return "".join(one if one.isalnum() or one in "-_." else "-" for one in name)
