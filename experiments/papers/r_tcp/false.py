"""R-TCP: transfers that nothing limits, and what its detector takes for a limit among them.

Links of 1 to 10 Mbit/s, RTTs of 15 to 100 ms, buffers of half a BDP to three, random loss of 0 to 2 %, rates
that stay or vary as those of mobile links. R-TCP only watches the kernel's own CUBIC and BBRv1.
"""

from __future__ import annotations

import random
from typing import Final

import msgspec
import pandas as pd

from experiments.netlab.spec import Bernoulli, Buffer
from experiments.papers.estimates import over_runs
from experiments.papers.paper import Findings, Part, Runs, Size
from experiments.papers.r_tcp.acks import DETECTORS, R_TCP, compared, connections, judged
from experiments.papers.r_tcp.operators import MBIT, Operator, Pair, side_by_side
from experiments.papers.r_tcp.runs import conditions
from experiments.papers.r_tcp.traces import CCAS, START_S, recorded
from experiments.papers.tables import Check, Table
from experiments.results import Result
from experiments.scenario import Scenario
from experiments.sweep import Grid

TRANSFERS: Final = 200
AT_ONCE: Final = 50

RTTS_US: Final = (15_000, 36_000, 100_000)
RATES_MBIT: Final = (1, 3, 10)
VARIATIONS: Final = (0.0, 0.0, 0.1, 0.23)
BUFFERS_BDP: Final = (0.5, 1.0, 3.0)
LEAST_BUFFER_BYTES: Final = 15_000
LOSSES: Final = (0.0, 0.002, 0.01, 0.02)


def free_pair(number: int, duration_s: float) -> Pair:
    """Return a pair of hosts with a link that is not limited; its conditions depend on its number.

    Args:
        number: Of the transfer. Even ones are CUBIC's, odd ones BBRv1's.
        duration_s: For how long a link's rate varies, if it does [s].
    """
    drawn = random.Random(number // len(CCAS))
    rtt_us, rate_mbit = drawn.choice(RTTS_US), drawn.choice(RATES_MBIT)
    variation, loss = drawn.choice(VARIATIONS), drawn.choice(LOSSES)
    bdp_bytes = rate_mbit * MBIT * rtt_us / 1e6
    buffer_bytes = max(LEAST_BUFFER_BYTES, round(drawn.choice(BUFFERS_BDP) * bdp_bytes))
    operator = Operator(f"free {number}", rtt_us, rate_mbit * MBIT, variation_ratio=variation)
    flow = recorded(f"free-{CCAS[number % len(CCAS)]}-{number}", CCAS[number % len(CCAS)], number)
    pair = operator.pair(number, [flow], duration_s)
    forward = msgspec.structs.replace(
        pair.forward, buffer=Buffer(bytes=buffer_bytes), loss=Bernoulli(loss) if loss else None
    )
    return Pair(forward, pair.flows, pair.events)


def transfers(numbers: range, duration_s: float) -> Scenario:
    """Return a run of such transfers at once.

    Args:
        numbers: Of the transfers.
        duration_s: How long each lasts, about [s].
    """
    until_s = START_S + duration_s
    pairs = [free_pair(number, until_s) for number in numbers]
    return side_by_side("r-tcp: nothing limits", pairs, until_s, seed=1 + numbers[0])


def _grids(size: Size) -> list[Grid]:
    count = size.times(AT_ONCE, TRANSFERS)
    return [
        Grid(
            transfers(range(first, min(first + AT_ONCE, count)), size.seconds(10, 20)),
            {},
            f"{size.name}-{first}",
        )
        for first in range(0, count, AT_ONCE)
    ]


def verdicts(result: Result) -> pd.DataFrame:
    """Return what each detector makes of each transfer of a run.

    Returns:
        A row for each: `flow`, `cca`, `loss_ratio`, `varies`, `detector`, and `wrong_ratio`.
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
    """Return what must show: R-TCP finds no limit where there is none.

    Args:
        found: As `verdicts`, of one or more runs.
    """
    ours = over_runs(found[found["detector"] == R_TCP], "wrong_ratio")
    return [Check("share of limits found where there is none", ours, high=0.0, name="none")]


FALSE_POSITIVES: Final = Part(
    "false-positives", "200 transfers that nothing limits", _grids, _findings, conditions
)
