"""Recordings of links in public formats, converted to the lab's traces.

The format is found by the first line:

| first line | data set | rate |
| --- | --- | --- |
| one whole number | Mahimahi, Pantheon | as in `traces` |
| two numbers | Pensieve (Mao et al., SIGCOMM 2017) | Mbit/s |
| `Timestamp`, ..., `DL_bitrate` | Raca et al., MMSys 2018 (4G) and MMSys 2020 (5G) | kbit/s |
| `run_num`, `seq_num`, ..., `Throughput` | Lumos5G 1.0 (Narayanan et al., IMC 2020) | Mbit/s |
| `seq_num`, ..., `throughput_mbps` | 5Gophers 1.0 (Narayanan et al., WWW 2020) | Mbit/s |
| `time`, `throughput`, ... | Hu et al., CoNEXT Companion 2023: Starlink and cellular operators | Mbit/s |
| `time`, `rate` | any CSV; or `rate_mbit`, `rate_kbit`, `rate_bytes_per_s` | Mbit/s, or as named |

Times are in s, or date and time. A rate holds until the time of the next line; the last one as long as the
line before. Lines with the same time count by their mean, lines without a rate (empty or `-`) not at all.
Where the time jumps by more than ten seconds, or `run_num` changes, another run begins.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from experiments.netlab.cellular import OPPORTUNITY_BYTES
from experiments.netlab.errors import bad_value
from experiments.netlab.mobile import MAX_OPPORTUNITIES
from experiments.netlab.traces import read_trace
from experiments.units import MBIT

MAX_FILE_BYTES: Final = 256 << 20
"""Maximum size of a recording."""
PAUSE_S: Final = 10.0
"""Jump of the time, forward or back, that ends a run [s]."""

_TIMES: Final = ("timestamp", "time", "time_s", "seq_num")
"""Columns with the time; the first one that exists counts."""
_RATES: Final = {
    "dl_bitrate": MBIT / 1000,
    "throughput": MBIT,
    "throughput_mbps": MBIT,
    "rate": MBIT,
    "rate_mbit": MBIT,
    "rate_kbit": MBIT / 1000,
    "rate_bytes_per_s": 1.0,
}
"""Columns with the rate, and their units [bytes/s]."""
_RUN: Final = "run_num"
_STAMPS: Final = ("%Y.%m.%d_%H.%M.%S", "%Y-%m-%d %H:%M:%S")
_UNKNOWN: Final = ("", "-")
_MAX_NUMBER: Final = 1e12
_FIX: Final = (
    "give a Mahimahi trace, a CSV file with the columns `time` (in s) and `rate` (in Mbit/s), or a recording "
    "of a data set in docs/netlab.md"
)


@dataclass(frozen=True)
class Sample:
    """A line of a recording.

    Attributes:
        number: Its number in the file, from 1.
        run: Run that it belongs to, as in the file; empty if the file names none.
        time_s: Its time [s].
        rate_bytes_per_s: The rate from then on [bytes/s].
    """

    number: int
    run: str
    time_s: float
    rate_bytes_per_s: float


def read_recording(file: Path, run: int = 1, mean_bytes_per_s: float | None = None) -> NDArray[np.int64]:
    """Return the opportunities of a recording [ms].

    Args:
        file: The recording.
        run: Run to take, from 1, of a file with several.
        mean_bytes_per_s: Mean rate to scale the recording to [bytes/s]; None for the recorded one.

    Returns:
        Times, shape (n,), ascending; the last one is the end of the trace.

    Raises:
        LabError: `lab.bad_value`, if the file cannot be read, or its content is none of the formats.
    """
    text = _text(file)
    first = next((line for line in text.splitlines() if line.strip()), "").strip()
    if first.isdecimal():
        if run != 1:
            raise bad_value("a Mahimahi trace has one run", str(file), "leave out --run")
        times = np.array(read_trace(file, str(file)), np.int64)
        if mean_bytes_per_s is None:
            return times
        # Between two opportunities the rate is constant.
        return _opportunities(
            np.concatenate(([0.0], times / 1e3)),
            np.arange(len(times) + 1.0) * OPPORTUNITY_BYTES,
            mean_bytes_per_s,
            str(file),
        )
    runs = _runs(_samples(text, first, str(file)), str(file))
    if not 1 <= run <= len(runs):
        raise bad_value(f"there is no run {run}", str(file), f"give --run from 1 to {len(runs)}")
    times_s, sent_bytes = _sums(runs[run - 1])
    return _opportunities(times_s, sent_bytes, mean_bytes_per_s, str(file))


def _text(file: Path) -> str:
    fix = "give the path of a recording"
    try:
        if file.stat().st_size > MAX_FILE_BYTES:
            raise bad_value(
                f"the recording is larger than {MAX_FILE_BYTES >> 20} MiB", str(file), "give a part of it"
            )
        return file.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise bad_value(f"cannot read the recording: {error.strerror}", str(file), fix) from error
    except UnicodeDecodeError as error:
        raise bad_value("the recording is not text", str(file), fix) from error


def _samples(text: str, first: str, where: str) -> Iterator[Sample]:
    """Yield the lines with a rate."""
    fields = first.split()
    if len(fields) == 2 and all(map(_is_number, fields)):
        for number, line in enumerate(text.splitlines(), 1):
            if line.strip():
                fields = line.split()
                if len(fields) != 2:
                    raise bad_value(f"{line[:40]!r} is not a time and a rate", f"{where}:{number}", _FIX)
                at = f"{where}:{number}"
                yield Sample(
                    number, "", _number(fields[0], "time", at), _number(fields[1], "rate", at) * MBIT
                )
        return
    reader = csv.reader(io.StringIO(text, newline=""))
    try:
        header = [name.strip().lower() for name in next(row for row in reader if row)]
        time_at, rate_at, unit = _columns(header, where)
        run_at = header.index(_RUN) if _RUN in header else None
        needed = max(time_at, rate_at, run_at or 0)
        for row in reader:
            at = f"{where}:{reader.line_num}"
            if not row:
                continue
            if len(row) <= needed:
                raise bad_value(f"the line has {len(row)} of {len(header)} columns", at, _FIX)
            if (rate := row[rate_at].strip()) in _UNKNOWN:
                continue
            yield Sample(
                reader.line_num,
                "" if run_at is None else row[run_at].strip(),
                _time(row[time_at].strip(), at),
                _number(rate, header[rate_at], at) * unit,
            )
    except StopIteration:
        raise bad_value("the recording is empty", where, _FIX) from None
    except csv.Error as error:
        raise bad_value(f"the line is not CSV: {error}", f"{where}:{reader.line_num}", _FIX) from error


def _columns(header: list[str], where: str) -> tuple[int, int, float]:
    """Return the columns of time and rate, and the unit of the rate [bytes/s]."""
    times = [header.index(name) for name in _TIMES if name in header]
    rates = [name for name in _RATES if name in header]
    missing = [what for what, found in (("time", times), ("rate", rates)) if not found]
    if missing:
        raise bad_value(f"the first line names no column with the {missing[0]}", f"{where}:1", _FIX)
    if len(rates) > 1:
        raise bad_value(
            f"several columns have a rate: {', '.join(rates)}", f"{where}:1", "remove all of them but one"
        )
    return times[0], header.index(rates[0]), _RATES[rates[0]]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _number(text: str, name: str, where: str) -> float:
    value = float(text) if _is_number(text) else math.nan
    if not 0 <= value <= _MAX_NUMBER:
        raise bad_value(
            f"`{name}` is {text[:40]!r}",
            where,
            f"give a number from 0 to {_MAX_NUMBER:g}, or leave the line out",
        )
    return value


def _time(text: str, where: str) -> float:
    """Return a time in seconds; dates and times without regard to their zone."""
    if _is_number(text):
        return _number(text, "time", where)
    for form in _STAMPS:
        try:
            return datetime.strptime(text[:19], form).timestamp()
        except (ValueError, OverflowError):
            continue
    raise bad_value(
        f"the time is {text[:40]!r}", where, "give seconds, or a time such as 2020-02-14 09:38:22"
    )


def _runs(samples: Iterator[Sample], where: str) -> list[list[Sample]]:
    """Return the samples of each run with two different times."""
    runs: list[list[Sample]] = []
    last: Sample | None = None
    for one in samples:
        if last is None or one.run != last.run or abs(one.time_s - last.time_s) > PAUSE_S:
            runs.append([])
        elif one.time_s < last.time_s:
            raise bad_value(
                f"times must ascend: {one.time_s:.15g} s follows {last.time_s:.15g} s",
                f"{where}:{one.number}",
                "sort the lines by their times",
            )
        runs[-1].append(one)
        last = one
    runs = [run for run in runs if run[-1].time_s > run[0].time_s]
    if not runs:
        raise bad_value("the recording has no two times with a rate", where, _FIX)
    return runs


def _sums(run: list[Sample]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return times from the start of a run [s], and what the link could have sent until then [bytes]."""
    times_s, which, counts = np.unique([one.time_s for one in run], return_inverse=True, return_counts=True)
    rates = np.bincount(which, [one.rate_bytes_per_s for one in run]) / counts
    steps_s = np.diff(times_s)
    steps_s = np.append(steps_s, steps_s[-1])
    ends_s = np.concatenate(([0.0], np.cumsum(steps_s)))
    return ends_s, np.concatenate(([0.0], np.cumsum(rates * steps_s)))


def _opportunities(
    times_s: NDArray[np.float64], sent_bytes: NDArray[np.float64], mean_bytes_per_s: float | None, where: str
) -> NDArray[np.int64]:
    """Return evenly spaced opportunities for a link that has sent some bytes by some times."""
    duration_ms = round(float(times_s[-1]) * 1e3)
    total = float(sent_bytes[-1])
    if mean_bytes_per_s is not None and total > 0:
        sent_bytes = sent_bytes * (mean_bytes_per_s * times_s[-1] / total)
        total = float(sent_bytes[-1])
    count = round(min(total / OPPORTUNITY_BYTES, 2.0 * MAX_OPPORTUNITIES))
    if not 1 <= count <= MAX_OPPORTUNITIES or duration_ms < 1:
        raise bad_value(
            f"the recording of {times_s[-1]:g} s carries {total:.3g} bytes; a trace takes "
            f"{OPPORTUNITY_BYTES} to {MAX_OPPORTUNITIES * OPPORTUNITY_BYTES:.3g}",
            where,
            "check the unit of the rate, give a part of the recording, or scale it with --rate",
        )
    at = np.arange(1, count) * (total / count)
    times_ms = np.ceil(np.interp(at, sent_bytes, times_s) * 1e3).astype(np.int64)
    return np.append(times_ms.clip(0, duration_ms), duration_ms)
