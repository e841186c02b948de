from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from experiments.runs.recording import TCP_CLOSE, FlowRecord, Recording
from experiments.runs.tables import NEVER
from experiments.scenario import Scenario
from experiments.traffic import ConnectionSample, FlowSockets, TrafficResult

NETNS = 4_026_531_840
COUNTERS = [
    "cwnd_bytes",
    "ssthresh_bytes",
    "pacing_rate_bytes_per_s",
    "delivered_pkts",
    "delivered_ce",
    "lost_pkts",
    "retrans_pkts",
    "bytes_acked",
    "bytes_sent",
    "bytes_retrans",
    "bytes_in_flight",
]
ROW = np.dtype(
    [
        ("t_us", "u8"),
        ("cookie", "u8"),
        ("netns", "u4"),
        ("sport", "u2"),
        ("dport", "u2"),
        ("congestion", "S16"),
        ("state", "u1"),
        ("ca_state", "u1"),
        ("app_limited", "u1"),
        ("srtt_us", "u4"),
        ("min_rtt_us", "u4"),
        ("rtt_us", "u4"),
        ("mss_bytes", "u4"),
        *((name, "u8") for name in COUNTERS),
    ]
)
"""Columns of `ccplane.base._native.TcpTrace` that results use."""

START_US = 5_000_000


def rows(*given: dict[str, Any]) -> np.ndarray:
    table = np.zeros(len(given), ROW)
    for row, values in zip(table, given, strict=True):
        usual = {"cookie": 1, "netns": NETNS, "sport": 1000, "dport": 5201, "congestion": b"cubic"}
        usual |= {"state": 1, "mss_bytes": 1448, "ssthresh_bytes": NEVER, "pacing_rate_bytes_per_s": NEVER}
        usual |= {"srtt_us": 20_000, "rtt_us": 20_000, "min_rtt_us": 20_000, "cwnd_bytes": 14_480}
        for name, value in (usual | values).items():
            row[name] = value
    return table


def steady(rate_bytes_per_s: float, seconds: float, **values: Any) -> list[dict[str, Any]]:
    found = [
        {
            "t_us": START_US + n * 100_000,
            "bytes_acked": round(n * 0.1 * rate_bytes_per_s),
            "bytes_sent": round(n * 0.1 * rate_bytes_per_s),
            **values,
        }
        for n in range(round(10 * seconds) + 1)
    ]
    found[-1]["state"] = TCP_CLOSE
    return found


def flow_record(name: str = "flow", **changes: Any) -> FlowRecord:
    record = FlowRecord(name, "kernel/cubic", "sender", "receiver", "cubic", base_rtt_us=20_000)
    record.sockets = FlowSockets(NETNS, (1000, 1009), (5201, 5201))
    record.start_us, record.stop_us, record.end_us = START_US, START_US + 2_000_000, START_US + 2_050_000
    record.traffic = TrafficResult(received_bytes=2_000_000, duration_s=2.05, complete=True)
    for field, value in changes.items():
        setattr(record, field, value)
    return record


def quic_sample(t_s: float, connection: int, **changes: Any) -> ConnectionSample:
    values: dict[str, Any] = {
        "t_us": START_US + round(t_s * 1e6),
        "connection": connection,
        "open": True,
        "congestion": "ccp.cubic",
        "mss_bytes": 1452,
        "cwnd_bytes": 20_000,
        "srtt_us": 30_000,
        "lost_pkts": 2,
        "bytes_sent": round(t_s * 1.05e6),
        "bytes_acked": round(t_s * 1e6),
    }
    return ConnectionSample(**values | changes)


def of_quic(*samples: ConnectionSample) -> FlowRecord:
    done = TrafficResult(received_bytes=None, duration_s=2.05, complete=False, samples=samples)
    return flow_record("quic", congestion="ccp.cubic", traffic=done)


def recording(*given: dict[str, Any], flows: list[FlowRecord] | None = None) -> Recording:
    kept = Recording(100_000, flows if flows is not None else [flow_record()], START_US)
    kept.socket_rows = rows(*given)
    kept.events = [(0.0, "flow_start", {"flow": "flow"})]
    return kept


def record(scenario: Scenario, into: Recording, directory: Path, progress: Any) -> None:
    progress("flows are sending", scenario.duration_s)
    done = recording(*steady(1e6 * scenario.seed, scenario.duration_s))
    into.flows, into.start_us, into.socket_rows = done.flows, done.start_us, done.socket_rows
    into.events = done.events
