"""R-TCP: what flows are compared, runs of many at once, and a row for each of what it came to.

Flows are called OPERATOR-NUMBER-..., where all that are compared with each other have the same number, and so
the same limiter.
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
from experiments.scenario import Flow, Scenario
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
"""Between the starts of two pairs: the machine has slow starts one after the other [s]."""
_SPARE: Final = 1.15
"""How much longer than at the limiter's rate a transfer may take."""
_SPARE_S: Final = 5.0

_PLACE: Final = {name: place for place, name in enumerate(VARIANTS)}

GONE: Final = "gone"
"""State of a limit that is no longer believed in."""


def name_of(operator: str, number: int, algorithm: str, *more: object) -> str:
    """Return the name of a flow."""
    return "-".join([operator, str(number), algorithm.replace("/", "_"), *map(str, more)])


def at_once(
    name: str,
    operators: Sequence[Operator],
    algorithms: Sequence[str],
    numbers: Sequence[int],
    flows_of: Callable[[str, int, str], Sequence[Flow]],
    size_bytes: int,
    *,
    idle_s: float = 0.0,
) -> Scenario:
    """Return a run of all of them at once, each pair of hosts with a link and a limiter of its own.

    Args:
        name: What people call it.
        operators: That limit.
        algorithms: What is compared; each number begins with another.
        numbers: Of limiters: what has the same number is compared.
        flows_of: What a pair does, by operator's name, number and algorithm; starts count from its first.
        size_bytes: What a pair transfers in all [bytes].
        idle_s: For how long it transfers nothing in between, and what it takes longer than the limiter lets
            it [s].
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
    """Return repeats as runs of their own, each with limiters, seed and order of its own.

    Args:
        name: What names of the grids begin with.
        times: How many repeats.
        scenario_of: Returns a run with the limiters of these numbers.
        axes: Of each.
    """
    return [Grid(scenario_of([number]), axes, f"{name}-{number}") for number in range(1, times + 1)]


def conditions(_result: Result) -> dict[str, Any]:
    """Return nothing of a run as a whole: its flows differ."""
    return {}


def figures_of_both(
    prefix: str, title: str, draw: Callable[..., Plot], goodput: str = "goodput"
) -> dict[str, Plot]:
    """Return a figure of retransmissions, and the same of goodput, by name.

    Args:
        prefix: What their names begin with.
        title: What their titles begin with.
        draw: Draws one; gets the column, and `title`.
        goodput: What goodput is called.
    """
    both = (("retrans_pct", "retrans", "retransmissions"), ("goodput_bytes_per_s", "goodput", goodput))
    return {f"{prefix}-{name}": draw(column, title=f"{title}: {what}") for column, name, what in both}


def transfers(result: Result) -> pd.DataFrame:
    """Return a row for each flow of a run.

    Returns:
        `flow`, `operator`, `number`, `algorithm`; `size_bytes` of all that was asked for; `retrans_pct` of
        the bytes sent; `goodput_bytes_per_s`, what arrived by how long the client waited for it;
        `limited_ratio`, 1 if R-TCP found a limit, else 0, after `limited_s` since the flow's start;
        `bucket_error_pct` and `rate_error_pct` of its last estimate. NaN where that is not known.
    """
    scenario = result.scenario
    told = result.table("rate_limits")
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
        own = told[(told["sender"] == flow.sender) & (told["receiver"] == flow.receiver)]
        rows.append(
            {**row, **_verdict(own, limit_of(scenario, flow), summary["start_s"].get(flow.name, NAN))}
        )
    return pd.DataFrame(rows)


def _verdict(told: pd.DataFrame, limit: tuple[float, float] | None, start_s: float) -> dict[str, Any]:
    found = told[told["state"].isin(LIMITED_STATES)]
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
    """Yield for each congestion control its column and that of the same under R-TCP, side by side.

    Args:
        rows: As `transfers`, of one size.
        column: Which.

    Yields:
        The congestion control; a row for each limiter of each run, columns `without` and `under`, `operator`,
        `number`, and `IN_RUN` if rows have it.
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
    """Return what part R-TCP avoids: the median over the runs of the mean over their limiters.

    Args:
        both: As `pairs_of` yields.
    """
    return over_runs(both.assign(fewer=1 - both["under"] / both["without"]), "fewer")


def in_order(rows: pd.DataFrame, *columns: str) -> pd.DataFrame:
    """Return rows sorted by columns, then by algorithm: each, and then the same under R-TCP.

    Args:
        rows: As `transfers`.
        *columns: That come first.
    """
    return rows.sort_values(
        [*columns, "algorithm"],
        key=lambda values: values.map(_PLACE) if values.name == "algorithm" else values,
        kind="stable",
    )
