"""R-TCP: transfers without a limit, in which its detector must not find one.

Links of 1 to 10 Mbit/s, RTTs of 15 to 100 ms, buffers of 0.5 to 3 BDP, random loss of 0 to 2 %, constant
rates or rates that vary like those of mobile links. R-TCP observes kernel CUBIC and BBRv1, or acts on its
findings.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Final

import msgspec
import pandas as pd

from experiments.events import ParamValue
from experiments.netlab.spec import Bernoulli, Buffer
from experiments.papers.estimates import over_runs
from experiments.papers.paper import Findings, Part, Runs, Size
from experiments.papers.r_tcp.acks import DETECTORS, R_TCP, compared, connections, judged
from experiments.papers.r_tcp.operators import Operator, Pair, side_by_side
from experiments.papers.r_tcp.runs import conditions
from experiments.papers.r_tcp.runs import transfers as of_flows
from experiments.papers.r_tcp.traces import CCAS, START_S, WATCHED, recorded
from experiments.papers.tables import Check, Table
from experiments.results import Result
from experiments.scenario import Scenario
from experiments.sweep import Grid
from experiments.units import MBIT

TRANSFERS: Final = 1_000
AT_ONCE: Final = 50
QUICK_TRANSFERS: Final = 120
QUICK_AT_ONCE: Final = 20
"""Transfers in a run, with `--quick`."""

RTTS_US: Final = (15_000, 36_000, 100_000)
RATES_MBIT: Final = (1, 3, 10)
VARIATIONS: Final = (0.0, 0.0, 0.1, 0.23)
BUFFERS_BDP: Final = (0.5, 1.0, 3.0)
MIN_BUFFER_BYTES: Final = 15_000
MAX_FALSE: Final = 0.001
"""Maximum share of transfers without a limit that R-TCP may limit."""
LOSSES: Final = (0.0, 0.002, 0.01, 0.02)


def free_pair(number: int, duration_s: float, params: Mapping[str, ParamValue] = WATCHED) -> Pair:
    """Return a pair of hosts without a limiter.

    Args:
        number: Number of the transfer, which determines its conditions; even: CUBIC, odd: BBRv1.
        duration_s: How long the link's rate varies [s].
        params: Parameters of R-TCP.
    """
    drawn = random.Random(number // len(CCAS))
    rtt_us, rate_mbit = drawn.choice(RTTS_US), drawn.choice(RATES_MBIT)
    variation, loss = drawn.choice(VARIATIONS), drawn.choice(LOSSES)
    bdp_bytes = rate_mbit * MBIT * rtt_us / 1e6
    buffer_bytes = max(MIN_BUFFER_BYTES, round(drawn.choice(BUFFERS_BDP) * bdp_bytes))
    operator = Operator(f"free {number}", rtt_us, rate_mbit * MBIT, variation_ratio=variation)
    cca = CCAS[number % len(CCAS)]
    flow = recorded(f"free-{number}-{cca}", cca, number, params)
    pair = operator.pair(number, [flow], duration_s)
    forward = msgspec.structs.replace(
        pair.forward, buffer=Buffer(bytes=buffer_bytes), loss=Bernoulli(loss) if loss else None
    )
    return Pair(forward, pair.flows, pair.events)


def transfers(numbers: range, duration_s: float, params: Mapping[str, ParamValue] = WATCHED) -> Scenario:
    """Return a run of simultaneous transfers, which last about `duration_s`."""
    until_s = START_S + duration_s
    pairs = [free_pair(number, until_s, params) for number in numbers]
    return side_by_side("r-tcp: nothing limits", pairs, until_s, seed=1 + numbers[0])


def _grids(size: Size) -> list[Grid]:
    return _all(size, WATCHED)


def _closed_grids(size: Size) -> list[Grid]:
    return _all(size, {})


def _all(size: Size, params: Mapping[str, ParamValue]) -> list[Grid]:
    count, at_once = size.times(QUICK_TRANSFERS, TRANSFERS), QUICK_AT_ONCE if size.quick else AT_ONCE
    return [
        Grid(
            transfers(range(first, min(first + at_once, count)), size.seconds(10, 20), params),
            {},
            f"{size.name}-{first}",
        )
        for first in range(0, count, at_once)
    ]


def verdicts(result: Result) -> pd.DataFrame:
    """Return the findings of each detector for each transfer of a run.

    Returns:
        A row for each: `flow`, `cca`, `loss_ratio`, `varies`, `detector`, and the columns of `compared`.
    """
    rows = []
    links = {one.a: one.forward for one in result.scenario.network.links}
    varied = {event.link for event in result.scenario.events if hasattr(event, "link")}
    names = {one.a: one.name for one in result.scenario.network.links}
    for flow in result.scenario.flows:
        loss = links[flow.sender].loss
        for acks in connections(result, flow.name):
            for detector in DETECTORS:
                finding = judged(acks, detector)
                rows.append(
                    {
                        "flow": flow.name,
                        "cca": flow.algorithm.removeprefix("rtcp/"),
                        "loss_ratio": loss.ratio if isinstance(loss, Bernoulli) else 0.0,
                        "varies": f"{names[flow.sender]}>" in varied,
                        "detector": detector,
                        **compared(result, flow, finding),
                    }
                )
    return pd.DataFrame(rows)


def _findings(runs: Runs) -> Findings:
    found = runs.rows(verdicts)
    by = ["detector", "cca", "loss_ratio"]
    title = "Limits found where there is none"
    return Findings([Table.of(found, title, by, ["wrong_ratio"])], {}, claims(found))


def claims(found: pd.DataFrame) -> list[Check]:
    """Check that R-TCP finds no limit where there is none, in rows of `verdicts`."""
    own = over_runs(found[found["detector"] == R_TCP], "wrong_ratio")
    return [Check("share of transfers without a limit in which R-TCP found one", own, high=0.0, name="none")]


FALSE_POSITIVES: Final = Part(
    "false-positives", "transfers without a limit, R-TCP only observing", _grids, _findings, conditions
)


# --- where R-TCP acts on its findings --------------------------------------------------------------------


def reported(result: Result) -> pd.DataFrame:
    """Return a row for each transfer: `cca`, and `limited_ratio`, 1 if R-TCP acted on a limit, else 0."""
    return of_flows(result).assign(cca=lambda rows: rows["algorithm"].str.removeprefix("rtcp/"))


def _closed_findings(runs: Runs) -> Findings:
    found = runs.rows(reported)
    title = "Unlimited transfers that R-TCP limited"
    check = Check(
        "share of unlimited transfers that R-TCP limited",
        over_runs(found, "limited_ratio"),
        high=MAX_FALSE,
        name="none acted on",
    )
    return Findings([Table.of(found, title, ["cca"], ["limited_ratio", "retrans_pct"])], {}, [check])


CLOSED_LOOP: Final = Part(
    "closed-loop",
    "transfers without a limit, R-TCP acting on its findings",
    _closed_grids,
    _closed_findings,
    conditions,
)
