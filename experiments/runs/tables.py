"""The tables of a result: their columns, and how they are computed from the recording.

Unknown values are null. Counters are cumulative since the start of the flow or link.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from experiments import metrics
from experiments.features import features
from experiments.netlab.linkstats import SAMPLE_COLUMNS
from experiments.runs import int_tables, media_tables, regime_tables
from experiments.runs.recording import TCP_CLOSE, FlowRecord, Recording
from experiments.traffic import ConnectionSample

NEVER: Final = (1 << 64) - 1
"""Values in the trace that stand for no threshold or no pacing rate."""

_F64, _I64, _TEXT, _BOOL = pa.float64(), pa.int64(), pa.string(), pa.bool_()

_SOCKET: Final[dict[str, pa.DataType]] = {
    "cwnd_bytes": _I64,
    "ssthresh_bytes": _I64,
    "srtt_us": _I64,
    "rtt_us": _I64,
    "min_rtt_us": _I64,
    "pacing_rate_bytes_per_s": _F64,
    "delivered_pkts": _I64,
    "lost_pkts": _I64,
    "retrans_pkts": _I64,
    "bytes_acked": _I64,
    "bytes_sent": _I64,
    "bytes_retrans": _I64,
    "bytes_in_flight": _I64,
    "goodput_bytes_per_s": _F64,
    "ca_state": _I64,
    "delivered_ce": _I64,
    "app_limited": _BOOL,
}

_OF_FEATURES: Final = {name: dict(own) for one in features() for name, own in one.columns().items()}

COLUMNS: Final[dict[str, dict[str, pa.DataType]]] = {
    "flow_samples": {"t_s": _F64, "flow": _TEXT, "connections": _I64, **_SOCKET},
    "connection_samples": {
        "t_s": _F64,
        "flow": _TEXT,
        "connection": _I64,
        "open": _BOOL,
        **_SOCKET,
        "mss_bytes": _I64,
        "congestion": _TEXT,
    },
    "link_samples": {
        "t_s": _F64,
        "link": _TEXT,
        **dict.fromkeys(SAMPLE_COLUMNS[2:], _I64),
    },
    "events": {"t_s": _F64, "kind": _TEXT, "detail": _TEXT},
    "objects": {
        "flow": _TEXT,
        "connection": _I64,
        "number": _I64,
        "size_bytes": _I64,
        "start_s": _F64,
        "first_byte_s": _F64,
        "completion_s": _F64,
        "new_connection": _BOOL,
    },
    "playback": {
        "flow": _TEXT,
        "number": _I64,
        "bitrate_bytes_per_s": _F64,
        "played_s": _F64,
        "startup_s": _F64,
        "stalls": _I64,
        "stalled_s": _F64,
    },
    "flows": {
        "flow": _TEXT,
        "algorithm": _TEXT,
        "congestion": _TEXT,
        "sender": _TEXT,
        "receiver": _TEXT,
        "connections": _I64,
        "start_s": _F64,
        "end_s": _F64,
        "base_rtt_us": _I64,
        "bytes_acked": _I64,
        "goodput_bytes_per_s": _F64,
        "retrans_pkts": _I64,
        "retrans_pct": _F64,
        "lost_pkts": _I64,
        "delivered_ce": _I64,
        "min_rtt_us": _F64,
        "rtt_p50_us": _F64,
        "rtt_p95_us": _F64,
        "rtt_p99_us": _F64,
        "srtt_mean_us": _F64,
        "received_bytes": _I64,
        "completion_s": _F64,
    },
    **media_tables.COLUMNS,
    **int_tables.COLUMNS,
    **regime_tables.COLUMNS,
    **_OF_FEATURES,
}
"""Table -> its columns and their types; `docs/scenarios.md` explains them."""

_SUMMED: Final = (
    "cwnd_bytes",
    "delivered_pkts",
    "lost_pkts",
    "retrans_pkts",
    "bytes_acked",
    "bytes_sent",
    "bytes_retrans",
    "bytes_in_flight",
    "delivered_ce",
)
_GONE_WHEN_CLOSED: Final = ("cwnd_bytes", "bytes_in_flight")
_LAST: Final = ("bytes_acked", "retrans_pkts", "lost_pkts", "delivered_ce")
_RTT_PERCENTILES: Final = (50, 95, 99)


def write(recording: Recording, directory: Path) -> None:
    """Write all tables as Parquet files `NAME.parquet`.

    Raises:
        OSError: If a file cannot be written.
    """
    for name, frame in made(recording).items():
        pyarrow.parquet.write_table(_typed(frame, name), directory / f"{name}.parquet")


def _typed(frame: pd.DataFrame, name: str) -> pa.Table:
    schema = pa.schema(list(COLUMNS[name].items()))
    return pa.Table.from_pandas(frame, schema=schema, preserve_index=False)


def read(directory: Path, name: str) -> pd.DataFrame:
    """Return a table, with null in columns that an older result lacks.

    Tables of video, media, in-band telemetry, regimes and features are empty if the run had none.

    Raises:
        OSError: If the file does not exist.
        pyarrow.ArrowInvalid: If it is not a Parquet file.
    """
    file = directory / f"{name}.parquet"
    added = {"playback", *media_tables.COLUMNS, *int_tables.COLUMNS, *regime_tables.COLUMNS, *_OF_FEATURES}
    absent = name in added and not file.exists()
    nothing = pd.DataFrame(columns=list(COLUMNS[name]))
    table = _typed(nothing, name) if absent else pyarrow.parquet.read_table(file)
    frame: pd.DataFrame = table.to_pandas()
    return frame.reindex(columns=list(COLUMNS[name]))  # older results lack `congestion` of connections


def made(recording: Recording) -> dict[str, pd.DataFrame]:
    """Return all tables of a recording by name."""
    connections = _connection_samples(recording)
    samples = _flow_samples(recording, connections)
    frames = {
        "flow_samples": samples,
        "connection_samples": connections,
        "link_samples": _link_samples(recording),
        "events": pd.DataFrame(
            [(t_s, kind, json.dumps(detail)) for t_s, kind, detail in recording.events],
            columns=["t_s", "kind", "detail"],
        ).sort_values("t_s", kind="stable"),
        "objects": _objects(recording),
        "playback": _playback(recording),
        "flows": _flows(recording, samples),
        **media_tables.made(recording),
        **int_tables.made(recording),
        **regime_tables.made(recording),
        **{name: frame for one in features() for name, frame in one.tables(recording).items()},
    }
    return {name: frame.reindex(columns=list(COLUMNS[name])) for name, frame in frames.items()}


def _connection_samples(recording: Recording) -> pd.DataFrame:
    parts = []
    for flow in recording.flows:
        if flow.traffic is not None and flow.traffic.samples:
            parts.append(_reported(flow.traffic.samples, flow.name, recording.start_us))
        elif len(own := recording.rows_of(flow)):
            parts.append(_of_flow(own, flow.name, recording.start_us))
    columns = list(COLUMNS["connection_samples"])
    frame = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()
    return frame.reindex(columns=columns)


def _of_flow(rows: np.ndarray, flow: str, start_us: int) -> pd.DataFrame:
    frame = pd.DataFrame({name: rows[name] for name in _SOCKET if name in (rows.dtype.names or ())})
    frame.insert(0, "t_s", (rows["t_us"].astype(np.int64) - start_us) / 1e6)
    frame.insert(1, "flow", flow)
    frame["connection"] = pd.factorize(rows["cookie"])[0]  # numbered in order of appearance
    frame["open"] = rows["state"] != TCP_CLOSE
    frame["app_limited"] = rows["app_limited"].astype(bool)
    frame["mss_bytes"] = rows["mss_bytes"]
    frame["congestion"] = np.char.decode(rows["congestion"])
    for name in ("srtt_us", "rtt_us", "min_rtt_us"):
        frame[name] = _known(rows[name], (0, 0xFFFFFFFF))
    for name in ("ssthresh_bytes", "pacing_rate_bytes_per_s"):
        frame[name] = _known(rows[name], (NEVER,))
    frame["goodput_bytes_per_s"] = _goodput(frame, "connection")
    return frame


def _reported(samples: Sequence[ConnectionSample], flow: str, start_us: int) -> pd.DataFrame:
    """Return a program's samples of its connections, without columns that only the kernel provides."""
    frame = pd.DataFrame([vars(one) for one in samples])
    frame.insert(0, "t_s", (frame.pop("t_us") - start_us) / 1e6)
    frame.insert(1, "flow", flow)
    frame["goodput_bytes_per_s"] = _goodput(frame, "connection")
    return frame


def _known(values: np.ndarray, unknown: Sequence[int]) -> pd.Series:
    series = pd.Series(values.astype(np.float64))
    return series.mask(np.isin(values, np.array(unknown, dtype=np.uint64)))


def _goodput(frame: pd.DataFrame, key: str) -> pd.Series:
    before = frame.groupby(key, sort=False)[["t_s", "bytes_acked"]].diff()
    rate = before["bytes_acked"] / before["t_s"]
    return rate.where(before["t_s"] > 0)


def _flow_samples(recording: Recording, connections: pd.DataFrame) -> pd.DataFrame:
    """Return the samples of flows, with the connections of each flow merged.

    Samples after the stop of a flow are left out: by then, data in socket buffers is sent and programs
    exchange their results.
    """
    stop_s = {flow.name: _since(recording, flow.stop_us) for flow in recording.flows}
    parts = []
    for name, own in connections.groupby("flow", sort=False):
        own = own[own["t_s"] <= stop_s[str(name)]]
        several = own["connection"].nunique() > 1
        parts.append(_together(own, recording.sample_interval_us) if several else own.assign(connections=1))
    columns = list(COLUMNS["flow_samples"])
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=columns)


def _together(own: pd.DataFrame, interval_us: int) -> pd.DataFrame:
    """Merge the connections of a flow, at the last sample of each interval.

    Windows and counters are sums of the connections' last known values. Other columns (RTT, threshold) are
    those of the connection that was sampled last.
    """
    own = own.reset_index(drop=True)
    counts = {}
    for name in _SUMMED:
        if own[name].isna().all():
            continue  # unknown for all connections, so the sum is unknown
        wide = own.pivot(columns="connection", values=name)
        if name in _GONE_WHEN_CLOSED:
            wide = wide.mask(own.pivot(columns="connection", values="open").eq(False), 0)
        counts[name] = wide.ffill().sum(axis=1)
    is_open = own.pivot(columns="connection", values="open").astype("boolean").ffill()
    merged = own.assign(**counts, connections=is_open.eq(True).sum(axis=1).astype(np.int64))
    merged["min_rtt_us"] = own["min_rtt_us"].cummin()
    merged["ssthresh_bytes"] = np.nan  # a threshold belongs to a single connection
    merged["pacing_rate_bytes_per_s"] = np.nan
    interval = (merged["t_s"] * 1e6 // interval_us).astype(np.int64)
    merged = merged[~interval.duplicated(keep="last")]
    return merged.assign(goodput_bytes_per_s=_goodput(merged, "flow"))


def _flows(recording: Recording, samples: pd.DataFrame) -> pd.DataFrame:
    known = [_known_of(flow, recording) for flow in recording.flows]
    frame = pd.DataFrame(known, columns=list(known[0]) if known else ["flow"]).set_index("flow")
    by_flow = samples.groupby("flow", sort=False)
    frame = frame.join(by_flow[list(_LAST)].last())
    frame = frame.join(metrics.goodput_bytes_per_s(samples))
    frame = frame.join(metrics.retrans_pct(samples))
    frame = frame.join(metrics.rtt_percentiles_us(samples, _RTT_PERCENTILES))
    frame = frame.join(by_flow["min_rtt_us"].min()).join(by_flow["srtt_us"].mean().rename("srtt_mean_us"))
    return frame.reset_index()


def _known_of(flow: FlowRecord, recording: Recording) -> Mapping[str, Any]:
    traffic = flow.traffic
    return {
        "flow": flow.name,
        "algorithm": flow.algorithm,
        "congestion": flow.congestion,
        "sender": flow.sender,
        "receiver": flow.receiver,
        "connections": len(recording.congestion_of(flow)),
        "start_s": _since(recording, flow.start_us),
        "end_s": _since(recording, flow.end_us),
        "base_rtt_us": flow.base_rtt_us,
        "received_bytes": None if traffic is None else traffic.received_bytes,
        "completion_s": traffic.duration_s if traffic is not None and traffic.complete else None,
    }


def _since(recording: Recording, t_us: int | None) -> float | None:
    return None if t_us is None else (t_us - recording.start_us) / 1e6


# --- other tables
# ----------------------------------------------------------------------------------------------


def _link_samples(recording: Recording) -> pd.DataFrame:
    columns = list(COLUMNS["link_samples"])
    if recording.links_csv is None or not recording.links_csv.exists():
        return pd.DataFrame(columns=columns)
    frame: pd.DataFrame = pyarrow.csv.read_csv(recording.links_csv).to_pandas()
    frame = frame.assign(t_s=(frame["t_us"] - recording.start_us) / 1e6)
    return frame[frame["t_s"] >= 0]


def _objects(recording: Recording) -> pd.DataFrame:
    return pd.DataFrame(
        [
            {
                "flow": flow.name,
                "connection": one.connection,
                "number": one.number,
                "size_bytes": one.size_bytes,
                "start_s": _since(recording, one.start_us),
                "first_byte_s": one.first_byte_s,
                "completion_s": one.completion_s,
                "new_connection": one.new_connection,
            }
            for flow in recording.flows
            if flow.traffic is not None
            for one in flow.traffic.objects
        ],
        columns=list(COLUMNS["objects"]),
    )


def _playback(recording: Recording) -> pd.DataFrame:
    return pd.DataFrame(
        [
            {"flow": flow.name, **vars(one)}
            for flow in recording.flows
            if flow.traffic is not None
            for one in flow.traffic.playback
        ],
        columns=list(COLUMNS["playback"]),
    )
