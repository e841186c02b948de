"""A sink's record of every packet.

A sink writes a line of CSV per packet and node (`RecordRow` in `native/ccp-int`). Each row of a packet also
has the flow's losses so far, as running totals.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from telemetry.inband.errors import InbandError

_TEXT: Final = ("src", "dst", "protocol")
_DECIBELS: Final = ("rssi_dbm", "snr_db")
_NAMES: Final = (
    "t_us",
    "src",
    "dst",
    "src_port",
    "dst_port",
    "protocol",
    "sequence",
    "len_bytes",
    "latency_us",
    "cwnd_bytes",
    "lost_congestion_pkts",
    "lost_link_pkts",
    "lost_unknown_pkts",
    "hop",
    "node_id",
    "hop_limit",
    "ingress_if",
    "egress_if",
    "timestamp_us",
    "transit_delay_ns",
    "queue_depth",
    "buffer_occupancy",
    "queue_free_pkts",
    "arrival_pkts_per_s",
    "flow_count",
    "link_lost_pkts",
    "link_rate_bytes_per_s",
    "flow_missing_pkts",
    "flow_dropped_pkts",
    "rssi_dbm",
    "snr_db",
    "data_rate_bytes_per_s",
    "mcs",
)


def _type(name: str) -> pa.DataType:
    if name in _TEXT:
        return pa.string()
    # Sequence numbers are unsigned 64-bit integers.
    return pa.float64() if name in _DECIBELS else pa.uint64() if name == "sequence" else pa.int64()


COLUMNS: Final[dict[str, pa.DataType]] = {name: _type(name) for name in _NAMES}
"""Column -> type, in the order of the file. t_us is CLOCK_MONOTONIC at the sink, timestamp_us the node's
clock since 1970; link_lost_pkts is the node's counter for all flows; lost_NAME_pkts are the flow's losses so
far, as known to the sink when it received the packet."""

BLOCK_BYTES: Final = 1 << 24
"""Size of the blocks of CSV that are converted to Parquet at a time."""


def _reader(path: Path) -> Any:
    try:
        reader = pyarrow.csv.open_csv(
            path,
            read_options=pyarrow.csv.ReadOptions(block_size=BLOCK_BYTES),
            convert_options=pyarrow.csv.ConvertOptions(column_types=COLUMNS, null_values=[""]),
        )
    except (OSError, pa.ArrowInvalid) as error:
        raise _unreadable(path, error) from error
    if reader.schema.names != list(COLUMNS):
        reader.close()
        raise _unreadable(path, f"its columns are {', '.join(reader.schema.names)}")
    return reader


def _unreadable(path: Path, why: object) -> InbandError:
    return InbandError(
        "int.bad_records",
        "this is not a file of records",
        str(path),
        str(why),
        "give a file that a sink wrote with --out",
    )


def _batches(path: Path) -> Iterable[Any]:
    with _reader(path) as reader:
        try:
            yield from reader
        except pa.ArrowInvalid as error:
            raise _unreadable(path, error) from error


def read_csv(path: Path) -> pd.DataFrame:
    """Return the records of a file; missing values are null.

    Raises:
        InbandError: `int.bad_records`.
    """
    table = pa.Table.from_batches(_batches(path), schema=pa.schema(list(COLUMNS.items())))
    frame: pd.DataFrame = table.to_pandas(types_mapper=_pandas_type)
    return frame


def _pandas_type(kind: pa.DataType) -> Any:
    """Return a type that supports missing numbers."""
    return {pa.int64(): pd.Int64Dtype(), pa.uint64(): pd.UInt64Dtype()}.get(kind)


def write_parquet(path: Path, out: Path) -> int:
    """Convert a CSV file of records to Parquet, block by block; return the number of rows.

    Raises:
        InbandError: `int.bad_records`.
    """
    rows = 0
    with pyarrow.parquet.ParquetWriter(out, pa.schema(list(COLUMNS.items())), compression="zstd") as writer:
        for batch in _batches(path):
            writer.write_batch(batch)
            rows += batch.num_rows
    return rows
