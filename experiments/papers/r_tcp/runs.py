"""R-TCP: compared algorithms, runs of many simultaneous flows, and the row of a flow.

Names of flows are OPERATOR-NUMBER-...; compared flows have the same number, and so the same limiter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import msgspec
import pandas as pd

from ccp_algs.rtcp.limit import LIMITED_STATES
from experiments.metrics import NAN
from experiments.papers.estimates import IN_RUN, over_runs
from experiments.papers.r_tcp.operators import Operator, limit_of, side_by_side
from experiments.papers.two_flows import PAYLOAD_SHARE
from experiments.papers.variants import KERNEL
from experiments.plots import Plot
from experiments.results import Result
from experiments.scenario import FlowSpec, Scenario
from experiments.statistics import Estimate
from experiments.sweep import Grid
from experiments.traffic.spec import Http

BBR: Final = "kernel/bbr"
BBR3: Final = "bbr3"
R_CUBIC: Final = "rtcp/cubic"
R_BBR: Final = "rtcp/bbr"
R_BBR3: Final = "r_tcp_bbr3"

LIMITED_BY: Final = {KERNEL: R_CUBIC, BBR: R_BBR, BBR3: R_BBR3}
"""Congestion control -> the same under R-TCP."""
VARIANTS: Final = tuple(name for both in LIMITED_BY.items() for name in both)

APART_S: Final = 0.3
"""Time between the starts of two pairs, which separates slow starts [s]."""
_SPARE: Final = 1.15
"""Maximum time of a transfer, relative to that at the limiter's rate."""
_SPARE_S: Final = 5.0

_PLACE: Final = {name: place for place, name in enumerate(VARIANTS)}

GONE: Final = "gone"
"""State of a limit that was found to have ended."""


def name_of(operator: str, number: int, algorithm: str, *more: object) -> str:
    """Return the name of a flow."""
    return "-".join([operator, str(number), algorithm.replace("/", "_"), *map(str, more)])


def at_once(
    name: str,
    operators: Sequence[Operator],
    algorithms: Sequence[str],
    numbers: Sequence[int],
    flows_of: Callable[[str, int, str], Sequence[FlowSpec]],
    size_bytes: int,
    *,
    idle_s: float = 0.0,
) -> Scenario:
    """Return a run of all combinations simultaneously, each pair of hosts with its own link and limiter.

    Args:
        name: Name of the scenario.
        operators: Operators with a limit.
        algorithms: Compared algorithms; each number begins with a different one.
        numbers: Numbers of limiters.
        flows_of: Returns a pair's flows for operator, number and algorithm.
        size_bytes: Bytes that a pair transfers [bytes].
        idle_s: Idle times within a transfer [s].
    """
    pairs, took_s, start_s = [], 0.0, 0.0
    for number in numbers:
        first = number % len(algorithms)
        for operator in operators:
            limiter = operator.limiter(number)
            assert limiter is not None
            took_s = max(took_s, size_bytes / PAYLOAD_SHARE / limiter.rate_bytes_per_s)
            for algorithm in (*algorithms[first:], *algorithms[:first]):
                flows = [
                    msgspec.structs.replace(flow, start_s=round(flow.start_s + start_s, 1))
                    for flow in flows_of(operator.name, number, algorithm)
                ]
                pairs.append(operator.pair(number, flows, 0.0))
                start_s += APART_S
    duration_s = round(start_s + idle_s + _SPARE * took_s + _SPARE_S)
    return side_by_side(name, pairs, duration_s, seed=numbers[0])


def apart(
    name: str,
    times: int,
    scenario_of: Callable[[Sequence[int]], Scenario],
    axes: Mapping[str, Mapping[str, Mapping[str, Any]]] = MappingProxyType({}),
) -> list[Grid]:
    """Return a grid for each repeat, with its own limiters, seed and order."""
    return [Grid(scenario_of([number]), axes, f"{name}-{number}") for number in range(1, times + 1)]


def conditions(_result: Result) -> dict[str, Any]:
    """Return no columns, because the flows of a run differ."""
    return {}


def figures_of_both(
    prefix: str, title: str, draw: Callable[..., Plot], goodput: str = "goodput"
) -> dict[str, Plot]:
    """Return a figure of retransmissions and one of goodput, by name; `draw` gets the column and `title`."""
    both = (("retrans_pct", "retrans", "retransmissions"), ("goodput_bytes_per_s", "goodput", goodput))
    return {f"{prefix}-{name}": draw(column, title=f"{title}: {what}") for column, name, what in both}


def transfers(result: Result) -> pd.DataFrame:
    """Return a row for each flow of a run.

    Returns:
        `flow`, `operator`, `number`, `algorithm`; `size_bytes` requested; `retrans_pct` of the bytes sent;
        `goodput_bytes_per_s`, bytes received per time in which the client waited; `limited_ratio`, 1 if R-TCP
        found a limit, else 0; `limited_s`, when, since the flow's start; `bucket_error_pct` and
        `rate_error_pct` of its last estimate. NaN if unknown.
    """
    scenario = result.scenario
    reported = result.table("rate_limits")
    summary = result.flows.set_index("flow")
    waited_s = result.objects.groupby("flow")["completion_s"].sum()
    arrived_bytes = result.objects.groupby("flow")["size_bytes"].sum()
    rows = []
    for flow in scenario.flows:
        operator, number, *_ = flow.name.split("-")
        row: dict[str, Any] = {"flow": flow.name, "operator": operator, "number": int(number)}
        row["algorithm"] = flow.algorithm
        if isinstance(flow.traffic, Http):
            row["size_bytes"] = sum(flow.traffic.objects)
        row["retrans_pct"] = summary["retrans_pct"].get(flow.name, NAN)
        row["goodput_bytes_per_s"] = arrived_bytes.get(flow.name, NAN) / waited_s.get(flow.name, NAN)
        own = reported[(reported["sender"] == flow.sender) & (reported["receiver"] == flow.receiver)]
        rows.append(
            {**row, **_verdict(own, limit_of(scenario, flow), summary["start_s"].get(flow.name, NAN))}
        )
    return pd.DataFrame(rows)


def _verdict(reported: pd.DataFrame, limit: tuple[float, float] | None, start_s: float) -> dict[str, Any]:
    found = reported[reported["state"].isin(LIMITED_STATES)]
    if found.empty:
        return dict.fromkeys(("limited_s", "bucket_error_pct", "rate_error_pct"), NAN) | {
            "limited_ratio": 0.0
        }
    last = found.iloc[-1]
    bucket_error_pct = rate_error_pct = NAN
    if limit is not None:
        bucket_error_pct, rate_error_pct = (
            100 * (last[name] - true) / true
            for name, true in zip(("bucket_bytes", "rate_bytes_per_s"), limit, strict=True)
        )
    return {
        "limited_s": found["t_s"].iloc[0] - start_s,
        "bucket_error_pct": bucket_error_pct,
        "rate_error_pct": rate_error_pct,
        "limited_ratio": 1.0,
    }


def pairs_of(rows: pd.DataFrame, column: str) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield each congestion control, with a column of its flows without R-TCP and under R-TCP.

    Yields:
        The congestion control; a row for each limiter of each run: `without`, `under`, `operator`, `number`,
        and `IN_RUN` if rows have it.
    """
    key = [name for name in (IN_RUN, "operator", "number") if name in rows]
    keyed = rows.set_index(key)
    for without, under in LIMITED_BY.items():
        sides = [
            keyed.loc[keyed["algorithm"] == one, column].rename(name)
            for one, name in ((without, "without"), (under, "under"))
        ]
        yield without, pd.concat(sides, axis=1, join="inner").reset_index()


def fewer(both: pd.DataFrame) -> Estimate:
    """Return the share of retransmissions that R-TCP avoids: the median over runs of means over limiters."""
    return over_runs(both.assign(fewer=1 - both["under"] / both["without"]), "fewer")


def in_order(rows: pd.DataFrame, *columns: str) -> pd.DataFrame:
    """Return rows of `transfers` sorted by columns, then by algorithm, each before its R-TCP version."""
    return rows.sort_values(
        [*columns, "algorithm"],
        key=lambda values: values.map(_PLACE) if values.name == "algorithm" else values,
        kind="stable",
    )
