"""What each packet brought to a sink, and the window that its sender had then.

A sink writes a line of CSV a packet and node (`RecordRow` in `native/ccp-int`). The flow's losses until then
are in each row of a packet, as running totals.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import numpy as np
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
    # Sequence numbers have 64 bits, and none of them a sign.
    return pa.float64() if name in _DECIBELS else pa.uint64() if name == "sequence" else pa.int64()


COLUMNS: Final[dict[str, pa.DataType]] = {name: _type(name) for name in _NAMES}
"""Column -> type, in the order of the file. t_us is CLOCK_MONOTONIC at the sink, timestamp_us the node's
clock since 1970; link_lost_pkts is the node's counter for all flows; lost_NAME_pkts are the flow's losses
until then, as the sink knew them when it had the packet."""

BLOCK_BYTES: Final = 1 << 24
"""Of so much CSV at once a part of a Parquet file is made."""

TRACED: Final = ("cwnd_bytes", "ssthresh_bytes", "srtt_us", "mss_bytes", "bytes_in_flight", "ca_state")
"""What the trace knows of the sender: each becomes a column `tcp_NAME`."""

_NO_SSTHRESH: Final = (1 << 64) - 1


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
        "this is no file of records",
        str(path),
        str(why),
        "give a file that a sink wrote with --records",
    )


def _batches(path: Path) -> Iterable[Any]:
    with _reader(path) as reader:
        try:
            yield from reader
        except pa.ArrowInvalid as error:
            raise _unreadable(path, error) from error


def read_csv(path: Path) -> pd.DataFrame:
    """Return the records of a file; what is missing is null.

    Raises:
        InbandError: `int.bad_records`.
    """
    table = pa.Table.from_batches(_batches(path), schema=pa.schema(list(COLUMNS.items())))
    frame: pd.DataFrame = table.to_pandas(types_mapper=_pandas_type)
    return frame


def _pandas_type(kind: pa.DataType) -> Any:
    """Return a type that tells missing numbers from others."""
    return {pa.int64(): pd.Int64Dtype(), pa.uint64(): pd.UInt64Dtype()}.get(kind)


def write_parquet(path: Path, out: Path) -> int:
    """Make a Parquet file of the records of a CSV file, piece by piece; return how many rows.

    Raises:
        InbandError: `int.bad_records`.
    """
    rows = 0
    with pyarrow.parquet.ParquetWriter(out, pa.schema(list(COLUMNS.items())), compression="zstd") as writer:
        for batch in _batches(path):
            writer.write_batch(batch)
            rows += batch.num_rows
    return rows


def join_windows(records: pd.DataFrame, trace_rows: np.ndarray[Any, Any]) -> pd.DataFrame:
    """Add to each record what the sender's TCP was like when the packet left, as traced with eBPF.

    Of the flow's trace the last row counts that is not younger than the packet. Both have to be of one host,
    as in the network lab: their times are those of one clock.

    Args:
        records: As of `read_csv`.
        trace_rows: Rows of `ccplane.base._native.TcpTrace`, of any sockets, in any order.

    Returns:
        The records in order of time, with `tcp_NAME` for each of `TRACED`, and `tcp_age_us`: how much older
        the row of the trace is than the packet [us]. Null where there is none.
    """
    sent_us = (records["t_us"] - records["latency_us"].fillna(0)).astype("int64")
    numbers: dict[tuple[str, str, int, int], int] = {}
    flows = zip(records["src"], records["dst"], records["src_port"], records["dst_port"], strict=True)
    of_flow = np.array([numbers.setdefault(flow, len(numbers)) for flow in flows], dtype="int64")
    left = records.assign(_sent_us=sent_us, _flow=of_flow).sort_values("_sent_us", kind="stable")
    joined = pd.merge_asof(left, _traced(trace_rows, numbers), on="_sent_us", by="_flow")
    joined["tcp_age_us"] = joined["_sent_us"].astype("Int64") - joined["_traced_us"]
    return joined.drop(columns=["_sent_us", "_traced_us", "_flow"])


def _traced(rows: np.ndarray[Any, Any], numbers: dict[tuple[str, str, int, int], int]) -> pd.DataFrame:
    """Return the trace of flows with a number, in order of time."""
    src, dst = (_addresses(rows[column]) for column in ("saddr", "daddr"))
    flows = zip(src, dst, rows["sport"].tolist(), rows["dport"].tolist(), strict=True)
    of_flow = np.array([numbers.get(flow, -1) for flow in flows], dtype="int64")
    t_us = rows["t_us"].astype("int64")
    frame = pd.DataFrame({"_sent_us": t_us, "_flow": of_flow, "_traced_us": pd.array(t_us, dtype="Int64")})
    for name in TRACED:
        values = rows[name]
        missing = values == _NO_SSTHRESH if name == "ssthresh_bytes" else np.zeros(len(values), dtype=bool)
        frame[f"tcp_{name}"] = pd.arrays.IntegerArray(np.where(missing, 0, values).astype("int64"), missing)
    return frame[of_flow >= 0].sort_values("_sent_us", kind="stable")


def _addresses(octets: np.ndarray[Any, Any]) -> list[str]:
    rows = [row.tobytes() for row in octets]
    names = {row: _address(row) for row in set(rows)}
    return [names[row] for row in rows]


def _address(octets: bytes) -> str:
    address = ipaddress.IPv6Address(octets)
    return str(address.ipv4_mapped or address)
