"""R-TCP: several transfers to one client, longer paths, and errors of estimates.

A second connection (Figure 8), idle times between objects (Figures 9 and 10), simultaneous connections
(section 3.3), RTTs of up to 200 ms (Figure 14), errors of the estimated rate (Figure 7).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import partial
from typing import Final

import pandas as pd

from experiments import plots
from experiments.metrics import NAN
from experiments.papers.estimates import over_runs
from experiments.papers.paper import Findings, Part, Runs, Size
from experiments.papers.r_tcp.download import MB, downloads, found_of
from experiments.papers.r_tcp.operators import LIMITED, OPERATORS, RECEIVER, SENDER, Operator, download
from experiments.papers.r_tcp.patterns import CONCURRENT, GAPS_S, MULTI, PATTERNS
from experiments.papers.r_tcp.runs import (
    BBR,
    LIMITED_BY,
    R_BBR,
    R_CUBIC,
    VARIANTS,
    apart,
    at_once,
    conditions,
    fewer,
    figures_of_both,
    in_order,
    name_of,
    pairs_of,
    transfers,
)
from experiments.papers.tables import Check, Table
from experiments.papers.variants import KERNEL
from experiments.plots import label
from experiments.results import Result
from experiments.scenario import FlowSpec, Scenario
from experiments.statistics import Estimate
from experiments.sweep import Grid
from experiments.traffic.spec import Http

# --- Figure 8: the second connection ------------------------------------------------------------------------

BEST_FEWER: Final = 0.88
"""Avoided share of the second connection's retransmissions, in the paper's best case (section 6.1)."""
IDLE_S: Final = 5.0


def twice(name: str, size_bytes: int, numbers: Sequence[int]) -> Scenario:
    """Return runs of two downloads of one size over separate connections, 5 s apart."""
    traffic = Http(objects=(size_bytes, size_bytes), gaps_s=(IDLE_S,), persistent=False)
    return at_once(
        name,
        [OPERATORS["op1"]],
        VARIANTS,
        numbers,
        lambda operator, number, algorithm: [
            FlowSpec(name_of(operator, number, algorithm), SENDER, RECEIVER, algorithm, traffic=traffic)
        ],
        2 * size_bytes,
        idle_s=IDLE_S,
    )


def connections(result: Result) -> pd.DataFrame:
    """Return a row for each connection of each flow.

    Returns:
        The columns of `transfers`, with `connection` (1 or 2), and `size_bytes`, `retrans_pct` and
        `goodput_bytes_per_s` of the connection.
    """
    sent = result.connection_samples.groupby(["flow", "connection"])[["bytes_sent", "bytes_retrans"]].last()
    own = sent.assign(retrans_pct=100 * sent["bytes_retrans"] / sent["bytes_sent"])[
        ["retrans_pct"]
    ].reset_index()
    own["connection"] += 1
    objects = result.objects.assign(connection=result.objects["number"] + 1)
    objects["goodput_bytes_per_s"] = objects["size_bytes"] / objects["completion_s"]
    each = own.merge(
        objects[["flow", "connection", "size_bytes", "goodput_bytes_per_s"]], on=["flow", "connection"]
    )
    return transfers(result).drop(columns=each.columns[2:]).merge(each, on="flow")


def _stateful_grids(size: Size) -> list[Grid]:
    sizes = (2 * MB, 4 * MB) if size.quick else (MB, 2 * MB, 4 * MB, 8 * MB)
    return [
        grid
        for one in sizes
        for grid in apart(
            f"{size.name}-{one}", size.times(6, 10), partial(twice, "R-TCP: a second connection", one)
        )
    ]


def _stateful_findings(runs: Runs) -> Findings:
    rows = in_order(runs.rows(connections), "connection", "size_bytes")
    values = ["retrans_pct", "goodput_bytes_per_s"]
    second = rows[rows["connection"] == 2]
    return Findings(
        [Table.of(rows, "Two connections, 5 s apart", ["connection", "size_bytes", "algorithm"], values)],
        figures_of_both(
            "figure-8",
            "The second connection",
            partial(plots.bars, second, group="size_bytes", subtitle="operator 1, 5 s after the first"),
        ),
        [claim_of_state(second)],
    )


def claim_of_state(second: pd.DataFrame) -> Check:
    """Check the best median over runs, of all sizes and algorithms, in rows of second connections."""
    best, case = Estimate(NAN, NAN, NAN, 0), "none measured"
    for size_bytes in second["size_bytes"].dropna().unique():
        for without, both in pairs_of(second[second["size_bytes"] == size_bytes], "retrans_pct"):
            found = fewer(both)
            if found.n and not found.value <= best.value:
                best, case = found, f"{label(LIMITED_BY[without])}, {size_bytes / MB:g} MB"
    said = "share of the second connection's retransmissions that R-TCP avoids in its best case"
    return Check(f"{said} ({case})", best, low=BEST_FEWER, name="second")


# --- Figures 9 and 10, section 3.3: idle times, simultaneous connections ------------------------------------


def pattern(name: str, kind: str, operators: Sequence[str], numbers: Sequence[int]) -> Scenario:
    """Return runs of clients that download with a pattern, `MULTI` or `CONCURRENT`; see `at_once`."""
    traffics = PATTERNS[kind]
    return at_once(
        name,
        [OPERATORS[one] for one in operators],
        VARIANTS,
        numbers,
        lambda operator, number, algorithm: [
            FlowSpec(
                name_of(operator, number, algorithm, place), SENDER, RECEIVER, algorithm, traffic=traffic
            )
            for place, traffic in enumerate(traffics)
        ],
        sum(sum(traffic.objects) for traffic in traffics),
        idle_s=max(GAPS_S) * max(len(traffic.objects) for traffic in traffics),
    )


def clients(result: Result) -> pd.DataFrame:
    """Return a row for each client, over its flows.

    Returns:
        As `transfers`, but `retrans_pct` of all bytes sent to the client, `goodput_bytes_per_s` as the mean
        over its objects, and `kind`, the pattern.
    """
    flows = transfers(result)
    last = result.flow_samples.groupby("flow")[["bytes_sent", "bytes_retrans"]].last()
    objects = result.objects.assign(rate=lambda rows: rows["size_bytes"] / rows["completion_s"])
    keys = ["operator", "number", "algorithm"]
    rows = []
    for _, own in flows.groupby(keys):
        sent = last.reindex(own["flow"]).sum()
        rows.append(
            {
                **own.iloc[0].to_dict(),
                "kind": result.name.rpartition(" ")[2],
                "retrans_pct": 100 * sent["bytes_retrans"] / sent["bytes_sent"],
                "goodput_bytes_per_s": objects[objects["flow"].isin(own["flow"])]["rate"].mean(),
                "limited_ratio": own["limited_ratio"].max(),
            }
        )
    return pd.DataFrame(rows)


def _pattern_part(kind: str, about: str) -> Part:
    def grids(size: Size) -> list[Grid]:
        operators = ("op1", "op3") if size.quick else LIMITED
        of_numbers = partial(pattern, f"R-TCP: {kind}", kind, operators)
        return apart(size.name, size.times(6, 10), of_numbers)

    def found(runs: Runs) -> Findings:
        rows = in_order(runs.rows(clients), "operator")
        values = ["retrans_pct", "goodput_bytes_per_s", "limited_ratio", "limited_s", "rate_error_pct"]
        return Findings(
            [Table.of(rows, about, ["operator", "algorithm"], values)],
            figures_of_both(kind, about, partial(plots.bars, rows, group="operator"), "goodput of objects"),
            claims_of_pattern(rows, kind),
        )

    return Part(kind, about, grids, found, conditions)


def claims_of_pattern(rows: pd.DataFrame, kind: str) -> list[Check]:
    """Check that limits are found, in rows of `clients` with a pattern."""
    checks = []
    for without, under in LIMITED_BY.items():
        own = rows[rows["algorithm"] == under]
        said = f"{kind}: share of clients whose limit {label(under)} finds"
        checks.append(Check(said, over_runs(own, "limited_ratio"), low=0.9, name=f"found, {under}"))
        both = dict(pairs_of(rows, "retrans_pct"))[without]
        said = f"{kind}: share of {label(without)}'s retransmissions that {label(under)} avoids"
        checks.append(Check(said, fewer(both), low=0.0, name=f"fewer, {under}"))
    return checks


# --- Figure 14: longer paths --------------------------------------------------------------------------------

RTTS_US: Final = (40_000, 120_000, 200_000)


def _bdp_grids(size: Size) -> list[Grid]:
    sizes = (2 * MB,) if size.quick else (MB, 4 * MB, 16 * MB)
    operators = [
        dataclasses.replace(OPERATORS["op1"], name=f"rtt{rtt_us // 1000}", rtt_us=rtt_us)
        for rtt_us in RTTS_US
    ]
    return [
        grid
        for one in sizes
        for grid in apart(f"{size.name}-{one}", size.times(6, 10), partial(_far, operators, one))
    ]


def _far(operators: Sequence[Operator], size_bytes: int, numbers: Sequence[int]) -> Scenario:
    return at_once(
        "R-TCP: longer paths",
        operators,
        (KERNEL, R_CUBIC, BBR, R_BBR),
        numbers,
        lambda operator, number, algorithm: [
            download(name_of(operator, number, algorithm), algorithm, size_bytes)
        ],
        size_bytes,
    )


def _bdp_row(result: Result) -> pd.DataFrame:
    rows = transfers(result)
    # All have the limiter of one operator, so that different RTTs are compared.
    return rows.assign(rtt_us=1000 * rows["operator"].str.removeprefix("rtt").astype(int), operator="op1")


def _bdp_findings(runs: Runs) -> Findings:
    rows = in_order(runs.rows(_bdp_row), "rtt_us", "size_bytes")
    values = ["retrans_pct", "goodput_bytes_per_s", "limited_ratio", "rate_error_pct"]
    title = "Operator 1's limiter on longer paths"
    return Findings(
        [Table.of(rows, title, ["rtt_us", "size_bytes", "algorithm"], values)],
        figures_of_both("figure-14", title, partial(plots.panels, rows, x="size_bytes", columns="rtt_us")),
    )


# --- Figure 7: errors ---------------------------------------------------------------------------------------


def _errors_grids(size: Size) -> list[Grid]:
    size_bytes = (4 if size.quick else 8) * MB
    base_of = partial(downloads, "R-TCP: errors", size_bytes, algorithms=(*LIMITED_BY.values(),))
    return apart(size.name, size.times(6, 15), base_of)


def _errors_findings(runs: Runs) -> Findings:
    rows = runs.rows(transfers)
    found = found_of(rows, "Estimates at the end of a download")
    off = rows.assign(off_pct=rows["rate_error_pct"].abs())
    figure = plots.cdf(off, "off_pct", title="Errors of the estimated rate", subtitle="operators 1 to 3")
    error = over_runs(off.assign(off_ratio=off["off_pct"] / 100), "off_ratio")
    table = Table.of(
        in_order(off, "operator"),
        "Errors of estimates",
        ["operator", "algorithm"],
        ["limited_ratio", "off_pct", "bucket_error_pct"],
    )
    return Findings(
        [*found.tables, table],
        {"figure-7": figure},
        [Check("relative error of the estimated rate", error, high=0.05, name="rate error")],
    )


STATEFUL: Final = Part(
    "stateful",
    "Figure 8: a second connection, 5 s after the first",
    _stateful_grids,
    _stateful_findings,
    conditions,
)
MULTI_PART: Final = _pattern_part(MULTI, "Figures 9 and 10: idle times between objects")
CONCURRENT_PART: Final = _pattern_part(CONCURRENT, "Section 3.3: several simultaneous connections")
BDP: Final = Part(
    "bdp",
    "Figure 14: longer paths",
    _bdp_grids,
    _bdp_findings,
    conditions,
    compared=lambda runs: runs.rows(_bdp_row),
)
ERRORS: Final = Part(
    "errors", "Figure 7: errors of the estimated rate", _errors_grids, _errors_findings, conditions
)
