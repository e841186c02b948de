"""R-TCP's Appendix L (Figures 19 and 20): which token buckets are found, and errors of estimates.

Buckets of 4 KB to 3 MB and rates of 0.2 to 20 Mbit/s, RTT 40 ms, transfers of 30 s with BBRv1 (as in the
paper) and CUBIC, over a link of 100 Mbit/s, which ccplane chose. Errors refer to payload. R-TCP caps the
transfer, as in the paper, or only observes.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import pandas as pd

from experiments import plots
from experiments.papers.estimates import IN_RUN, over_runs
from experiments.papers.paper import Findings, Part, Runs, Size
from experiments.papers.r_tcp.acks import R_TCP, compared, connections, judged
from experiments.papers.r_tcp.operators import Operator, Pair, side_by_side
from experiments.papers.r_tcp.runs import conditions
from experiments.papers.r_tcp.traces import CAPPING, START_S, WATCHED, recorded
from experiments.papers.tables import Check, Table
from experiments.results import Result
from experiments.scenario import Scenario
from experiments.sweep import Grid
from experiments.units import MBIT

BUCKETS_KB: Final = (4, 16, 65, 130, 260, 520, 1000, 2000, 3000)
RATES_MBIT: Final = (0.2, 0.5, 1.0, 2.0, 4.0, 6.0, 10.0, 20.0)
QUICK_BUCKETS_KB: Final = (65, 260, 1000, 3000)
QUICK_RATES_MBIT: Final = (0.2, 1.0, 4.0, 20.0)
NAME: Final = "r-tcp: limiters, "
RTT_US: Final = 40_000
LINK_MBIT: Final = 100

CAPPED: Final = "-capped"
VARIANTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "cubic": "CUBIC, watched",
        "bbr": "BBRv1, watched",
        f"cubic{CAPPED}": "CUBIC, capped",
        f"bbr{CAPPED}": "BBRv1, capped",
    }
)
"""Suffix of a run's name -> label."""

FOUND_BUCKET_KB: Final = 260
FOUND_MBIT: Final = 6.0
"""Minimum size and maximum rate of the region in which the paper misses no limit."""


def transfers(
    buckets_kb: tuple[int, ...], rates_mbit: tuple[float, ...], variant: str, duration_s: float, seed: int
) -> Scenario:
    """Return a run of one of `VARIANTS` with a pair of hosts for each limiter."""
    pairs: list[Pair] = []
    cca, params = variant.removesuffix(CAPPED), CAPPING if variant.endswith(CAPPED) else WATCHED
    for bucket_kb in buckets_kb:
        for rate_mbit in rates_mbit:
            name = f"b{bucket_kb}-r{round(1000 * rate_mbit)}"
            flow = recorded(name, cca, len(pairs) + seed, params)
            limit = Operator("grid", RTT_US, LINK_MBIT * MBIT, 1000 * bucket_kb, 0.0, rate_mbit * MBIT)
            pairs.append(limit.pair(0, [flow], duration_s))
    return side_by_side(f"{NAME}{variant}", pairs, START_S + duration_s, seed=seed)


def _grids(size: Size) -> list[Grid]:
    buckets_kb = QUICK_BUCKETS_KB if size.quick else BUCKETS_KB
    rates_mbit = QUICK_RATES_MBIT if size.quick else RATES_MBIT
    return [
        Grid(
            transfers(buckets_kb, rates_mbit, variant, size.seconds(20, 30), 1 + number),
            {},
            f"{size.name}-{variant}-{number}",
        )
        for number in range(size.times(6, 10))
        for variant in VARIANTS
    ]


def estimates(result: Result) -> pd.DataFrame:
    """Return the findings of R-TCP's detector for each transfer of a run.

    Returns:
        A row for each: `variant`, `bucket_bytes` and `rate_bytes_per_s` of the limiter, and the columns of
        `compared`.
    """
    rows = []
    limiters = {one.a: one.forward.token_bucket for one in result.scenario.network.links}
    for flow in result.scenario.flows:
        limiter = limiters[flow.sender]
        assert limiter is not None
        for acks in connections(result, flow.name):
            about = {
                "variant": VARIANTS[result.name.removeprefix(NAME)],
                "bucket_bytes": limiter.bucket_bytes,
                "rate_bytes_per_s": limiter.rate_bytes_per_s,
            }
            rows.append(about | compared(result, flow, judged(acks, R_TCP)))
    return pd.DataFrame(rows)


def _findings(runs: Runs) -> Findings:
    found = runs.rows(estimates)
    by = ["variant", "bucket_bytes", "rate_bytes_per_s"]
    errors = ["rate_error_ratio", "bucket_error_ratio"]
    return Findings(
        [
            Table.of(
                found, "Figures 19 and 20: limits missed, errors of estimates", by, ["wrong_ratio", *errors]
            )
        ],
        {
            name: plots.heat_map(
                found,
                column,
                "rate_bytes_per_s",
                "bucket_bytes",
                by="variant",
                title=title,
                subtitle="hatched: not found",
            )
            for name, column, title in (
                ("fig19", "rate_error_ratio", "Figure 19: error of the rate"),
                ("fig20", "bucket_error_ratio", "Figure 20: error of the bucket"),
            )
            if found[column].notna().any()
        },
        claims(found),
    )


def claims(found: pd.DataFrame) -> list[Check]:
    """Check that limits are found where the paper finds them, with accurate rates, in rows of `estimates`."""
    checks = []
    for variant, own in found.groupby("variant", sort=False):
        large = own["bucket_bytes"] >= 1000 * FOUND_BUCKET_KB
        here = own[large & (own["rate_bytes_per_s"] <= FOUND_MBIT * MBIT)]
        where = f"({variant}; from {FOUND_BUCKET_KB} KB, up to {FOUND_MBIT:g} Mbit/s)"
        worst = here.groupby(IN_RUN)[["rate_error_ratio"]].max()
        checks += [
            Check(
                f"share of missed limits {where}",
                over_runs(here, "wrong_ratio"),
                high=0.05,
                name=f"missed, {variant}",
            ),
            Check(
                f"largest relative error of the rate {where}",
                over_runs(worst, "rate_error_ratio"),
                high=0.05,
                name=f"rate error, {variant}",
            ),
        ]
    return checks


GRID: Final = Part(
    "grid", "Figures 19 and 20: sizes and rates of token buckets", _grids, _findings, conditions
)
