"""Messages of the bus as tables: their fields as columns, and the flows that they refer to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import msgspec.inspect
import pandas as pd
import pyarrow as pa

from experiments.runs.recording import Recording

ENDS: Final = ["src", "src_port", "dst", "dst_port"]
_F64, _I64, _TEXT = pa.float64(), pa.int64(), pa.string()
_NAMES: Final = ["flow", "connection", "backward"]

Ends = tuple[str, int, str, int]


def lines_of(file: Path) -> Iterator[dict[str, Any]]:
    """Yield a program's lines of JSON, without an incomplete last line."""
    *whole, _ = file.read_bytes().split(b"\n") if file.exists() else [b""]
    decoder = msgspec.json.Decoder(dict[str, Any])
    for line in whole:
        yield decoder.decode(line)


def columns_of(struct: type[msgspec.Struct], names: Sequence[str]) -> dict[str, pa.DataType]:
    """Return columns for fields of messages: counts, means and ratios, or words."""
    found = {}
    for field in msgspec.inspect.type_info(struct).fields:  # type: ignore[attr-defined]
        if field.encode_name in names:
            kinds = {type(kind) for kind in getattr(field.type, "types", (field.type,))}
            number = _F64 if msgspec.inspect.FloatType in kinds else _I64
            text = kinds & {msgspec.inspect.LiteralType, msgspec.inspect.StrType}
            found[field.encode_name] = _TEXT if text else number
    return found


class Flows:
    """Maps 5-tuples to flows of a run."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._connections: dict[str, dict[tuple[int, int], int]] = {}
        for flow in recording.flows:
            own = recording.rows_of(flow)
            ports = zip(own["sport"].tolist(), own["dport"].tolist(), strict=True) if len(own) else ()
            numbers = pd.factorize(own["cookie"])[0] if len(own) else ()  # as in `connection_samples`
            self._connections[flow.name] = dict(zip(ports, map(int, numbers), strict=True))

    def named(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return the rows about flows of the run, with flow names and run times.

        Args:
            frame: Columns `t_us` and those of `ENDS`, among others.

        Returns:
            These columns, and `t_s`, `flow`, `connection` and `backward`.
        """
        ends = frame[ENDS].drop_duplicates()
        found = [self.flow_of(one) for one in ends.itertuples(index=False, name=None)]
        known = [one is not None for one in found]
        mine = pd.DataFrame(
            [one for one in found if one is not None], columns=_NAMES, index=ends.index[known]
        )
        named = frame.reset_index(names="at").merge(ends.join(mine, how="inner"), on=ENDS).set_index("at")
        return named.assign(t_s=(named["t_us"] - self._recording.start_us) / 1e6)

    def flow_of(self, ends: Ends) -> tuple[str, int | None, bool] | None:
        """Return the flow with these ends; None if they belong to no flow.

        Returns:
            The flow, its connection as in `connection_samples`, and whether the first end is the receiver's.
        """
        src, src_port, dst, dst_port = ends
        for flow in self._recording.flows:
            if flow.sockets is None:
                continue
            near, far = (self._recording.addresses[name] for name in (flow.sender, flow.receiver))
            for backward in (False, True):
                here, there = (far, near) if backward else (near, far)
                ports = (dst_port, src_port) if backward else (src_port, dst_port)
                if src in here and dst in there and flow.sockets.has(flow.sockets.netns, *ports):
                    return flow.name, self._connections[flow.name].get(ports), backward
        return None
