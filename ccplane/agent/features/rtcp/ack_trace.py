"""Recorded ACKs of a flow for R-TCP's detector: CSV files, plain or compressed with gzip.

Columns, in any order: `ev` (S: a transfer starts; A: an ACK), `time_us`, `delivered`, `lost`, `min_rtt_us`
(may be empty in `S` rows). Other columns that recorders write (`acked_bytes`, `app_limited`,
`prior_delivered`, `srtt_us`, `inflight`) are ignored: R-TCP's detector does not need them.
"""

from __future__ import annotations

import csv
import gzip
import zlib
from collections.abc import Iterator, Sequence
from operator import itemgetter
from pathlib import Path
from typing import IO, Final

from ccp_algs.rtcp import Progress
from ccplane.base.errors import UsageError

START: Final = "S"
ACK: Final = "A"
COLUMNS: Final = ("ev", "time_us", "delivered", "lost", "min_rtt_us")


def read_ack_trace(path: Path) -> Iterator[tuple[str, Progress]]:
    """Yield START or ACK with the counters of each row.

    Args:
        path: The file; decompressed if its name ends in `.gz`.

    Raises:
        UsageError: `trace.not_readable`, or `trace.bad_row` with the line.
    """
    for event, numbers in read_ack_rows(path):
        yield event, Progress(*numbers)


def read_ack_rows(path: Path, columns: Sequence[str] = COLUMNS) -> Iterator[tuple[str, list[int]]]:
    """Yield START or ACK with the numbers in these columns of each row.

    Args:
        path: As for `read_ack_trace`.
        columns: `ev`, and columns of numbers; in `S` rows, numbers after the first three may be empty.

    Raises:
        UsageError: As `read_ack_trace`.
    """
    try:
        with _open(path) as file:
            yield from _rows(csv.reader(file, skipinitialspace=True), columns, str(path))
    except (OSError, EOFError, UnicodeDecodeError, zlib.error, csv.Error) as error:
        why = error.strerror if isinstance(error, OSError) else ""
        raise UsageError(
            "trace.not_readable",
            f"cannot read the trace {path}",
            str(path),
            why or str(error),
            "give a CSV file with a header line; the name of a compressed file must end in .gz",
        ) from error


def _open(path: Path) -> IO[str]:
    if path.suffix == ".gz":
        return gzip.open(path, "rt", newline="", encoding="utf-8-sig")
    return path.open(newline="", encoding="utf-8-sig")


def _rows(reader: Iterator[list[str]], columns: Sequence[str], where: str) -> Iterator[tuple[str, list[int]]]:
    header = [name.strip() for name in next(reader, [])]
    missing = [name for name in columns if name not in header]
    if missing:
        raise UsageError(
            "trace.bad_row",
            f"the trace lacks the columns {', '.join(missing)}",
            f"{where}, line 1",
            f"the header line names {', '.join(header) or 'no columns'}",
            f"the trace needs at least the columns {','.join(columns)}",
        )
    pick = itemgetter(*(header.index(name) for name in columns))
    before_us = 0
    for line, row in enumerate(reader, start=2):
        if not row:
            continue
        try:
            event, *texts = pick(row)
            if event == START:
                texts[3:] = [text.strip() or "0" for text in texts[3:]]
            numbers = [int(text) for text in texts]
        except (ValueError, IndexError) as error:
            raise _bad(where, line, str(error), "give whole numbers") from None
        if event not in (START, ACK):
            raise _bad(where, line, f"ev is `{event}`", "write S at the start of a transfer, A for an ACK")
        if numbers[0] < before_us:
            raise _bad(where, line, f"time_us goes backwards from {before_us}", "sort the rows by time")
        before_us = numbers[0]
        yield event, numbers


def _bad(where: str, line: int, why: str, fix: str) -> UsageError:
    return UsageError("trace.bad_row", "a row of the trace is not valid", f"{where}, line {line}", why, fix)
