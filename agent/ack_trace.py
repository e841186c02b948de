"""Recorded ACKs of a flow for R-TCP's detector: CSV, plain or compressed with gzip.

Columns, in any order: `ev` (S: a transfer starts; A: an ACK), `time_us`, `delivered`, `lost`, `min_rtt_us`
(in rows of a start it may be empty). Others that recorders write (`acked_bytes`, `app_limited`,
`prior_delivered`, `srtt_us`, `inflight`) are passed over: the detector needs none of them.
"""

from __future__ import annotations

import csv
import gzip
import zlib
from collections.abc import Iterator
from operator import itemgetter
from pathlib import Path
from typing import IO, Final

from ccp_algs.rtcp import Progress
from datapath.errors import UsageError

START: Final = "S"
ACK: Final = "A"
COLUMNS: Final = ("ev", "time_us", "delivered", "lost", "min_rtt_us")


def read_ack_trace(path: Path) -> Iterator[tuple[str, Progress]]:
    """Yield START or ACK with the counters, row by row.

    Args:
        path: The file; one that ends in `.gz` is decompressed.

    Raises:
        UsageError: `trace.not_readable`, or `trace.bad_row` with the line.
    """
    try:
        with _open(path) as file:
            yield from _rows(csv.reader(file, skipinitialspace=True), str(path))
    except (OSError, EOFError, UnicodeDecodeError, zlib.error, csv.Error) as error:
        why = error.strerror if isinstance(error, OSError) else ""
        raise UsageError(
            "trace.not_readable",
            f"the trace {path} cannot be read",
            str(path),
            why or str(error),
            "give a CSV file with a header line; if it is compressed, its name ends in .gz",
        ) from error


def _open(path: Path) -> IO[str]:
    if path.suffix == ".gz":
        return gzip.open(path, "rt", newline="", encoding="utf-8-sig")
    return path.open(newline="", encoding="utf-8-sig")


def _rows(reader: Iterator[list[str]], where: str) -> Iterator[tuple[str, Progress]]:
    header = [name.strip() for name in next(reader, [])]
    missing = [name for name in COLUMNS if name not in header]
    if missing:
        raise UsageError(
            "trace.bad_row",
            f"there is no column {', '.join(missing)}",
            f"{where}, line 1",
            f"the header has {', '.join(header) or 'nothing'}",
            f"name at least the columns {','.join(COLUMNS)}",
        )
    pick = itemgetter(*(header.index(name) for name in COLUMNS))
    before_us = 0
    for line, row in enumerate(reader, start=2):
        if not row:
            continue
        try:
            event, time_us, delivered, lost, min_rtt_us = pick(row)
            if event == START:
                min_rtt_us = min_rtt_us.strip() or "0"
            now = Progress(int(time_us), int(delivered), int(lost), int(min_rtt_us))
        except (ValueError, IndexError) as error:
            raise _bad(where, line, str(error), "give whole numbers") from None
        if event not in (START, ACK):
            raise _bad(where, line, f"ev is `{event}`", "S where a transfer starts, A for an ACK")
        if now.time_us < before_us:
            raise _bad(where, line, f"time_us goes back from {before_us}", "put the rows in their order")
        before_us = now.time_us
        yield event, now


def _bad(where: str, line: int, why: str, fix: str) -> UsageError:
    return UsageError("trace.bad_row", "a row of the trace cannot be", f"{where}, line {line}", why, fix)
