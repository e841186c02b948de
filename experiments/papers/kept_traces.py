"""Files of generated traces for papers' networks; runs name these files, so each has a fixed place."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from experiments.netlab.cellular import Cellular, draw, write_trace

_TRACES: Final = Path(__file__).parents[2] / ".cache" / "traces"


def trace_file(name: str, link: Cellular, duration_s: float, seed: int) -> Path:
    """Return the file of a trace; write the file if it is missing or differs.

    Raises:
        LabError: `lab.bad_value`, if it cannot be written.
    """
    file = _TRACES / f"{name}.down"
    times_ms = draw(link, duration_s, seed)
    if not file.exists() or file.read_text().split() != [str(one) for one in times_ms]:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_trace(file, times_ms)
    return file
