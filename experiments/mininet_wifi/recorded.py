"""Reads the recording of a demo."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import msgspec

from experiments.mininet_wifi.findings import Phase, Seen
from telemetry.ioam.codec import CaptureReader
from telemetry.schema import IntSummary

PACKETS: Final = "packets.pcap"
RECEIVED: Final = "agent.jsonl"
"""Files of a recording: a capture at sta2, and what the agent received and reported."""


def read(folder: Path, loss_ratio: float) -> Seen:
    """Read the recording of a demo.

    Raises:
        IoamError: If the capture is missing.
        OSError: If the agent's file is missing.
    """
    rows = [json.loads(line) for line in (folder / RECEIVED).read_text().splitlines()]
    received = [row for row in rows if row["stream"] == "telemetry" and row["kind"] == "int_summary"]
    windows_bytes: dict[Phase, list[int]] = {}
    for row in rows:
        if row["stream"] == "report" and row["settled"]:
            windows_bytes.setdefault(row["phase"], []).append(row["cwnd_bytes"])
    return Seen(
        packets=list(CaptureReader(folder / PACKETS)),
        summaries=[_summary(row["body"]) for row in received],
        n_delivered=len(received),
        windows_bytes=windows_bytes,
        loss_ratio=loss_ratio,
    )


def _summary(body: dict[str, Any]) -> IntSummary:
    return msgspec.convert(body, IntSummary)
