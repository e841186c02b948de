"""The sink's causes of losses, compared with captures."""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd

from experiments.metrics import NAN
from experiments.papers.int_adaptive.chain import BOTTLENECK
from experiments.results import Result
from telemetry.ioam import CaptureReader, EdgeToEdge

CAUSES: Final = ("link", "congestion")


def gaps(result: Result) -> pd.DataFrame:
    """Return every gap in the packets that reached the sink, with its losses by true and by reported cause.

    The source numbers packets. A packet in the capture after the bottleneck that did not reach the sink was
    lost on the lossy link; a packet missing from the capture was dropped by the bottleneck's queue. No other
    link of the chain loses packets.

    Returns:
        Columns `t_s` (when the packet after the gap reached the sink), `flow`, `link_pkts`,
        `congestion_pkts`, `reported_link_pkts`, `reported_congestion_pkts`; a row for each gap.
    """
    passed = _numbers_in(result)
    records = result.int_records.sort_values("sequence", kind="stable")
    records = records[~records["backward"]].drop_duplicates(["flow", "sequence"])  # a row for each node
    rows = []
    for flow, own in records.groupby("flow", sort=False):
        through = passed[int(own["src_port"].iloc[0])]
        sequences = own["sequence"].to_numpy(dtype=np.int64)
        for at in np.flatnonzero(np.diff(sequences) > 1) + 1:
            lost = range(sequences[at - 1] + 1, sequences[at])
            on_air = sum(number in through for number in lost)
            before, behind = own.iloc[at - 1], own.iloc[at]
            rows.append(
                {
                    "t_s": behind["t_s"],
                    "flow": flow,
                    "link_pkts": on_air,
                    "congestion_pkts": len(lost) - on_air,
                    **{
                        f"told_{one}_pkts": behind[f"lost_{one}_pkts"] - before[f"lost_{one}_pkts"]
                        for one in CAUSES
                    },
                }
            )
    columns = ["t_s", "flow", *(f"{reported}{one}_pkts" for reported in ("", "told_") for one in CAUSES)]
    return pd.DataFrame(rows, columns=columns)


def matrix(found: pd.DataFrame) -> dict[str, float]:
    """Return the number of lost packets by true and reported cause.

    Returns:
        `TRUE_as_REPORTED_pkts` for each pair of `CAUSES`, `untold_pkts` without a reported cause, and
        `right_ratio`. In a gap with both causes, the numbers per cause are compared.
    """
    true = {one: found[f"{one}_pkts"].astype(float) for one in CAUSES}
    reported = {one: found[f"told_{one}_pkts"].fillna(0).astype(float) for one in CAUSES}
    right = {one: np.minimum(true[one], reported[one]) for one in CAUSES}
    pairs = {}
    for one, other in (CAUSES, CAUSES[::-1]):
        wrong = np.minimum(true[one] - right[one], reported[other] - right[other])
        pairs[f"{one}_as_{one}_pkts"] = float(right[one].sum())
        pairs[f"{one}_as_{other}_pkts"] = float(wrong.sum())
    lost = float(sum(one.sum() for one in true.values()))
    correct = float(sum(one.sum() for one in right.values()))
    untold = lost - sum(pairs.values())
    return pairs | {"untold_pkts": untold, "right_ratio": correct / lost if lost else NAN}


def _numbers_in(result: Result) -> dict[int, set[int]]:
    """Return the sequence numbers of the packets behind the bottleneck, by the flow's local port."""
    assert result.directory is not None, "captures are files"
    found: dict[int, set[int]] = {}
    for record in CaptureReader(result.directory / f"{BOTTLENECK}.pcapng"):
        for placed in record.options:
            option = placed.option
            if isinstance(option, EdgeToEdge) and option.sequence is not None and record.flow is not None:
                found.setdefault(record.flow.src_port or 0, set()).add(option.sequence)
    return found
