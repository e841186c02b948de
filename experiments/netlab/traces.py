"""Traces of links with varying rates, in Mahimahi's format.

Each line is an opportunity to send 1,500 bytes: its time in ms since the start, ascending. Several lines may
have the same time. After the last line's time the trace repeats (Netravali et al., Mahimahi, USENIX ATC 2015;
man page of `mm-link`).
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Final

from experiments.netlab.errors import LabError, bad_value

_MAX_DIGITS: Final = 15


def read_trace(file: str | Path, where: str) -> list[int]:
    """Return the times of a trace's opportunities [ms].

    Raises:
        LabError: `lab.bad_value`, if the file cannot be read or is not a valid trace.
    """
    try:
        lines = Path(file).read_text().split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise bad_value(
            f"cannot read the trace {file}: {error}", where, "give the path of a trace"
        ) from error
    while lines and not lines[-1].strip():
        lines.pop()
    times_ms = []
    for number, line in enumerate(lines, 1):
        if not line.strip().isdecimal() or len(line) > _MAX_DIGITS:
            raise _no_trace(f"{line.strip()[:40]!r} is not a time in whole ms", f"{file}:{number}")
        times_ms.append(int(line))
    for number, (earlier, later) in enumerate(itertools.pairwise(times_ms), 2):
        if later < earlier:
            raise _no_trace(f"times must ascend: {later} ms follows {earlier} ms", f"{file}:{number}")
    if not times_ms or times_ms[-1] == 0:
        raise _no_trace("the last time must be above 0: after it the trace repeats", str(file))
    return times_ms


def _no_trace(message: str, where: str) -> LabError:
    return bad_value(message, where, "give a Mahimahi trace: ascending times in ms, one per line")
