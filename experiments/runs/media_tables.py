"""The tables of media over RTP."""

from __future__ import annotations

from typing import Final

import pandas as pd
import pyarrow as pa

from experiments import metrics
from experiments.runs.recording import Recording
from experiments.traffic import MediaPacket
from experiments.traffic.breaker import tripped

_F64, _I64, _TEXT = pa.float64(), pa.int64(), pa.string()

COLUMNS: Final[dict[str, dict[str, pa.DataType]]] = {
    "media": {
        "flow": _TEXT,
        "sent_pkts": _I64,
        "lost_pct": _F64,
        "late_pct": _F64,
        "delay_p50_us": _F64,
        "delay_p95_us": _F64,
        "breaker": _TEXT,
        "breaker_s": _F64,
    },
    "media_packets": {
        "flow": _TEXT,
        "number": _I64,
        "frame": _I64,
        "len_bytes": _I64,
        "sent_s": _F64,
        "delay_us": _I64,
        "playout_us": _I64,
    },
}
"""Table -> its columns and their types."""


def made(recording: Recording) -> dict[str, pd.DataFrame]:
    """Return both tables of a recording."""
    rows = []
    trips = {}
    for flow in recording.flows:
        if flow.traffic is not None and (media := flow.traffic.media) is not None:
            start_us = media.packets[0].sent_us if media.packets else 0
            trips[flow.name] = tripped(media, start_us)
            rows += [
                {
                    "flow": flow.name,
                    "number": number,
                    "frame": one.frame,
                    "len_bytes": one.len_bytes,
                    "sent_s": (one.sent_us - recording.start_us) / 1e6,
                    "delay_us": _delay_us(one),
                    "playout_us": media.playout_us,
                }
                for number, one in enumerate(media.packets)
            ]
    packets = pd.DataFrame(rows, columns=list(COLUMNS["media_packets"]))
    # A whole column of integers with missing values: the table has null, not NaN.
    packets["delay_us"] = packets["delay_us"].astype("Int64")
    summary = metrics.media(packets).reset_index()
    found = [trips[name] for name in summary["flow"]]
    summary["breaker"] = [None if trip is None else trip.cause for trip in found]
    summary["breaker_s"] = [None if trip is None else trip.after_s for trip in found]
    return {"media": summary, "media_packets": packets}


def _delay_us(packet: MediaPacket) -> int | None:
    return None if packet.arrived_us is None else packet.arrived_us - packet.sent_us
