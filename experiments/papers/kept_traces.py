"""Traces that papers' networks are drawn with, as files: runs name them, so each lies at one place."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from experiments.netlab.cellular import Cellular, draw, write_trace

_TRACES: Final = Path(__file__).parents[2] / ".cache" / "traces"


def trace_file(name: str, link: Cellular, duration_s: float, seed: int) -> Path:
    """Return the file of a trace; it is written if it is not there, or another.

    Args:
        name: Of the file, without its ending.
        link: What it is drawn from.
        duration_s: Its length [s].
        seed: Of the draw.

    Raises:
        LabError: `lab.bad_value`, if it cannot be written.
    """
    file = _TRACES / f"{name}.down"
    times_ms = draw(link, duration_s, seed)
    if not file.exists() or file.read_text().split() != [str(one) for one in times_ms]:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_trace(file, times_ms)
    return file
