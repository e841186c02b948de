"""R-TCP's Appendix K (Tables 8 and 9) and I (Figure 18): detectors on the operators' traces.

Transfers of 30 s with kernel CUBIC and BBRv1 are recorded while R-TCP only observes. Each detector then gets
the same ACKs. Operators 1 to 3 limit; operators 4, 5 and 4M (in a bus or train) do not, so limits found there
are false.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import pandas as pd

from experiments import plots
from experiments.events import ParamValue
from experiments.papers.estimates import over_runs
from experiments.papers.paper import Findings, Part, Runs, Size
from experiments.papers.r_tcp.acks import DETECTORS, R_TCP, compared, connections, judged
from experiments.papers.r_tcp.operators import LIMITED, OPERATORS, RECEIVER, SENDER, Pair, side_by_side
from experiments.papers.r_tcp.runs import conditions
from experiments.papers.r_tcp.sensitivity import errors_by_option, figure_18
from experiments.papers.tables import Check, Table
from experiments.results import Result
from experiments.scenario import FlowSpec, Scenario
from experiments.sweep import Grid

CCAS: Final = ("cubic", "bbr")
CAPPING: Final[Mapping[str, ParamValue]] = MappingProxyType({"record": True})
WATCHED: Final[Mapping[str, ParamValue]] = MappingProxyType({"observe": True, **CAPPING})
START_S: Final = 2.0
"""Transfers start within this time, so that their first bursts do not coincide [s]."""


def recorded(
    name: str, cca: str, number: int, params: Mapping[str, ParamValue] = WATCHED, **more: Any
) -> FlowSpec:
    """Return a flow whose ACKs are recorded."""
    start_s = START_S * (0.618 * number % 1)
    return FlowSpec(name, SENDER, RECEIVER, f"rtcp/{cca}", dict(params), start_s=start_s, **more)


def transfers(operators: tuple[str, ...], numbers: range, duration_s: float) -> Scenario:
    """Return a run of transfers, one for each network, congestion control and number."""
    pairs: list[Pair] = []
    for number in numbers:
        for name in operators:
            for cca in CCAS:
                flow = recorded(f"{name}-{cca}-{number}", cca, len(pairs))
                # The same network for both congestion controls.
                pairs.append(OPERATORS[name].pair(number, [flow], START_S + duration_s))
    return side_by_side("r-tcp: traces", pairs, START_S + duration_s, seed=1 + numbers[0])


def _grids(size: Size) -> list[Grid]:
    seconds, times = size.seconds(15, 30), size.times(12, 20)
    free = tuple(name for name in OPERATORS if name not in LIMITED)
    grids = []
    for first in range(0, times, 2):
        numbers = range(first, min(first + 2, times))
        for name, operators in (("limited", LIMITED), ("free", free)):
            grids.append(Grid(transfers(operators, numbers, seconds), {}, f"{size.name}-{name}-{first}"))
    return grids


def verdicts(result: Result) -> pd.DataFrame:
    """Return the findings of each detector for each transfer of a run.

    Returns:
        A row for each: `flow`, `operator`, `cca`, `detector`, `still_ratio` (1 if a limit was found and its
        end was not), and the columns of `compared`.
    """
    rows = []
    for flow in result.scenario.flows:
        operator, cca, _ = flow.name.split("-")
        for acks in connections(result, flow.name):
            for detector in DETECTORS:
                finding = judged(acks, detector)
                about = {"flow": flow.name, "operator": operator, "cca": cca, "detector": detector}
                still = {"still_ratio": float(finding.limited and not finding.why)}
                rows.append(about | still | compared(result, flow, finding))
    return pd.DataFrame(rows)


def _findings(runs: Runs) -> Findings:
    found = runs.rows(verdicts)
    limited = found[found["operator"].isin(LIMITED)]
    changed = runs.rows(errors_by_option)
    errors = ["bucket_error_ratio", "rate_error_ratio"]
    return Findings(
        [
            Table.of(
                found,
                "Table 8: limits missed (operators 1 to 3), or found where there is none",
                ["operator", "cca", "detector"],
                ["wrong_ratio", "still_ratio"],
            ),
            Table.of(limited, "Table 9: errors of estimates", ["operator", "cca", "detector"], errors),
            Table.of(changed, "Figure 18: sensitivity", ["option", "value"], ["wrong_ratio", *errors]),
        ],
        {
            "table-8": plots.bars(
                found,
                "wrong_ratio",
                group="operator",
                by="detector",
                title="Transfers with a wrong verdict",
                subtitle="CUBIC and BBRv1, R-TCP only observing",
            ),
            **figure_18(changed),
        },
        claims(found),
    )


def claims(found: pd.DataFrame) -> list[Check]:
    """Check R-TCP's detector, in rows of `verdicts`."""
    own = found[found["detector"] == R_TCP]
    limits = own["operator"].isin(LIMITED)

    return [
        Check(
            "share of limits that R-TCP missed",
            over_runs(own[limits], "wrong_ratio"),
            high=0.02,
            name="missed",
        ),
        Check(
            "share of transfers without a limit in which R-TCP found one",
            over_runs(own[~limits], "wrong_ratio"),
            high=0.0,
            name="none",
        ),
        Check(
            "relative error of R-TCP's rates",
            over_runs(own[limits], "rate_error_ratio"),
            high=0.05,
            name="rate error",
        ),
    ]


TRACES: Final = Part(
    "traces", "Tables 8 and 9, Figure 18: detectors on recorded ACKs", _grids, _findings, conditions
)
