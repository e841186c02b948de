"""`ccp experiment qlog`: the connections of a run as a qlog file, for viewers of QUIC's logs.

Version 0.3 of qlog (draft-ietf-quic-qlog-main-schema-04, draft-ietf-quic-qlog-quic-events-03), which qvis and
the crate `qlog` read. Samples become `recovery:metrics_updated`, with the values that differ from the sample
before, and `recovery:congestion_state_updated`. Where the result has captures of the sender's link, packets
become `transport:packet_sent`, `transport:packet_received` and `recovery:packet_lost` (`qlog_packets`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from ccplane.base import options
from experiments.writing import cannot_write

if TYPE_CHECKING:
    import pandas as pd

    from experiments.qlog_packets import Captured
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
    """Write the connections of a run as qlog: window, RTT, bytes in flight, pacing rate, state over time.

    On real sockets, with `captures` of both directions of the sender's link (in a dumbbell `access-s1>` and
    `access-s1<`), the file also has all packets, as qvis' congestion graph needs.
    """
    from experiments.qlog_packets import Captured
    from experiments.results import Result

    out = out or result / "connections.qlog"
    loaded = Result.load(result)
    made = to_qlog(loaded)
    try:
        out.write_text(json.dumps(made) + "\n")
    except OSError as error:
        raise cannot_write(out, error, "choose another file with --out") from error
    captured = Captured(loaded)
    for flow in loaded.connection_samples["flow"].unique():
        if why := captured.why_not(flow):
            typer.echo(f"no packets of flow `{flow}`: {why}", err=True)
    typer.echo(str(out))


def to_qlog(result: Result) -> dict[str, Any]:
    """Return the connections of a run as the content of a qlog file, a trace for each.

    Raises:
        ResultError: `result.broken`.
    """
    from experiments.qlog_packets import Captured

    captured = Captured(result)
    connections = result.connection_samples.groupby(["flow", "connection"], sort=False)
    return {
        "qlog_version": VERSION,
        "qlog_format": "JSON",
        "title": result.name,
        "traces": [_trace(samples, captured) for _, samples in connections],
    }


def _trace(samples: pd.DataFrame, captured: Captured) -> dict[str, Any]:
    samples = samples.sort_values("t_s")
    flow, connection = samples["flow"].iloc[0], int(samples["connection"].iloc[0])
    name = f"{flow}, connection {connection}"
    packets = [] if captured.why_not(flow) else captured.events(flow, connection)
    of_packets = [{"time": _ms(t_s), "name": kind, "data": data} for t_s, kind, data in packets]
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
        "events": sorted([*_events(samples), *of_packets], key=itemgetter("time")),
    }


def _events(samples: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Yield the events of a connection; times are ms since the start of the run."""
    known: dict[str, float] = {}
    state = None
    for row in samples.to_dict("records"):
        time_ms = _ms(row["t_s"])
        now = _state(row)
        if now != state:
            change = {"new": now} if state is None else {"old": state, "new": now}
            yield {"time": time_ms, "name": "recovery:congestion_state_updated", "data": change}
            state = now
        metrics = {name: value for name, value in _metrics(row) if known.get(name) != value}
        if metrics:
            yield {"time": time_ms, "name": "recovery:metrics_updated", "data": metrics}
            known |= metrics


def _ms(t_s: float) -> float:
    return round(t_s * 1e3, 3)


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
