"""What telemetry said, held against what the emulator knows of itself.

The emulator samples its links; telemetry is what packets found there. A packet reaches the sink later than it
met a node, by the time that it waited there and the way ahead of it: the truth is taken by so much earlier.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pandas as pd

from experiments.metrics import NAN
from experiments.papers.int_adaptive.chain import (
    BOTTLENECK,
    BOTTLENECK_NODE,
    LOSSY,
    LOSSY_NODE,
    sampled,
    seen,
    way_us,
)
from experiments.results import Result
from telemetry.ioam import CaptureReader, EdgeToEdge

WINDOW_S: Final = 2.0
"""Over what time reported and true values are compared [s]."""
FLOW_WINDOW_S: Final = 1.0
"""For how long a node counts a flow that says no more; see `docs/inband.md` [s]."""
QUANTITIES: Final = ("queue_depth", "arrival_rate", "flow_count", "link_loss")

_SURE_S: Final = 0.2
"""Until packets of a flow that was started have passed every node, and a summary has said so [s]."""
_LEAST: Final = 1.0
"""A relative error of less than a packet on average says nothing."""


# --- values ------------------------------------------------------------------------------------------------


def comparison(result: Result, window_s: float = WINDOW_S) -> pd.DataFrame:
    """Return what telemetry said of the bottleneck and of the lossy link, and what was true.

    Args:
        result: A run.
        window_s: Over what time queue, arrivals and flows are compared [s]; losses are counted from a flow's
            first summary to its last one.

    Returns:
        A row for each flow, quantity of `QUANTITIES` and window: `flow`, `quantity`, `t_s` (its beginning),
        `told`, `true`, `error_ratio`. The first second is left out, and so are windows in which a flow
        starts or ends, and those in which the truth is less than one.
    """
    rows: list[dict[str, Any]] = []
    queue, lossy = sampled(result, BOTTLENECK), sampled(result, LOSSY)
    bottleneck = seen(result, BOTTLENECK_NODE)
    bottleneck = bottleneck.assign(end_s=bottleneck["t_s"] - _behind_s(result, bottleneck))
    for flow, own in bottleneck.groupby("flow", sort=False):
        for start_s, active in _windows(result, window_s):
            told = own[own["t_s"].between(start_s, start_s + window_s)]
            if len(told) < _LEAST_SUMMARIES:
                continue
            # What a summary says is of the time between the last packet of the one before and its own last.
            told, since_s, until_s = told.iloc[1:], told["end_s"].iloc[0], told["end_s"].iloc[-1]
            means = {name: np.average(told[name], weights=told["node_interval_us"]) for name in _MEANS}
            arrived = _grown(queue, "arrived_pkts", since_s, until_s)
            depth = queue.loc[queue["t_s"].between(since_s, until_s), "queue_pkts"].mean()
            for quantity, column, true in (
                ("queue_depth", "queue_depth_pkts", depth),
                ("arrival_rate", _RATE, arrived / (until_s - since_s)),
                ("flow_count", "flow_count", active),
            ):
                rows.append(_row(flow, quantity, start_s, means[column], true))
    for flow, own in seen(result, LOSSY_NODE).groupby("flow", sort=False):
        ends_s = own["t_s"] - way_us(result, LOSSY_NODE) / 1e6
        lost = _grown(lossy, "dropped_loss_pkts", ends_s.iloc[0], ends_s.iloc[-1])
        rows.append(_row(flow, "link_loss", ends_s.iloc[0], own["link_lost_pkts"].iloc[1:].sum(), lost))
    found = pd.DataFrame(rows)
    return found[found["true"] >= _LEAST].reset_index(drop=True)


_RATE: Final = "arrival_pkts_per_s"
_MEANS: Final = ("queue_depth_pkts", _RATE, "flow_count")
_LEAST_SUMMARIES: Final = 3


def accuracy(result: Result) -> dict[str, float]:
    """Return for each quantity the median and the 95th percentile of the error, over flows and windows."""
    found = comparison(result)
    errors = {one: found.loc[found["quantity"] == one, "error_ratio"] for one in QUANTITIES}
    return {
        f"{one}_error_p{q}_ratio": float(errors[one].quantile(q / 100))
        for one in QUANTITIES
        for q in (50, 95)
    }


def told_and_true(result: Result, flow: str) -> pd.DataFrame:
    """Return queue and arrivals as telemetry of one flow has them, and as the emulator has them.

    Args:
        result: The run.
        flow: The flow.

    Returns:
        Columns `t_s` (at the node), `flow` (`telemetry` or `emulator`), `queue_depth_pkts`,
        `arrival_pkts_per_s`, in steps of 100 ms.
    """
    own = seen(result, BOTTLENECK_NODE)
    own = own[own["flow"] == flow]
    own = own.assign(t_s=own["t_s"] - _behind_s(result, own))
    weights = own["node_interval_us"]
    weighted = own[["queue_depth_pkts", _RATE]].mul(weights, axis=0)
    told = weighted.groupby(_steps(own)).sum().div(weights.groupby(_steps(own)).sum(), axis=0)
    samples = sampled(result, BOTTLENECK)
    true = samples["queue_pkts"].groupby(_steps(samples)).mean().to_frame("queue_depth_pkts")
    edges = np.append(true.index, true.index[-1] + _STEP_S)
    true[_RATE] = np.diff(np.interp(edges, samples["t_s"], samples["arrived_pkts"])) / _STEP_S
    both = {"telemetry": told, "emulator": true}
    return pd.concat([one.reset_index().assign(flow=name) for name, one in both.items()], ignore_index=True)


_STEP_S: Final = 0.1


def _steps(table: pd.DataFrame) -> pd.Series:
    """Return when the step of each row begins."""
    return table["t_s"].floordiv(_STEP_S).mul(_STEP_S).round(6)


def _windows(result: Result, window_s: float) -> Iterator[tuple[float, int]]:
    """Yield when windows begin, and how many flows there are in each [s]."""
    starts_s, stops_s = (result.flows[one].to_numpy() for one in ("start_s", "end_s"))
    end_s = float(result.flow_samples["t_s"].max())
    for start_s in np.arange(1.0, end_s - window_s, window_s):
        ends_s, sure_s = start_s + window_s, start_s - _SURE_S
        new = (sure_s <= starts_s) & (starts_s <= ends_s)
        gone = (sure_s - FLOW_WINDOW_S <= stops_s) & (stops_s <= ends_s)
        if not (new | gone).any():
            yield float(start_s), int(((starts_s < start_s) & (stops_s > start_s)).sum())


def _behind_s(result: Result, of_bottleneck: pd.DataFrame) -> pd.Series:
    """Return how long before its arrival at the sink a packet came to the bottleneck [s]."""
    return (of_bottleneck["transit_delay_us"] + way_us(result, BOTTLENECK_NODE)) / 1e6


def _grown(samples: pd.DataFrame, counter: str, start_s: float, stop_s: float) -> float:
    first, last = np.interp([start_s, stop_s], samples["t_s"], samples[counter])
    return float(last - first)


def _row(flow: object, quantity: str, t_s: float, told: float, true: float) -> dict[str, Any]:
    error = abs(told - true) / true if true else NAN
    return {
        "flow": flow,
        "quantity": quantity,
        "t_s": t_s,
        "told": told,
        "true": true,
        "error_ratio": error,
    }


# --- causes of losses --------------------------------------------------------------------------------------

CAUSES: Final = ("link", "congestion")


def gaps(result: Result) -> pd.DataFrame:
    """Return every gap in what reached the sink: how many packets each cause took, and what the sink said.

    A packet is numbered by the source. One that left the bottleneck (the capture at its end has it), but did
    not reach the sink, was lost on the lossy link; one that did not even leave the bottleneck found no room
    there. No other link of the chain loses or drops anything.

    Args:
        result: A run with records of packets and a capture of the bottleneck.

    Returns:
        Columns `t_s` (when the packet behind the gap reached the sink), `flow`, `link_pkts`,
        `congestion_pkts`, `told_link_pkts`, `told_congestion_pkts`; a row for each gap.
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
    columns = ["t_s", "flow", *(f"{told}{one}_pkts" for told in ("", "told_") for one in CAUSES)]
    return pd.DataFrame(rows, columns=columns)


def matrix(found: pd.DataFrame) -> dict[str, float]:
    """Return how many packets of each cause were said to be of each.

    Args:
        found: Of `gaps`.

    Returns:
        `TRUE_as_TOLD_pkts` for each pair of `CAUSES`, `untold_pkts` for losses of which the sink said
        nothing, and `right_ratio`. In a gap of both causes it counts how many are right, not which.
    """
    true = {one: found[f"{one}_pkts"].astype(float) for one in CAUSES}
    told = {one: found[f"told_{one}_pkts"].fillna(0).astype(float) for one in CAUSES}
    right = {one: np.minimum(true[one], told[one]) for one in CAUSES}
    pairs = {}
    for one, other in (CAUSES, CAUSES[::-1]):
        wrong = np.minimum(true[one] - right[one], told[other] - right[other])
        pairs[f"{one}_as_{one}_pkts"] = float(right[one].sum())
        pairs[f"{one}_as_{other}_pkts"] = float(wrong.sum())
    lost = float(sum(one.sum() for one in true.values()))
    correct = float(sum(one.sum() for one in right.values()))
    untold = lost - sum(pairs.values())
    return pairs | {"untold_pkts": untold, "right_ratio": correct / lost if lost else NAN}


def _numbers_in(result: Result) -> dict[int, set[int]]:
    """Return the numbers of the packets at the end of the bottleneck, by the flow's local port."""
    assert result.directory is not None, "captures are files"
    found: dict[int, set[int]] = {}
    for record in CaptureReader(result.directory / f"{BOTTLENECK}.pcapng"):
        for placed in record.options:
            option = placed.option
            if isinstance(option, EdgeToEdge) and option.sequence is not None and record.flow is not None:
                found.setdefault(record.flow.src_port or 0, set()).add(option.sequence)
    return found
