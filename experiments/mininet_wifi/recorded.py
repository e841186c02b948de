"""What a demonstration recorded, read back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import msgspec

from experiments.mininet_wifi.findings import Phase, Seen
from telemetry.ioam.codec import CaptureReader
from telemetry.schema import IntSummary

PACKETS: Final = "packets.pcap"
HEARD: Final = "agent.jsonl"
"""Files in the folder of a demonstration: a capture at sta2, and what the agent heard and reported."""


def read(folder: Path, loss_ratio: float) -> Seen:
    """Return what was recorded.

    Args:
        folder: Which has the files.
        loss_ratio: Share of packets that the air was told to lose.

    Raises:
        IoamError: If there is no capture.
        OSError: If there is no account of the agent.
    """
    rows = [json.loads(line) for line in (folder / HEARD).read_text().splitlines()]
    heard = [row for row in rows if row["stream"] == "telemetry" and row["kind"] == "int_summary"]
    windows_bytes: dict[Phase, list[int]] = {}
    for row in rows:
        if row["stream"] == "report" and row["settled"]:
            windows_bytes.setdefault(row["phase"], []).append(row["cwnd_bytes"])
    return Seen(
        packets=list(CaptureReader(folder / PACKETS)),
        summaries=[_summary(row["body"]) for row in heard],
        n_delivered=len(heard),
        windows_bytes=windows_bytes,
        loss_ratio=loss_ratio,
    )


def _summary(body: dict[str, Any]) -> IntSummary:
    return msgspec.convert(body, IntSummary)
