"""Made-up results of the chain: one flow or several, with telemetry that is right."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from experiments.papers.int_adaptive.chain import BOTTLENECK, LOSSY
from experiments.results import Result
from experiments.scenario import Scenario
from telemetry.ioam import EdgeToEdge, insert
from telemetry.ioam.model import E2eField
from tests.unit.telemetry.ioam.packets import udp, write_pcap

STEP_S = 0.01
QUEUE_PKTS, ARRIVAL_PKTS_PER_S, LOST_PKTS = 20, 1_500, 3
"""What the bottleneck has all the time, and what the last hop loses every 100 ms."""
MSS_BYTES = 1_252
PORT = 4000
"""Of the first flow's sender."""


def result_of(scenario: Scenario, directory: Path | None = None, **changed: pd.DataFrame) -> Result:
    """Return a made-up result, with tables replaced by `changed`."""
    times_s = np.arange(STEP_S, scenario.duration_s, STEP_S).round(6)
    given = {
        "flows": _flows(scenario),
        "flow_samples": _flow_samples(scenario, times_s),
        "int_records": records({}),
        **_telemetry(scenario, times_s),
        **changed,
    }
    links = {BOTTLENECK: {"dropped_queue_pkts": 7}, LOSSY: {"dropped_loss_pkts": 5}}
    metadata: dict[str, Any] = {"complete": True, "name": scenario.name, "seed": scenario.seed}
    metadata |= {"links": links, "emulator": {"cpu_s": 2.0}}
    return Result(directory, metadata, given.__getitem__, scenario.to_yaml())


def records(received: dict[int, tuple[int, int]]) -> pd.DataFrame:
    """Return records of the first flow: packet number -> losses before it on links, and in queues."""
    columns = {
        "t_s": [STEP_S * number for number in received],
        "flow": "flow1",
        "backward": np.zeros(len(received), bool),
        "src_port": PORT,
        "sequence": list(received),
        "lost_link_pkts": np.cumsum([on_link for on_link, _ in received.values()], dtype=int),
        "lost_congestion_pkts": np.cumsum([in_queue for _, in_queue in received.values()], dtype=int),
    }
    return pd.DataFrame(columns)


def capture(directory: Path, numbers: Iterable[int]) -> None:
    """Write a capture after the bottleneck: packets with these numbers."""
    edges = (EdgeToEdge(e2e_type=E2eField.SEQUENCE_64, sequence=number) for number in numbers)
    write_pcap(directory / f"{BOTTLENECK}.pcapng", [insert(udp(), [edge]) for edge in edges])


def _names(scenario: Scenario) -> list[str]:
    return [flow.name for flow in scenario.flows]


def _flows(scenario: Scenario) -> pd.DataFrame:
    columns = {
        "flow": _names(scenario),
        "algorithm": [flow.algorithm for flow in scenario.flows],
        "start_s": [flow.start_s for flow in scenario.flows],
        "end_s": scenario.duration_s,
        "base_rtt_us": 10_000,
        "bytes_acked": 2_000_000,
        "goodput_bytes_per_s": 1e6,
        "retrans_pkts": 3,
        "rtt_p50_us": 20_000.0,
        "rtt_p95_us": 30_000.0,
        "received_bytes": 2_000_000,
        "completion_s": 2.0,
    }
    return pd.DataFrame(columns)


def _flow_samples(scenario: Scenario, times_s: np.ndarray) -> pd.DataFrame:
    columns = {
        "cwnd_bytes": MSS_BYTES * (10 + (100 * times_s) % 40),
        "srtt_us": 20_000,
        "bytes_sent": (1e6 * times_s).astype(int),
        "bytes_retrans": (1e3 * times_s).astype(int),
        "bytes_acked": (1e6 * times_s).astype(int),
    }
    parts = [pd.DataFrame({"t_s": times_s, "flow": name, **columns}) for name in _names(scenario)]
    return pd.concat(parts, ignore_index=True)


def _telemetry(scenario: Scenario, times_s: np.ndarray) -> dict[str, pd.DataFrame]:
    """All flows have the same: it is made once, as making tables takes long."""
    lost = np.where(np.arange(1, len(times_s) + 1) % 10 == 0, LOST_PKTS, 0)
    key = {"t_s": times_s, "flow": "", "connection": 0, "backward": False}
    of_flow = {
        "interval_us": 10_000,
        "lost_pkts": lost,
        "lost_congestion_pkts": 0,
        "lost_link_pkts": lost,
        "lost_unknown_pkts": 0,
        "cwnd_bytes": MSS_BYTES * (10 + (100 * times_s) % 40),
    }
    ages = (
        {"interval_us": 10_000, "age_us": np.linspace(500, 3_000, len(times_s))},
        {"interval_us": 0, "age_us": 20_000},
    )
    of_nodes = [
        {
            "hop": hop,
            "node": node,
            "interval_us": 10_000,
            "queue_depth_pkts": QUEUE_PKTS + (100 * times_s) % 3 - 1,
            "queue_free_pkts": 50 - QUEUE_PKTS,
            "arrival_pkts_per_s": ARRIVAL_PKTS_PER_S,
            "transit_delay_us": 600 * QUEUE_PKTS if node == "ap1" else 0,
            "lost_pkts": lost if node == "ap2" else 0,
        }
        for hop, node in enumerate(("ap1", "ap2"), 1)
    ]
    parts = {"int_summaries": [of_flow], "int_hops": of_nodes, "int_decisions": ages}
    names = _names(scenario)
    return {name: _for_each(names, key, columns) for name, columns in parts.items()}


def _for_each(names: list[str], key: dict[str, Any], parts: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """Return these rows for each flow."""
    rows = pd.concat([pd.DataFrame(key | columns) for columns in parts], ignore_index=True)
    every = pd.concat([rows] * len(names), ignore_index=True)
    return every.assign(flow=np.repeat(names, len(rows)))
