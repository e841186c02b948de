"""Recorded series for the detector: CSV with the columns `t_s, rtt_tail_ms, ce_marks, retransmits`.

The observation's other fields, such as `rtt_min_ms`, are optional columns. An empty field is a missing
sample. Other columns are ignored, and columns may have any order.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from telemetry.regime.detector import Observation
from telemetry.regime.errors import RegimeError

COLUMNS: Final = ("t_s", "rtt_tail_ms", "ce_marks", "retransmits")
"""Required columns."""


def read_trace(path: Path) -> Iterator[Observation]:
    """Read a series, row by row.

    Raises:
        RegimeError: `regime.cannot_read`, or `regime.bad_trace` with the line.
    """
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            yield from _rows(csv.DictReader(file, skipinitialspace=True), str(path))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise RegimeError(
            "regime.cannot_read",
            f"cannot read the series in {path}",
            str(path),
            why or str(error),
            "give a CSV file with a header line",
        ) from error


def _rows(reader: csv.DictReader[str], where: str) -> Iterator[Observation]:
    header = [(name or "").strip() for name in reader.fieldnames or ()]
    reader.fieldnames = header
    missing = [name for name in COLUMNS if name not in header]
    if missing:
        raise RegimeError(
            "regime.bad_trace",
            f"missing column {', '.join(missing)}",
            f"{where}, line 1",
            f"the header line names {', '.join(header) or 'no columns'}",
            f"name the columns {','.join(COLUMNS)}; leave a field empty where a sample is missing",
        )
    for row in reader:
        line = f"{where}, line {reader.line_num}"
        seen = {name: _number(row.get(name), name, line) for name in Observation.__struct_fields__}
        t_s = seen.pop("t_s")
        if t_s is None:
            raise _bad("t_s", "", line, "each row needs a time")
        yield Observation(t_s=t_s, **seen)


def _number(text: str | None, name: str, line: str) -> float | None:
    text = (text or "").strip()
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        raise _bad(name, text, line, "it is not a number") from None
    if not math.isfinite(value):
        raise _bad(name, text, line, "it is not finite")
    if value < 0 and name != "t_s":
        raise _bad(name, text, line, "it is below 0")
    return value


def _bad(name: str, text: str, line: str, why: str) -> RegimeError:
    fix = "leave the field empty where a sample is missing"
    return RegimeError("regime.bad_trace", f"invalid {name}: `{text}`", line, why, fix)
