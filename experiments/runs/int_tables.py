"""The tables of in-band telemetry: what sinks said of the flows of a run, and when algorithms had it.

A result of a run without telemetry has none of these files; the tables are empty then.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
import msgspec.inspect
import pandas as pd
import pyarrow as pa

from experiments.runs.recording import IntFiles, Recording
from experiments.runs.steering import DECISION_COLUMNS
from telemetry.inband import records
from telemetry.schema import About, IntHop, IntSummary

_F64, _I64, _TEXT, _BOOL = pa.float64(), pa.int64(), pa.string(), pa.bool_()
_OF_FLOW: Final = {"t_s": _F64, "flow": _TEXT, "connection": _I64, "backward": _BOOL}
_NAMES: Final = ["flow", "connection", "backward"]
_ENDS: Final = ["src", "src_port", "dst", "dst_port"]
_ELSEWHERE: Final = {*About.__struct_fields__, "end_mono_us", "hops"}
_SUMMARY: Final = [name for name in IntSummary.__struct_fields__ if name not in _ELSEWHERE]
_RECORD: Final = {
    name: _I64 if pa.types.is_integer(kind) else kind
    for name, kind in records.COLUMNS.items()
    if name not in ("t_us", "protocol")
}
_HOP: Final = list(IntHop.__struct_fields__)


def _typed(struct: type[msgspec.Struct], names: Sequence[str]) -> dict[str, pa.DataType]:
    """Return columns for fields of the bus: counts, means and ratios, or words."""
    found = {}
    for field in msgspec.inspect.type_info(struct).fields:  # type: ignore[attr-defined]
        if field.encode_name in names:
            kinds = {type(kind) for kind in getattr(field.type, "types", (field.type,))}
            number = _F64 if msgspec.inspect.FloatType in kinds else _I64
            found[field.encode_name] = _TEXT if msgspec.inspect.LiteralType in kinds else number
    return found


COLUMNS: Final[dict[str, dict[str, pa.DataType]]] = {
    "int_summaries": {**_OF_FLOW, **_typed(IntSummary, _SUMMARY)},
    "int_hops": {**_OF_FLOW, "hop": _I64, "node": _TEXT, **_typed(IntHop, _HOP)},
    "int_records": {**_OF_FLOW, **_RECORD, "node": _TEXT},
    "int_decisions": {**_OF_FLOW, "interval_us": _I64, "age_us": _I64},
}
"""Table -> its columns and their types; `docs/experiments.md` says what they mean."""

Ends = tuple[str, int, str, int]


def made(recording: Recording) -> dict[str, pd.DataFrame]:
    """Return the tables of a recording by name; none, if there was no telemetry."""
    files = recording.telemetry
    if files is None:
        return {}
    flows = _Flows(recording, files)
    summaries, hops = _told(files, flows)
    return {
        "int_summaries": summaries,
        "int_hops": hops,
        "int_records": _records(files, flows),
        "int_decisions": _decisions(files, flows),
    }


class _Flows:
    """Knows which flow of the run a 5-tuple is."""

    def __init__(self, recording: Recording, files: IntFiles) -> None:
        self._recording = recording
        self._files = files
        self._connections: dict[str, dict[tuple[int, int], int]] = {}
        for flow in recording.flows:
            own = recording.rows_of(flow)
            ports = zip(own["sport"].tolist(), own["dport"].tolist(), strict=True) if len(own) else ()
            numbers = pd.factorize(own["cookie"])[0] if len(own) else ()  # as in `connection_samples`
            self._connections[flow.name] = dict(zip(ports, map(int, numbers), strict=True))

    def named(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return a table's rows of flows of the run, with their names and the time since its start.

        Args:
            frame: Columns `t_us` and those of `_ENDS`.
        """
        ends = frame[_ENDS].drop_duplicates()
        found = [self._flow(one) for one in ends.itertuples(index=False, name=None)]
        known = [one is not None for one in found]
        ours = pd.DataFrame(
            [one for one in found if one is not None], columns=_NAMES, index=ends.index[known]
        )
        named = frame.reset_index(names="at").merge(ends.join(ours, how="inner"), on=_ENDS).set_index("at")
        return named.assign(t_s=(named["t_us"] - self._recording.start_us) / 1e6)

    def _flow(self, ends: Ends) -> tuple[str, int | None, bool] | None:
        src, src_port, dst, dst_port = ends
        for flow in self._recording.flows:
            if flow.sockets is None:
                continue
            near, far = (self._files.addresses[name] for name in (flow.sender, flow.receiver))
            for backward, way in ((False, (near, far)), (True, (far, near))):
                ports = (dst_port, src_port) if backward else (src_port, dst_port)
                if (src, dst) == way and flow.sockets.has(flow.sockets.netns, *ports):
                    return flow.name, self._connections[flow.name].get(ports), backward
        return None


def _told(files: IntFiles, flows: _Flows) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return what sinks told, of flows and of the nodes that these met."""
    lines = files.summaries.read_bytes() if files.summaries.exists() else b""
    told = msgspec.json.Decoder(IntSummary).decode_lines(lines)
    summaries = flows.named(
        pd.DataFrame(
            [(one.end_mono_us, *_picked(one.flow, _ENDS), *_picked(one, _SUMMARY)) for one in told],
            columns=["t_us", *_ENDS, *_SUMMARY],
        )
    )
    hops = pd.DataFrame(
        [
            (at, number, *_picked(hop, _HOP))
            for at in summaries.index
            for number, hop in enumerate(told[at].hops, 1)
        ],
        columns=["at", "hop", *_HOP],
    )
    hops = hops.assign(node=hops["node_id"].map(files.nodes))
    return summaries, hops.join(summaries[list(_OF_FLOW)], on="at")


def _picked(struct: msgspec.Struct, names: list[str]) -> list[object]:
    return [getattr(struct, name) for name in names]


def _records(files: IntFiles, flows: _Flows) -> pd.DataFrame:
    if files.records is None or not files.records.exists():
        return pd.DataFrame(columns=list(COLUMNS["int_records"]))
    rows = records.read_csv(files.records)
    return flows.named(rows.assign(node=rows["node_id"].map(files.nodes)))


def _decisions(files: IntFiles, flows: _Flows) -> pd.DataFrame:
    noted = pd.DataFrame(columns=list(DECISION_COLUMNS))
    if files.decisions.exists():
        noted = pd.read_csv(files.decisions)
    noted = flows.named(noted)
    noted = noted[noted["backward"].eq(False)]  # receivers' sockets have algorithms, too
    return noted.assign(backward=noted["of_acks"], age_us=noted["t_us"] - noted["end_mono_us"])
