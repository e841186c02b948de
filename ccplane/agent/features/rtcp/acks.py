"""Records ACKs into one file per connection, in the format of `ack_trace` (for `ccp rtcp detect`)."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Final

import numpy as np
from numpy.typing import NDArray

from ccplane.agent.features.rtcp.ack_trace import ACK, START
from ccplane.base.errors import UsageError
from telemetry.schema import unpacked

HEADER: Final = (
    "ev,time_us,acked_bytes,delivered,lost,min_rtt_us,app_limited,prior_delivered,srtt_us,inflight"
)
_FIELDS: Final = (
    "t_us",
    "acked_bytes",
    "delivered_pkts",
    "lost_pkts",
    "min_rtt_us",
    "app_limited",
    "prior_delivered_pkts",
    "srtt_us",
    "in_flight_pkts",
)
_ENDS: Final = ("saddr", "daddr", "sport", "dport")
_COMPRESSION: Final = 2
"""The highest level takes six times as long and saves one seventh."""


def _by_connection(rows: NDArray[np.void]) -> Iterator[NDArray[np.void]]:
    """Yield the rows of each connection, in order."""
    if not len(rows):
        return
    raw = [np.ascontiguousarray(rows[name]).view(np.uint8).reshape(len(rows), -1) for name in _ENDS]
    ends = np.ascontiguousarray(np.concatenate(raw, axis=1))
    _, which = np.unique(ends.view(f"V{ends.shape[1]}").ravel(), return_inverse=True)
    order = np.argsort(which, kind="stable")
    yield from np.split(rows[order], np.flatnonzero(np.diff(which[order])) + 1)


class AckRecorder:
    """Writes a file `SRC-SPORT-DST-DPORT.csv.gz` for each connection into a directory."""

    def __init__(self, directory: Path) -> None:
        """Create the directory.

        Raises:
            UsageError: `rtcp.cannot_record`.
        """
        self._directory = directory
        self._files: dict[bytes, IO[str]] = {}
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(
                "rtcp.cannot_record",
                "cannot record ACKs in this directory",
                str(directory),
                error.strerror or str(error),
                "give a writable directory",
            ) from error

    def take(self, rows: NDArray[np.void]) -> None:
        """Write rows of `RtcpAttached.drain_acks`, in order."""
        for own in _by_connection(rows):
            kinds = [START if starts else ACK for starts in own["starts"].tolist()]
            columns = [map(str, own[name].astype(np.uint64).tolist()) for name in _FIELDS]
            lines = map(",".join, zip(kinds, *columns, strict=True))
            self._file(own[0]).write("\n".join(lines) + "\n")

    def close(self) -> None:
        """Close all files."""
        for file in self._files.values():
            file.close()
        self._files.clear()

    def _file(self, row: Any) -> IO[str]:
        key = b"".join(row[name].tobytes() for name in _ENDS)
        file = self._files.get(key)
        if file is None:
            src, dst = (unpacked(row[name].tobytes()) for name in ("saddr", "daddr"))
            name = f"{src}-{row['sport']}-{dst}-{row['dport']}.csv.gz"
            file = gzip.open(  # noqa: SIM115
                self._directory / name, "wt", _COMPRESSION, encoding="ascii", newline=""
            )
            file.write(f"{HEADER}\n")
            self._files[key] = file
        return file
