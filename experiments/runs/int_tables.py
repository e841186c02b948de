"""The tables of in-band telemetry: sinks' data on the flows of a run, and when algorithms received it.

Results of runs without telemetry lack these files; the tables are empty then.
"""

from __future__ import annotations

from typing import Final

import msgspec
import msgspec.inspect
import pandas as pd
import pyarrow as pa

from experiments.runs.messages import ENDS, Flows, columns_of
from experiments.runs.noted import DECISION_COLUMNS
from experiments.runs.recording import IntFiles, Recording
from telemetry.inband import records
from telemetry.schema import About, IntHop, IntSummary

_F64, _I64, _TEXT, _BOOL = pa.float64(), pa.int64(), pa.string(), pa.bool_()
_OF_FLOW: Final = {"t_s": _F64, "flow": _TEXT, "connection": _I64, "backward": _BOOL}
_ELSEWHERE: Final = {*About.__struct_fields__, "end_mono_us", "hops"}
_SUMMARY: Final = [name for name in IntSummary.__struct_fields__ if name not in _ELSEWHERE]
_RECORD: Final = {
    name: _I64 if pa.types.is_integer(kind) else kind
    for name, kind in records.COLUMNS.items()
    if name not in ("t_us", "protocol")
}
_HOP: Final = list(IntHop.__struct_fields__)


COLUMNS: Final[dict[str, dict[str, pa.DataType]]] = {
    "int_summaries": {**_OF_FLOW, **columns_of(IntSummary, _SUMMARY)},
    "int_hops": {**_OF_FLOW, "hop": _I64, "node": _TEXT, **columns_of(IntHop, _HOP)},
    "int_records": {**_OF_FLOW, **_RECORD, "node": _TEXT},
    "int_decisions": {**_OF_FLOW, "interval_us": _I64, "age_us": _I64},
}
"""Table -> its columns and their types; `docs/scenarios.md` explains them."""


def made(recording: Recording) -> dict[str, pd.DataFrame]:
    """Return the tables of a recording by name; empty without telemetry."""
    files = recording.telemetry
    if files is None:
        return {}
    flows = Flows(recording)
    summaries, hops = _reported(files, flows)
    return {
        "int_summaries": summaries,
        "int_hops": hops,
        "int_records": _records(files, flows),
        "int_decisions": _decisions(files, flows),
    }


def _reported(files: IntFiles, flows: Flows) -> tuple[pd.DataFrame, pd.DataFrame]:
    lines = files.summaries.read_bytes() if files.summaries.exists() else b""
    reported = msgspec.json.Decoder(IntSummary).decode_lines(lines)
    summaries = flows.named(
        pd.DataFrame(
            [(one.end_mono_us, *_picked(one.flow, ENDS), *_picked(one, _SUMMARY)) for one in reported],
            columns=["t_us", *ENDS, *_SUMMARY],
        )
    )
    hops = pd.DataFrame(
        [
            (at, number, *_picked(hop, _HOP))
            for at in summaries.index
            for number, hop in enumerate(reported[at].hops, 1)
        ],
        columns=["at", "hop", *_HOP],
    )
    hops = hops.assign(node=hops["node_id"].map(files.nodes))
    return summaries, hops.join(summaries[list(_OF_FLOW)], on="at")


def _picked(struct: msgspec.Struct, names: list[str]) -> list[object]:
    return [getattr(struct, name) for name in names]


def _records(files: IntFiles, flows: Flows) -> pd.DataFrame:
    if files.records is None or not files.records.exists():
        return pd.DataFrame(columns=list(COLUMNS["int_records"]))
    rows = records.read_csv(files.records)
    return flows.named(rows.assign(node=rows["node_id"].map(files.nodes)))


def _decisions(files: IntFiles, flows: Flows) -> pd.DataFrame:
    noted = pd.DataFrame(columns=list(DECISION_COLUMNS))
    if files.decisions.exists():
        noted = pd.read_csv(files.decisions)
    noted = flows.named(noted)
    noted = noted[noted["backward"].eq(False)]  # receivers' sockets also have algorithms
    return noted.assign(backward=noted["of_acks"], age_us=noted["t_us"] - noted["end_mono_us"])
