"""The tables of regimes: measurements and decisions of receivers, and regimes of flows.

Results of runs without receiver agents lack these files; the tables are empty then.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import pandas as pd
import pyarrow as pa

from ccplane.agent.bus import flow_id
from ccplane.agent.events import Event
from ccplane.agent.features.regime.actuator import RegimeEvent
from experiments.runs.messages import ENDS, Flows, columns_of, lines_of
from experiments.runs.recording import Recording
from telemetry.regime import Observation
from telemetry.schema import About, ReceiverSignal, RegimeDecision

_F64, _I64, _TEXT, _BOOL = pa.float64(), pa.int64(), pa.string(), pa.bool_()
_OF_PEER: Final = {"t_s": _F64, "host": _TEXT, "peer": _TEXT}
_SIGNAL: Final = [name for name in ReceiverSignal.__struct_fields__ if name not in About.__struct_fields__]
_DECISION: Final = ["score", "density", "estimate", "regime", "reason"]
_SEEN: Final = [*(name for name in Observation.__struct_fields__ if name != "t_s"), "baseline_ms"]
_EVENT: Final = {"event": "kind", "before": "before", "regime": "regime"}
"""Column -> field of `RegimeEvent`."""

EVENTS: Final = "regime:"
"""Prefix of the agent's events about a flow's regime."""

COLUMNS: Final[dict[str, dict[str, pa.DataType]]] = {
    "receiver_signals": {**_OF_PEER, **columns_of(ReceiverSignal, _SIGNAL)},
    "regimes": {
        **_OF_PEER,
        **dict.fromkeys(_SEEN, _F64),
        **columns_of(RegimeDecision, _DECISION),
        "switched": _BOOL,
    },
    "regime_events": {
        "t_s": _F64,
        "flow": _TEXT,
        "connection": _I64,
        "backward": _BOOL,
        **dict.fromkeys((*_EVENT, "after", "reason"), _TEXT),
    },
}
"""Table -> its columns and their types; `docs/scenarios.md` explains them."""


def line_of(event: Event) -> bytes:
    """Return an agent event as the equivalent line of `ccp regime apply --json`."""
    detail = {name: one for name, one in event.detail.items() if name in RegimeEvent.__struct_fields__}
    reported = RegimeEvent(
        kind=event.kind,
        t_wall_us=event.t_wall_us,
        t_mono_us=event.t_us,
        flow=None if event.flow is None else flow_id(event.flow),
        **detail,
    )
    return msgspec.json.encode(reported) + b"\n"


def made(recording: Recording) -> dict[str, pd.DataFrame]:
    """Return the tables of a recording by name; empty without receiver agents."""
    files = recording.regimes
    if files is None:
        return {}
    reported = [(host, line) for host, file in files.receivers.items() for line in lines_of(file)]
    return {
        "receiver_signals": _of_peers(recording, reported, ReceiverSignal, _SIGNAL),
        "regimes": _of_peers(recording, reported, RegimeDecision, [*_SEEN, *_DECISION, "switched"]),
        "regime_events": _events(recording, files.events),
    }


def _of_peers(
    recording: Recording, reported: list[tuple[str, dict[str, Any]]], kind: type, names: Sequence[str]
) -> pd.DataFrame:
    """Return the receivers' messages of one kind about peers, without those about single connections."""
    hosts = {address: name for name, both in recording.addresses.items() for address in both}
    tag = kind.__struct_config__.tag  # type: ignore[attr-defined]
    rows = [
        (
            (line["t_mono_us"] - recording.start_us) / 1e6,
            host,
            hosts.get(line["peer"], line["peer"]),
            *(line[name] for name in names),
        )
        for host, line in reported
        if line["kind"] == tag and line["flow"] is None
    ]
    return pd.DataFrame(rows, columns=[*_OF_PEER, *names])


def _events(recording: Recording, files: Sequence[Path]) -> pd.DataFrame:
    reported = [msgspec.convert(line, RegimeEvent) for file in files for line in lines_of(file)]
    frame = pd.DataFrame(
        [
            (
                one.t_mono_us,
                *(getattr(one, name) for name in _EVENT.values()),
                one.after or one.wanted,
                one.reason or one.why,
                *((None,) * len(ENDS) if one.flow is None else (getattr(one.flow, end) for end in ENDS)),
            )
            for one in reported
        ],
        columns=["t_us", *_EVENT, "after", "reason", *ENDS],
    )
    of_flows = frame["src"].notna()
    of_hosts = frame[~of_flows]
    of_hosts = of_hosts.assign(t_s=(of_hosts["t_us"] - recording.start_us) / 1e6)
    parts = [part for part in (Flows(recording).named(frame[of_flows]), of_hosts) if len(part)]
    return pd.concat(parts).sort_values("t_s", kind="stable") if parts else frame
