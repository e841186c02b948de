"""The table of rate limits: the limits that R-TCP found, and their outcome.

Results of runs without R-TCP have no such file; their table is empty.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
import pandas as pd
import pyarrow as pa

from ccp_algs.rtcp.remote import Remote
from ccplane.agent.events import Event
from experiments.features.rtcp.names import NAME
from experiments.runs.messages import lines_of
from experiments.runs.recording import Recording

KIND: Final = "verdict"
"""Kinds of the lines that report rate limits."""

_F64, _I64, _TEXT = pa.float64(), pa.int64(), pa.string()
_REPORTED: Final = {
    "state": _TEXT,
    "bucket_bytes": _I64,
    "rate_bytes_per_s": _I64,
    "tokens_bytes": _I64,
    "active_flows": _I64,
}

COLUMNS: Final[dict[str, dict[str, pa.DataType]]] = {
    "rate_limits": {"t_s": _F64, "sender": _TEXT, "receiver": _TEXT, "flow": _TEXT, **_REPORTED}
}
"""Table -> its columns and their types; `docs/scenarios.md` explains them."""


def line_of(event: Event) -> bytes:
    """Return an agent event as the equivalent line of `ccp rtcp attach --json`.

    The line has the address of the sender instead of the network namespace.
    """
    assert event.flow is not None
    about = {"kind": KIND, "t_mono_us": event.t_us, "server": event.flow.src_addr}
    return msgspec.json.encode(about | event.detail) + b"\n"


def made(recording: Recording) -> dict[str, pd.DataFrame]:
    """Return the table of a recording by name; empty if it has no rows."""
    files = recording.reported.get(NAME)
    if not files:
        return {}
    senders = {one.sockets.netns: one.sender for one in recording.flows if one.sockets is not None}
    hosts = {address: name for name, both in recording.addresses.items() for address in both}
    rows: list[dict[str, Any]] = []
    for line in (line for file in files for line in lines_of(file)):
        if line["kind"] != KIND:
            continue
        sender = hosts.get(line["server"]) if "server" in line else senders.get(line["netns"])
        client = Remote.named(line["client"])
        flows = [
            one
            for one in recording.flows
            if one.sender == sender and any(map(client.is_at, recording.addresses[one.receiver]))
        ]
        receivers = {one.receiver for one in flows}
        if not receivers:
            continue
        rows.append(
            {
                "t_s": (line["t_mono_us"] - recording.start_us) / 1e6,
                "sender": sender,
                "receiver": receivers.pop() if len(receivers) == 1 else None,
                "flow": flows[0].name if len(flows) == 1 else None,
                **{name: line[name] for name in _REPORTED},
            }
        )
    frame = pd.DataFrame(rows, columns=list(COLUMNS["rate_limits"]))
    return {"rate_limits": frame.sort_values("t_s", kind="stable")}
