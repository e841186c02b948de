"""R-TCP: a limit that ends while a flow sends (Figure 17), without random loss and with 2 %.

Each flow is limited to 2 Mbit/s for its first 20 to 22 s, then to 40 Mbit/s. Flows start so far apart that
only a few are fast at the same time.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import msgspec
import pandas as pd

from experiments import plots
from experiments.events import SetLink
from experiments.metrics import NAN, goodput_over_time
from experiments.netlab.spec import Bernoulli, Buffer, Direction, TokenBucket
from experiments.papers.estimates import over_runs
from experiments.papers.paper import Findings, Part, Runs, Size
from experiments.papers.r_tcp.operators import (
    BUFFER_PKTS,
    LINK,
    OPERATORS,
    RECEIVER,
    SENDER,
    Pair,
    side_by_side,
)
from experiments.papers.r_tcp.runs import (
    BBR,
    GONE,
    LIMITED_BY,
    R_BBR,
    R_BBR3,
    VARIANTS,
    apart,
    conditions,
    in_order,
    name_of,
)
from experiments.papers.tables import Check, Table
from experiments.plots import label
from experiments.results import Result
from experiments.scenario import FlowSpec, Scenario
from experiments.sweep import Grid
from experiments.traffic.spec import Http
from experiments.units import MBIT

LIFTED_S: Final = 20.0
LATER_S: Final = 2.0
"""Maximum random delay of the end [s]: the time until the end is found depends on when the last probe was."""
AFTER_S: Final = 12.0
"""How long a flow continues after the end of its limit [s]."""
LIMIT_BYTES_PER_S: Final = 2 * MBIT
LIFTED_BYTES_PER_S: Final = 40 * MBIT
RTT_US: Final = 40_000
BUCKET_BYTES: Final = OPERATORS["op1"].bucket_bytes
"""The bucket of operator 1; ccplane chose it, because the paper does not give a bucket."""
LINK_BYTES_PER_S: Final = 100 * MBIT
LOSSES: Final = (0.0, 0.02)
APART_S: Final = 4.0
MUST: Final = (R_BBR, R_BBR3)
"""Algorithms that must find the end of the limit, also with loss."""
SOON_S: Final = 2.0

_ENDLESS: Final = Http(objects=(1 << 40,))


def lifted(name: str, algorithms: Sequence[str], numbers: Sequence[int]) -> Scenario:
    """Return a run of flows whose limit ends: each algorithm with each loss, for each repeat's number."""
    assert BUCKET_BYTES is not None
    pairs: list[Pair] = []
    for number in numbers:
        lifted_s = LIFTED_S + random.Random(f"lift {number}").uniform(0, LATER_S)
        for loss in LOSSES:
            for algorithm in algorithms:
                start_s = APART_S * len(pairs)
                forward = Direction(
                    rate_bytes_per_s=LINK_BYTES_PER_S,
                    delay_us=RTT_US // 2,
                    buffer=Buffer(packets=BUFFER_PKTS),
                    loss=Bernoulli(loss) if loss else None,
                    token_bucket=TokenBucket(LIMIT_BYTES_PER_S, BUCKET_BYTES),
                )
                flow = FlowSpec(
                    name_of(f"loss{100 * loss:g}", number, algorithm),
                    SENDER,
                    RECEIVER,
                    algorithm,
                    traffic=_ENDLESS,
                    start_s=start_s,
                    stop_s=start_s + lifted_s + AFTER_S,
                )
                more = TokenBucket(LIFTED_BYTES_PER_S, BUCKET_BYTES)
                event = SetLink(start_s + lifted_s, LINK, {"token_bucket": msgspec.to_builtins(more)})
                pairs.append(Pair(forward, [flow], [event]))
    return side_by_side(name, pairs, APART_S * len(pairs) + LIFTED_S + LATER_S + AFTER_S, seed=numbers[0])


def lifts(result: Result) -> pd.DataFrame:
    """Return a row for each flow of a run.

    Returns:
        `flow`, `algorithm`, `loss_ratio`; `limited_ratio`, 1 if the limit was found before it ended, else 0;
        `gone_s`, time from the limit's end until the end was found (NaN: never); `fast_s`, time from the
        limit's end until goodput, over a fifth of a second, reached half of the new rate (NaN: never);
        `after_bytes_per_s`, goodput from the limit's end to the flow's end.
    """
    events = result.events[result.events["kind"] == "set_link"]
    links = [json.loads(detail)["link"] for detail in events["detail"].astype(str)]
    ended_s = dict(zip(links, events["t_s"], strict=True))
    rows = []
    for number, flow in enumerate(result.scenario.flows, 1):
        at_s = ended_s[f"path{number}>"]
        reported = result.table("rate_limits")[result.table("rate_limits")["receiver"] == flow.receiver]
        before = reported[reported["t_s"] < at_s]
        gone = reported[(reported["t_s"] >= at_s) & (reported["state"] == GONE)]
        own = result.flow_samples[result.flow_samples["flow"] == flow.name]
        goodput = goodput_over_time(own, 0.2)
        fast = goodput[(goodput["t_s"] > at_s) & (goodput["goodput_bytes_per_s"] > LIFTED_BYTES_PER_S / 2)]
        after = own[own["t_s"] >= at_s]
        row: dict[str, Any] = {"flow": flow.name, "algorithm": flow.algorithm}
        row["loss_ratio"] = float(flow.name.partition("-")[0].removeprefix("loss")) / 100
        row["limited_ratio"] = float(len(before) > 0 and before["state"].iloc[-1] != GONE)
        row["gone_s"] = gone["t_s"].iloc[0] - at_s if len(gone) and row["limited_ratio"] else NAN
        row["fast_s"] = fast["t_s"].iloc[0] - at_s if len(fast) else NAN
        row["after_bytes_per_s"] = (after["bytes_acked"].iloc[-1] - after["bytes_acked"].iloc[0]) / AFTER_S
        rows.append(row)
    return pd.DataFrame(rows)


def _grids(size: Size) -> list[Grid]:
    algorithms = (BBR, *LIMITED_BY.values()) if size.quick else VARIANTS
    return apart(size.name, size.times(6, 10), partial(lifted, "R-TCP: a limit that ends", algorithms))


def _findings(runs: Runs) -> Findings:
    rows = in_order(runs.rows(lifts), "loss_ratio")
    values = ["limited_ratio", "gone_s", "fast_s", "after_bytes_per_s"]
    return Findings(
        [
            Table.of(
                rows,
                "A limit of 2 Mbit/s becomes 40 Mbit/s after 20 to 22 s",
                ["loss_ratio", "algorithm"],
                values,
            )
        ],
        figures(runs.results[0]),
        claims(rows),
    )


def figures(result: Result) -> dict[str, plots.Plot]:
    """Return the delivered bytes of a run's flows over time, a figure for each loss."""
    found = {}
    for loss in LOSSES:
        flows = [flow for flow in result.scenario.flows if flow.name.startswith(f"loss{100 * loss:g}-")]
        parts = []
        for flow in flows:
            own = result.flow_samples[result.flow_samples["flow"] == flow.name]
            parts.append(own.assign(t_s=own["t_s"] - flow.start_s))
        found[f"figure-17-loss{100 * loss:g}"] = plots.time_series(
            pd.concat(parts),
            pd.DataFrame([{"flow": flow.name, "algorithm": flow.algorithm} for flow in flows]),
            panels=("bytes_acked", "goodput_bytes_per_s"),
            title="A limit that ends after 20 s",
            subtitle=f"2 Mbit/s, then 40 Mbit/s; RTT 40 ms, {100 * loss:g} % random loss",
        )
    return found


def claims(rows: pd.DataFrame) -> list[Check]:
    """Check that the end of a limit is found soon, also with random loss, in rows of `lifts`."""
    checks = []
    for loss in LOSSES:
        for algorithm in MUST:
            own = rows[(rows["loss_ratio"] == loss) & (rows["algorithm"] == algorithm)]
            found = over_runs(own.assign(gone_s=own["gone_s"].fillna(AFTER_S)), "gone_s")
            said = f"{label(algorithm)}, {100 * loss:g} % loss: time until the end of the limit is found [s]"
            checks.append(Check(said, found, high=SOON_S, name=f"gone, {algorithm}, {loss:g}"))
    return checks


LIFT: Final = Part("lift", "Figure 17: a limit that ends after 20 s", _grids, _findings, conditions)
