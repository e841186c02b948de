"""R-TCP's sections 3.2 and 3.3: objects with idle times between them, and simultaneous connections.

A client downloads over one connection, like apps that load videos in pieces, or over three, like apps that
prefetch. The paper does not give the sizes of its two apps; ccplane chose the sizes. R-TCP observes all
connections of a client; the baselines get the ACKs of each connection.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Final

import pandas as pd

from experiments import plots
from experiments.metrics import NAN
from experiments.papers.estimates import over_runs
from experiments.papers.paper import Findings, Part, Runs, Size
from experiments.papers.r_tcp.acks import R_TCP, connections, judged, off, together
from experiments.papers.r_tcp.baselines import BASELINES
from experiments.papers.r_tcp.operators import LIMITED, OPERATORS, Pair, limit_of, side_by_side
from experiments.papers.r_tcp.runs import apart, conditions
from experiments.papers.r_tcp.traces import CCAS, START_S, recorded
from experiments.papers.tables import Check, Table
from experiments.results import Result
from experiments.scenario import FlowSpec, Scenario
from experiments.sweep import Grid
from experiments.traffic.spec import Http

MULTI: Final = "multi"
CONCURRENT: Final = "concurrent"

OBJECTS: Final = (300_000, 900_000, 500_000, 1_200_000, 700_000, 1_000_000)
GAPS_S: Final = (2.0, 4.0, 3.0)
ALONE: Final = (Http(objects=OBJECTS, gaps_s=GAPS_S),)
AT_ONCE: Final = (
    Http(objects=(400_000, 600_000, 500_000), gaps_s=(2.0,)),
    Http(objects=(600_000, 300_000, 700_000), gaps_s=(1.0,)),
    Http(objects=(500_000, 700_000, 400_000), gaps_s=(3.0,)),
)
PATTERNS: Final[Mapping[str, tuple[Http, ...]]] = MappingProxyType({MULTI: ALONE, CONCURRENT: AT_ONCE})

PAPERS: Final = ("pd", "mbbr-like", "p-modrl-like")
"""Detectors that fail according to the paper; PD judges the whole connection."""

RIGHT: Final = 0.1
"""Maximum relative error of a correct estimate of the rate."""
DURATION_S: Final = 60.0


def clients(pattern: str, operators: tuple[str, ...], numbers: Sequence[int]) -> Scenario:
    """Return a run of clients with a pattern, one for each network, congestion control and number."""
    pairs: list[Pair] = []
    for number in numbers:
        for name in operators:
            for cca in CCAS:
                flows = [
                    recorded(f"{name}-{cca}-{number}-{place}", cca, len(pairs), traffic=traffic)
                    for place, traffic in enumerate(PATTERNS[pattern])
                ]
                pairs.append(OPERATORS[name].pair(number, flows, DURATION_S))
    return side_by_side(f"r-tcp: {pattern}", pairs, START_S + DURATION_S, seed=1 + numbers[0])


def _grids(size: Size) -> list[Grid]:
    return [
        grid
        for pattern in PATTERNS
        for grid in apart(f"{size.name}-{pattern}", size.times(6, 10), partial(clients, pattern, LIMITED))
    ]


def verdicts(result: Result) -> pd.DataFrame:
    """Return R-TCP's findings for each client, and the baselines' for each of its connections.

    Returns:
        A row for each: `pattern`, `operator`, `cca`, `detector`, `found_ratio` (1 if a limit was found),
        `right_ratio` (1 if its rate is also correct), `rate_error_ratio` (NaN: not found), `reported_ratio`
        (1 if R-TCP reported it during the run; NaN for baselines).
    """
    pattern = result.name.removeprefix("r-tcp: ")
    rows = []
    by_client: dict[str, list[FlowSpec]] = {}
    for flow in result.scenario.flows:
        by_client.setdefault(flow.receiver, []).append(flow)
    for receiver, flows in by_client.items():
        operator, cca, _, _ = flows[0].name.split("-")
        limit = limit_of(result.scenario, flows[0])
        assert limit is not None
        several = [acks for flow in flows for acks in connections(result, flow.name)]
        detector = together(several)
        mine = float(detector.rate_bytes_per_s) if detector.limited else None
        reported = result.table("rate_limits")
        found = [(R_TCP, mine, float((reported["receiver"] == receiver).any()))]
        found += [(name, judged(acks, name).rate_bytes_per_s, NAN) for acks in several for name in BASELINES]
        for name, rate_bytes_per_s, reported_ratio in found:
            error = off(rate_bytes_per_s, limit[1])
            rows.append(
                {
                    "pattern": pattern,
                    "operator": operator,
                    "cca": cca,
                    "detector": name,
                    "found_ratio": float(rate_bytes_per_s is not None),
                    "right_ratio": float(error <= RIGHT),
                    "rate_error_ratio": error,
                    "reported_ratio": reported_ratio,
                }
            )
    return pd.DataFrame(rows)


def _findings(runs: Runs) -> Findings:
    found = runs.rows(verdicts)
    values = ["found_ratio", "right_ratio", "rate_error_ratio", "reported_ratio"]
    figures = {
        f"patterns-{pattern}": plots.bars(
            own,
            "right_ratio",
            group="operator",
            by="detector",
            title=f"Limits found, with a rate within 10 %: {pattern}",
            subtitle="R-TCP per client, other detectors per connection",
        )
        for pattern, own in found.groupby("pattern", sort=False)
    }
    title = "Limits found, and their rates"
    return Findings(
        [Table.of(found, title, ["pattern", "operator", "cca", "detector"], values)], figures, claims(found)
    )


def claims(found: pd.DataFrame) -> list[Check]:
    """Check that R-TCP finds the limits and that the paper's baselines fail, in rows of `verdicts`."""
    checks = []
    for pattern in PATTERNS:
        own = found[found["pattern"] == pattern]
        claim = f"{pattern}: share of limits that {R_TCP} reported during the run"
        checks.append(Check(claim, over_runs(own, "reported_ratio"), low=0.9))
        for detector in (R_TCP, *PAPERS):
            share = over_runs(own[own["detector"] == detector], "right_ratio")
            name = f"{pattern}, {detector}"
            claim = f"{pattern}: share of limits that {detector} found with a rate within 10 %"
            low, high = (0.9, None) if detector == R_TCP else (None, 0.5)
            checks.append(Check(claim, share, low, high, name))
    return checks


PATTERNS_PART: Final = Part(
    "patterns",
    "Sections 3.2 and 3.3: idle times and several connections, with other detectors",
    _grids,
    _findings,
    conditions,
)
