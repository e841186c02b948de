"""Not in the paper: R-TCP's detector where it can fail.

The paper's limiters, as emulated, are exact token buckets, and no detector misses them. Here the limiters of
operators 1 to 3 add tokens in steps, like coarse timers; delays vary before or after the limiter; a second
flow from another server comes and goes through the same limiter; the radio link behind it varies like a
cellular one. The same radio links and a link with a second flow have no limiter, so limits found there are
false. R-TCP observes transfers of 20 s with kernel CUBIC and BBRv1, each with its own network.

Bounds, stated before the first run, are those of the paper's Tables 8 and 9 for live networks. Errors refer
to the limiter's rate, also where a second flow uses a part of it.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Final

import pandas as pd

from experiments import plots
from experiments.metrics import NAN
from experiments.netlab.cellular import Cellular
from experiments.netlab.spec import Buffer, Direction, Link, TokenBucket, Topology
from experiments.papers.comparisons import Claim
from experiments.papers.estimates import over_runs
from experiments.papers.kept_traces import trace_file
from experiments.papers.paper import Findings, Part, Runs, Size
from experiments.papers.r_tcp.acks import R_TCP, connections, judged, off
from experiments.papers.r_tcp.operators import BUFFER_PKTS, LIMITED, OPERATORS, SAMPLE_INTERVAL_US
from experiments.papers.r_tcp.runs import conditions
from experiments.papers.r_tcp.traces import CCAS, START_S, recorded
from experiments.papers.tables import Check, Table
from experiments.papers.two_flows import PAYLOAD_SHARE
from experiments.papers.variants import KERNEL
from experiments.results import Result
from experiments.runs.shapes import Graph
from experiments.scenario import FlowSpec, Scenario
from experiments.statistics import share_interval
from experiments.sweep import Grid
from experiments.traffic.spec import OnOff
from experiments.units import MBIT

MISSED_MAX: Final = 0.012
FALSE_MAX: Final = 0.005
FALSE_MOVING_MAX: Final = 0.037
ERROR_MAX: Final = 0.055
"""Bounds: the paper's Tables 8 and 9."""

FREE: Final = "free"
"""Operator of transfers without a limiter."""
FREE_RTT_US: Final = 45_000
FREE_MBIT: Final = 5.0
FREE_BUFFERS_BDP: Final = (0.5, 1.0, 3.0)
"""Without a limiter: operator 4's RTT, the mean rate of an LTE recording, and buffers that drop packets."""
RADIO_MBIT: Final = 20.0
"""Mean rate of the radio link behind a limiter: ten times the limit."""
SECOND: Final = OnOff(on_s=3.0, off_s=3.0)
"""Traffic of the second flow, kernel CUBIC."""
STEADY: Final = Cellular(mean_bytes_per_s=FREE_MBIT * MBIT, variation_ratio=0.23, outage_every_s=None)
"""A client at rest: operator 4's variation (appendix K)."""
MOVING: Final = Cellular(mean_bytes_per_s=FREE_MBIT * MBIT)
"""A client that moves: the variation and outages of two LTE recordings."""


@dataclass(frozen=True)
class Condition:
    """What makes detection harder.

    Attributes:
        label: Text in tables.
        limited: Whether there is a limiter.
        refill_us: Period after which the limiter adds tokens [us]; 0: continuously.
        before_us: Maximum additional delay before the limiter [us].
        after_us: The same after it [us].
        second: Whether a second flow shares the limiter or the link.
        radio: The link's rate; None: constant.
        moves: Whether the paper's bound for moving clients applies.
    """

    label: str
    limited: bool = True
    refill_us: int = 0
    before_us: int = 0
    after_us: int = 0
    second: bool = False
    radio: Cellular | None = None
    moves: bool = False


CONDITIONS: Final[Mapping[str, Condition]] = MappingProxyType(
    {
        "exact": Condition("exact token bucket"),
        **{f"refill{ms}": Condition(f"tokens every {ms} ms", refill_us=1000 * ms) for ms in (10, 50, 100)},
        **{f"before{ms}": Condition(f"jitter {ms} ms before", before_us=1000 * ms) for ms in (5, 20)},
        **{f"after{ms}": Condition(f"jitter {ms} ms after", after_us=1000 * ms) for ms in (5, 20)},
        "second": Condition("second flow", second=True),
        "radio": Condition("radio", radio=Cellular(mean_bytes_per_s=RADIO_MBIT * MBIT)),
        "freesteady": Condition("no limit, radio at rest", limited=False, radio=STEADY),
        "freemoving": Condition("no limit, moving radio", limited=False, radio=MOVING, moves=True),
        "freesecond": Condition("no limit, second flow", limited=False, second=True),
    }
)
"""First part of a flow's name -> condition."""

OTHER: Final = "other"
"""First part of the names of second flows."""
KINDS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "limited": tuple(name for name, one in CONDITIONS.items() if one.limited),
        FREE: tuple(name for name, one in CONDITIONS.items() if not one.limited),
    }
)
"""Conditions that a run has together."""
RUNS: Final = 26
AT_ONCE: Final[Mapping[str, int]] = MappingProxyType({"limited": 2, FREE: 5})
"""Runs, and networks of each operator and congestion control in each.

With these numbers the bounds can hold: the exact interval of no wrong verdict among 312 or 780 ends below
them.
"""


@dataclass(frozen=True)
class _Network:
    """The path of a transfer: jitter, then `narrow` with limiter and queue, then jitter.

    Attributes:
        name: Name of the transfer.
        cca: Its congestion control.
        narrow: The direction with limiter and queue.
        condition: The condition.
    """

    name: str
    cca: str
    narrow: Direction
    condition: Condition


@cache
def _radio(kind: str, number: int, duration_s: float) -> str:
    """Return the trace file of a radio link."""
    link = CONDITIONS[kind].radio
    assert link is not None
    return str(trace_file(f"r-tcp-{kind}-{number}", link, duration_s, number))


def _narrow(kind: str, operator: str, number: int, duration_s: float) -> Direction:
    """Return the direction with limiter and queue of a transfer."""
    condition = CONDITIONS[kind]
    trace = _radio(kind, number, duration_s) if condition.radio else None
    rate_bytes_per_s, bucket, buffer = FREE_MBIT * MBIT, None, Buffer(packets=BUFFER_PKTS)
    rtt_us = FREE_RTT_US
    if condition.limited:
        limits = OPERATORS[operator]
        drawn = limits.limiter(number)
        assert drawn is not None
        bucket = TokenBucket(drawn.rate_bytes_per_s, drawn.bucket_bytes, refill_us=condition.refill_us)
        rate_bytes_per_s, rtt_us = limits.link_bytes_per_s, limits.rtt_us
    else:
        bdp_bytes = rate_bytes_per_s * rtt_us / 1e6
        bdps = random.Random(f"{kind} {number}").choice(FREE_BUFFERS_BDP)
        buffer = Buffer(bytes=round(bdps * bdp_bytes))
    return Direction(
        rate_bytes_per_s=rate_bytes_per_s if trace is None else None,
        trace=trace,
        delay_us=rtt_us // 2,
        jitter_us=condition.after_us,
        buffer=buffer,
        token_bucket=bucket,
    )


def transfers(kinds: Sequence[str], numbers: range, duration_s: float) -> Scenario:
    """Return a run of simultaneous transfers, each with its own hosts and path.

    Args:
        kinds: Keys of `CONDITIONS`.
        numbers: Numbers of networks; for each, operator and congestion control there is another network.
        duration_s: Length of a transfer [s].
    """
    until_s = START_S + duration_s
    networks = []
    for kind in kinds:
        operators = LIMITED if CONDITIONS[kind].limited else (FREE,) * len(LIMITED)
        for number in numbers:
            for place, operator in enumerate(operators):
                for side, cca in enumerate(CCAS):
                    own = (number * len(operators) + place) * len(CCAS) + side
                    narrow = _narrow(kind, operator, own, until_s)
                    name = f"{kind}-{operator}-{cca}-{own}"
                    networks.append(_Network(name, cca, narrow, CONDITIONS[kind]))
    return _side_by_side(networks, until_s, seed=1 + numbers[0])


def _side_by_side(networks: Sequence[_Network], duration_s: float, *, seed: int) -> Scenario:
    hosts: list[str] = []
    links: list[Link] = []
    flows: list[FlowSpec] = []
    routers = ["exchange"]
    for place, one in enumerate(networks, 1):
        sender, receiver, router = f"s{place}", f"r{place}", f"m{place}"
        hosts += [sender, receiver]
        routers.append(router)
        links += [
            Link(f"before{place}", sender, router, Direction(jitter_us=one.condition.before_us), Direction()),
            Link(f"path{place}", router, "exchange", one.narrow, Direction(delay_us=one.narrow.delay_us)),
            Link(f"last{place}", "exchange", receiver),
        ]
        flow = recorded(one.name, one.cca, place)
        flows.append(FlowSpec(flow.name, sender, receiver, flow.algorithm, flow.params, start_s=flow.start_s))
        if one.condition.second:
            other = f"c{place}"
            hosts.append(other)
            links.append(Link(f"other{place}", other, router))
            flows.append(FlowSpec(f"{OTHER}-{place}", other, receiver, KERNEL, traffic=SECOND))
    return Scenario(
        name="r-tcp: harder",
        topology=Graph.of(Topology(tuple(hosts), tuple(links), tuple(routers))),
        flows=tuple(flows),
        duration_s=duration_s,
        seed=seed,
        sample_interval_us=SAMPLE_INTERVAL_US,
    )


def _grids(size: Size) -> list[Grid]:
    seconds, times = size.seconds(15, 20), size.times(10, RUNS)
    grids = []
    for number in range(times):
        for name, kinds in KINDS.items():
            at_once = 1 if size.quick else AT_ONCE[name]
            numbers = range(at_once * number, at_once * (number + 1))
            grids.append(Grid(transfers(kinds, numbers, seconds), {}, f"{size.name}-{name}-{number}"))
    return grids


def verdicts(result: Result) -> pd.DataFrame:
    """Return the finding of R-TCP's detector for each transfer of a run.

    Returns:
        A row for each: `flow`, `condition`, `operator`, `cca`; `wrong_ratio`, 1 if a limit
        was missed, or found where there is none, else 0; `rate_error_ratio`, |estimate - R| / R, NaN without
        one of them; `limited_s`, time from the transfer's start to the detection, NaN without one.
    """
    rows = []
    limiters = {one.name: one.forward.token_bucket for one in result.scenario.network.links}
    for flow in result.scenario.flows:
        kind, operator, *rest = flow.name.split("-")
        if kind == OTHER:
            continue
        limiter = limiters[f"path{flow.sender[1:]}"]
        rate_bytes_per_s = None if limiter is None else limiter.rate_bytes_per_s * PAYLOAD_SHARE
        for acks in connections(result, flow.name):
            finding = judged(acks, R_TCP)
            at_us = finding.detected_at_us
            rows.append(
                {
                    "flow": flow.name,
                    "condition": CONDITIONS[kind].label,
                    "operator": operator,
                    "cca": rest[0],
                    "wrong_ratio": float(finding.limited != (limiter is not None)),
                    "rate_error_ratio": off(finding.rate_bytes_per_s, rate_bytes_per_s),
                    "limited_s": NAN if at_us is None else (at_us - acks[0].time_us) / 1e6,
                }
            )
    return pd.DataFrame(rows)


def _findings(runs: Runs) -> Findings:
    found = runs.rows(verdicts)
    values = ["wrong_ratio", "rate_error_ratio", "limited_s"]
    figure = plots.bars(
        found,
        "wrong_ratio",
        group="condition",
        by="cca",
        title="Transfers with a wrong verdict",
        subtitle="R-TCP only observing",
    )
    return Findings(
        [
            Table.of(
                found, "Wrong verdicts, errors of the rate, time until found", ["condition", "cca"], values
            ),
        ],
        {"harder": figure},
        checks(found),
    )


def checks(found: pd.DataFrame) -> list[Check]:
    """Check R-TCP's detector in each condition, in rows of `verdicts`.

    Shares of wrong verdicts have the exact interval of a probability: each transfer has its own network.
    """
    made = []
    for condition in CONDITIONS.values():
        own = found[found["condition"] == condition.label]
        wrong = share_interval(int(own["wrong_ratio"].sum()), len(own))
        if not condition.limited:
            high = FALSE_MOVING_MAX if condition.moves else FALSE_MAX
            made.append(
                Check(
                    f"share of transfers in which a limit is found ({condition.label})",
                    wrong,
                    high=high,
                    name=f"false, {condition.label}",
                )
            )
            continue
        made += [
            Check(
                f"share of missed limits ({condition.label})",
                wrong,
                high=MISSED_MAX,
                name=f"missed, {condition.label}",
            ),
            Check(
                f"relative error of the rate ({condition.label})",
                over_runs(own, "rate_error_ratio"),
                high=ERROR_MAX,
                name=f"rate error, {condition.label}",
            ),
        ]
    return made


HARDER: Final = Part(
    "harder",
    "not in the paper: limiters in steps, jitter, a second flow, radio links",
    _grids,
    _findings,
    conditions,
)


RULE: Final = "limiters and links of ccplane's choice, with the bounds of Tables 8 and 9"


def _found(says: str, *kinds: str) -> Claim:
    labels = [CONDITIONS[kind].label for kind in kinds]
    return Claim(
        "Not in the paper",
        f"limits are found, with their rates, {says}",
        HARDER.name,
        checks=[f"{what}, {label}" for label in labels for what in ("missed", "rate error")],
        how=f"share of missed limits is at most {MISSED_MAX:g}, relative error of the rate {ERROR_MAX:g}",
        rule=RULE,
    )


def _none(says: str, bound: float, *kinds: str) -> Claim:
    return Claim(
        "Not in the paper",
        f"no limit is found where there is none, {says}",
        HARDER.name,
        checks=[f"false, {CONDITIONS[kind].label}" for kind in kinds],
        how=f"share of transfers in which a limit is found is at most {bound:g}",
        rule=RULE,
    )


CLAIMS: Final = (
    _found("if tokens come in steps of 10 to 100 ms", "refill10", "refill50", "refill100"),
    _found("with 5 or 20 ms of jitter", "before5", "before20", "after5", "after20"),
    _found("if a second flow comes and goes", "second"),
    _found("in front of a radio link", "radio"),
    _none("over a radio link at rest, or next to a second flow", FALSE_MAX, "freesteady", "freesecond"),
    _none("over a moving radio link", FALSE_MOVING_MAX, "freemoving"),
)
