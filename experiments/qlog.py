"""`ccp experiment qlog`: the connections of a run as a qlog file, for viewers of QUIC's logs.

Version 0.3 of qlog (draft-ietf-quic-qlog-main-schema-04, draft-ietf-quic-qlog-quic-events-03), which qvis and
the crate `qlog` read. A result has samples, not packets, so there are two kinds of events:
`recovery:metrics_updated`, with the values that differ from the sample before, and
`recovery:congestion_state_updated`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from ccplane.base import options
from experiments.writing import cannot_write

if TYPE_CHECKING:
    import pandas as pd

    from experiments.results import Result

VERSION: Final = "0.3"

METRICS: Final = {
    "min_rtt": ("min_rtt_us", 1e-3),
    "smoothed_rtt": ("srtt_us", 1e-3),
    "latest_rtt": ("rtt_us", 1e-3),
    "congestion_window": ("cwnd_bytes", 1),
    "bytes_in_flight": ("bytes_in_flight", 1),
    "ssthresh": ("ssthresh_bytes", 1),
    "pacing_rate": ("pacing_rate_bytes_per_s", 8),
}
"""Name in qlog -> column of `connection_samples`, and factor to qlog's unit: ms, bytes, bit/s."""

FIRST_RECOVERY_STATE: Final = 2
"""`ca_state` from which a window is reduced: CWR, Recovery, Loss."""


def qlog(
    result: Annotated[Path, typer.Argument(help="Folder of a run.")],
    out: Annotated[
        Path | None, options.out("File.", metavar="FILE", show_default="RESULT/connections.qlog")
    ] = None,
) -> None:
    """Write the connections of a run as qlog: window, RTT, bytes in flight, pacing rate, state over time."""
    from experiments.results import Result

    out = out or result / "connections.qlog"
    made = to_qlog(Result.load(result))
    try:
        out.write_text(json.dumps(made) + "\n")
    except OSError as error:
        raise cannot_write(out, error, "choose another file with --out") from error
    typer.echo(str(out))


def to_qlog(result: Result) -> dict[str, Any]:
    """Return the connections of a run as the content of a qlog file, a trace for each.

    Raises:
        ResultError: `result.broken`.
    """
    connections = result.connection_samples.groupby(["flow", "connection"], sort=False)
    return {
        "qlog_version": VERSION,
        "qlog_format": "JSON",
        "title": result.name,
        "traces": [_trace(samples) for _, samples in connections],
    }


def _trace(samples: pd.DataFrame) -> dict[str, Any]:
    samples = samples.sort_values("t_s")
    name = f"{samples['flow'].iloc[0]}, connection {samples['connection'].iloc[0]}"
    return {
        "title": name,
        "description": f"congestion control: {samples['congestion'].iloc[-1]}",
        "vantage_point": {"name": "sender", "type": "server"},
        "common_fields": {
            "time_format": "relative",
            "reference_time": 0,
            "protocol_type": ["TCP"],
            "group_id": name,
        },
        "events": list(_events(samples)),
    }


def _events(samples: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Yield the events of a connection; times are ms since the start of the run."""
    known: dict[str, float] = {}
    state = None
    for row in samples.to_dict("records"):
        time_ms = round(row["t_s"] * 1e3, 3)
        now = _state(row)
        if now != state:
            change = {"new": now} if state is None else {"old": state, "new": now}
            yield {"time": time_ms, "name": "recovery:congestion_state_updated", "data": change}
            state = now
        metrics = {name: value for name, value in _metrics(row) if known.get(name) != value}
        if metrics:
            yield {"time": time_ms, "name": "recovery:metrics_updated", "data": metrics}
            known |= metrics


def _metrics(row: Mapping[Any, Any]) -> Iterator[tuple[str, float]]:
    for name, (column, factor) in METRICS.items():
        value = row[column]
        if value == value and value is not None:  # not unknown
            yield name, round(value * factor, 3) if factor < 1 else round(value * factor)


def _state(row: Mapping[Any, Any]) -> str:
    """Return qlog's name of a connection's congestion state.

    `app_limited` is about the rate of the newest delivered packet, so the window has to have room as well.
    """
    if row["ca_state"] >= FIRST_RECOVERY_STATE:
        return "recovery"
    if row["app_limited"] and row["bytes_in_flight"] + row["mss_bytes"] <= row["cwnd_bytes"]:
        return "application_limited"
    has_threshold = row["ssthresh_bytes"] == row["ssthresh_bytes"] and row["ssthresh_bytes"] is not None
    if has_threshold and row["cwnd_bytes"] >= row["ssthresh_bytes"]:
        return "congestion_avoidance"
    return "slow_start"
