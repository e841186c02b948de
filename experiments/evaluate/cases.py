"""The cases: what each criterion of RFC 9743 is tested with.

A case has one or more line-ups of flows over a path, and measures of them. All paths have 50 Mbit/s, an RTT
of 40 ms and a buffer of one bandwidth-delay product (BDP) unless the case says otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from experiments.evaluate import criteria
from experiments.evaluate.controllers import CUBIC, RENO
from experiments.evaluate.criteria import Criterion
from experiments.evaluate.measures import (
    GOODPUT,
    INF,
    Measure,
    completion,
    fairness,
    goodput,
    retransmitted,
    rtt,
)
from experiments.evaluate.paths import (
    Flow,
    Lineup,
    Traces,
    both_ways,
    change,
    flows,
    lineup,
    path,
    rival,
)
from experiments.netlab.spec import (
    Bernoulli,
    Buffer,
    CoDel,
    Direction,
    DropTail,
    GilbertElliott,
    Loss,
    Queue,
    Red,
    TokenBucket,
)
from experiments.traffic.spec import Http, Iperf3, OnOff
from experiments.units import MBIT

MBIT_USUAL: Final = 50.0
RTT_MS: Final = 40.0
STEADY_S: Final = 5.0
"""Start of the time that is measured where the beginning is of no interest [s]."""
ALONE: Final = "alone"
"""Name of the line-up without the flow that is evaluated."""
SIZES: Final = {"30 kB": 30_000, "300 kB": 300_000, "3 MB": 3_000_000}
"""Short flows."""


@dataclass(frozen=True)
class Case:
    """A path with flows, and what is measured there.

    Attributes:
        key: Unique name, for `--only` and files.
        criterion: The criterion.
        title: What happens, as a noun phrase.
        about: Path and flows.
        kind: Kind of path, for the simulator's error.
        lineups: Line-ups of flows; the usual one has an empty name.
        measures: What is measured.
    """

    key: str
    criterion: Criterion
    title: str
    about: str
    kind: str
    lineups: Mapping[str, Lineup]
    measures: Sequence[Measure]


def _usual(bdp: float = 1.0, **fields: object) -> Direction:
    return path(MBIT_USUAL, RTT_MS, bdp, **fields)


def _queueing(start_s: float = STEADY_S, base_ms: float = RTT_MS) -> tuple[Measure, Measure]:
    return rtt(50, start_s=start_s, base_ms=base_ms), rtt(95, start_s=start_s, base_ms=base_ms)


def _rate(mbit: float = MBIT_USUAL, start_s: float = STEADY_S, stop_s: float = INF) -> Measure:
    return goodput(start_s=start_s, stop_s=stop_s, link_mbit=mbit)


# --- one algorithm -----------------------------------------------------------------------------------------


def _collapse() -> list[Case]:
    dying = lineup(_usual(), flows(1), 25, events=[change(10, loss={"kind": "bernoulli", "ratio": 0.4})])
    sent = Measure(
        "sent",
        "sending rate while 40 % is lost",
        "Mbit/s",
        lambda runs: runs[""].sent_mbit("x", 15, 25),
        "less",
        GOODPUT,
        0.1,
    )
    about = "One flow; from 10 s on, 40 % of its packets are lost at random."
    return [Case("collapse", criteria.COLLAPSE, "40 % loss", about, "loss", {"": dying}, (sent,))]


def _bufferbloat() -> list[Case]:
    return [
        Case(
            f"queue-{name}",
            criteria.BUFFERBLOAT,
            f"standing queue, {bdp:g} BDP of buffer",
            f"One flow for 30 s; drop-tail queue of {bdp:g} BDP ({bdp * RTT_MS:g} ms).",
            "drop-tail",
            {"": lineup(_usual(bdp), flows(1), 30)},
            (*_queueing(10), _rate(start_s=10)),
        )
        for name, bdp in (("1bdp", 1.0), ("8bdp", 8.0))
    ]


def _high_loss() -> list[Case]:
    return [
        Case(
            f"shallow-{name}",
            criteria.LOSS,
            f"four own flows, {bdp:g} BDP of buffer",
            f"Four flows of the algorithm for 25 s; drop-tail queue of {bdp:g} BDP.",
            "drop-tail",
            {"": lineup(_usual(bdp), flows(4), 25)},
            (retransmitted(start_s=STEADY_S), _rate()),
        )
        for name, bdp in (("quarter", 0.25), ("1bdp", 1.0))
    ]


def _fairness() -> list[Case]:
    staggered = lineup(_usual(), flows(4, every_s=3), 40)
    near_far = lineup(
        path(MBIT_USUAL, 10, None, buffer=Buffer(bytes=round(MBIT_USUAL * MBIT * 0.08))),
        (Flow("x1", access_ms=5), Flow("x2", access_ms=75)),
        40,
    )
    far = goodput("x2", 10, key="far", label="goodput of the flow with 160 ms", share_mbit=MBIT_USUAL / 2)
    return [
        Case(
            "fair-own",
            criteria.FAIRNESS,
            "four own flows, started 3 s apart",
            "Four flows of the algorithm; measured from 20 to 40 s.",
            "drop-tail",
            {"": staggered},
            (fairness(start_s=20), _rate(start_s=20)),
        ),
        Case(
            "fair-rtt",
            criteria.FAIRNESS,
            "two own flows with RTTs of 20 and 160 ms",
            "Two flows of the algorithm for 40 s; drop-tail queue of 80 ms; measured from 10 s.",
            "drop-tail",
            {"": near_far},
            (fairness(start_s=10), far),
        ),
    ]


def _short_flows() -> list[Case]:
    downloads = Http(objects=tuple(SIZES.values()), repeat=4, gaps_s=(0.3,), persistent=False)
    small = Http(objects=(SIZES["300 kB"],), repeat=20, gaps_s=(0.4,), persistent=False)
    alone = lineup(_usual(), (Flow("x1", traffic=downloads),), 25)
    own = lineup(_usual(), (Flow("y1"), Flow("x1", traffic=small, start_s=5)), 25)
    times = [
        completion(50, size_bytes=size, key=f"time-{size}", label=f"median time of {text}")
        for text, size in SIZES.items()
    ]
    return [
        Case(
            "short-alone",
            criteria.SHORT,
            "downloads on an idle path",
            "Downloads of 30 kB, 300 kB and 3 MB, each with a new connection, one after the other.",
            "drop-tail",
            {"": alone},
            times,
        ),
        Case(
            "short-next-to-own",
            criteria.SHORT,
            "downloads next to a long own flow",
            "Downloads of 300 kB with new connections, next to a long flow of the same algorithm.",
            "drop-tail",
            {"": own},
            (
                completion(50, key="time", label="median time of 300 kB"),
                goodput("y", 6, key="long", label="goodput of the long flow", link_mbit=MBIT_USUAL),
            ),
        ),
    ]


# --- several algorithms ------------------------------------------------------------------------------------


def _harm(competitor: str, count: int = 1) -> tuple[Measure, ...]:
    """Return measures of both directions of harm (Ware et al., HotNets 2019, section 4)."""
    fair_mbit = MBIT_USUAL / (1 + count)
    together = goodput(
        "c", STEADY_S, key="left", label=f"goodput left to {competitor}", share_mbit=fair_mbit * count
    )
    solo = goodput("c", STEADY_S, lineup=ALONE)
    harm = Measure(
        "harm-done",
        f"harm to {competitor}",
        "",
        lambda runs: max(0.0, 1 - together.of(runs) / solo.of(runs)),
        "",
        GOODPUT,
    )
    own_solo = goodput(start_s=STEADY_S, lineup="solo")
    own = goodput(
        start_s=STEADY_S, key="own", label=f"own goodput next to {competitor}", share_mbit=fair_mbit
    )
    suffered = Measure(
        "harm-suffered",
        f"harm from {competitor}",
        "",
        lambda runs: max(0.0, 1 - own.of(runs) / own_solo.of(runs)),
        "",
        GOODPUT,
    )
    return together, harm, own, suffered


def _mixed() -> list[Case]:
    found = []
    for name, bdp, algorithm, text, count in (
        ("cubic-quarter", 0.25, CUBIC, "CUBIC", 1),
        ("cubic-1bdp", 1.0, CUBIC, "CUBIC", 1),
        ("cubic-8bdp", 8.0, CUBIC, "CUBIC", 1),
        ("reno-1bdp", 1.0, RENO, "Reno", 1),
        ("four-cubic", 1.0, CUBIC, "four CUBIC flows", 4),
    ):
        rivals = tuple(rival(n + 1, algorithm) for n in range(count))
        way = _usual(bdp)
        found.append(
            Case(
                f"next-to-{name}",
                criteria.EXISTING,
                f"next to {text}, {bdp:g} BDP of buffer",
                f"One flow and {text if count > 1 else f'one {text} flow'} for 40 s; drop-tail queue of "
                f"{bdp:g} BDP. Harm is the share of the goodput without the other that is lost to it.",
                "drop-tail",
                {
                    "": lineup(way, (*flows(1), *rivals), 40),
                    "solo": lineup(way, flows(1), 40),
                    ALONE: lineup(way, rivals, 40),
                },
                _harm(text, count),
            )
        )
    return found


def _real_time() -> list[Case]:
    thin = Flow("t1", CUBIC, Iperf3(rate_bytes_per_s=2 * MBIT))
    return [
        Case(
            "thin",
            criteria.REAL_TIME,
            "next to a thin paced flow",
            "One flow next to a CUBIC flow whose application sends 2 Mbit/s, a stand-in for media; 2 BDP.",
            "drop-tail",
            {"": lineup(_usual(2), (*flows(1), thin), 30)},
            (
                rtt(95, "t", STEADY_S, base_ms=RTT_MS, label="RTT p95 of the thin flow"),
                retransmitted("t", STEADY_S, label="retransmitted by the thin flow"),
            ),
        )
    ]


def _short_others() -> list[Case]:
    small = Http(objects=(SIZES["300 kB"],), repeat=20, gaps_s=(0.4,), persistent=False)
    way = lineup(_usual(), (*flows(1), Flow("t1", CUBIC, small, start_s=5)), 25)
    return [
        Case(
            "short-cubic",
            criteria.SHORT_AND_LONG,
            "short CUBIC flows next to a long flow",
            "Downloads of 300 kB by CUBIC, each with a new connection, next to a long flow.",
            "drop-tail",
            {"": way},
            (
                completion(50, "t", key="time", label="median time of CUBIC's 300 kB"),
                _rate(start_s=6),
            ),
        )
    ]


# --- equipment and paths -----------------------------------------------------------------------------------


def _equipment() -> list[Case]:
    cases: list[tuple[str, str, str, str, Direction, Direction | None, float]] = [
        (
            "slow-way-back",
            "a slow way back",
            "50 Mbit/s down, 0.6 Mbit/s up: acknowledgments fill the way back.",
            "drop-tail",
            _usual(),
            Direction(rate_bytes_per_s=0.6 * MBIT, delay_us=20_000, buffer=Buffer(packets=50)),
            MBIT_USUAL,
        ),
        (
            "lost-acks",
            "a way back that loses 10 % of acknowledgments",
            "One flow; acknowledgments are lost at random.",
            "loss",
            _usual(),
            path(MBIT_USUAL, RTT_MS, loss=Bernoulli(ratio=0.1)),
            MBIT_USUAL,
        ),
        (
            "policer",
            "a policer",
            "100 Mbit/s path with a policer of 20 Mbit/s and a bucket of 100 kB.",
            "limiter",
            path(100, RTT_MS, token_bucket=TokenBucket(rate_bytes_per_s=20 * MBIT, bucket_bytes=100_000)),
            None,
            20,
        ),
        (
            "duplicates",
            "duplicated packets",
            "One packet in a hundred arrives twice.",
            "loss",
            _usual(duplicate_ratio=0.01),
            None,
            MBIT_USUAL,
        ),
    ]
    return [
        Case(
            key,
            criteria.EQUIPMENT,
            title,
            about,
            kind,
            {"": lineup(way, flows(1), 25, back=back)},
            (_rate(mbit), retransmitted(start_s=STEADY_S)),
        )
        for key, title, about, kind, way, back, mbit in cases
    ]


def _tail_drop() -> list[Case]:
    bursts = OnOff(on_s=1, off_s=1, distribution="fixed")
    return [
        Case(
            "alone-tenth",
            criteria.TAIL_DROP,
            "alone, 0.1 BDP of buffer",
            "One flow for 25 s; drop-tail queue of 0.1 BDP.",
            "drop-tail",
            {"": lineup(_usual(0.1), flows(1), 25)},
            (_rate(), retransmitted(start_s=STEADY_S)),
        ),
        Case(
            "app-limited",
            criteria.TAIL_DROP,
            "bursts after pauses",
            "One connection that sends for a second and pauses for a second; 0.5 BDP.",
            "drop-tail",
            {"": lineup(_usual(0.5), (Flow("x1", traffic=bursts),), 25)},
            (goodput(start_s=STEADY_S, link_mbit=MBIT_USUAL / 2), retransmitted(start_s=STEADY_S)),
        ),
    ]


def _wireless(traces: Traces) -> list[Case]:
    losses: dict[str, tuple[str, str, Loss]] = {
        "random-loss": ("1 % random loss", "independent", Bernoulli(ratio=0.01)),
        "burst-loss": (
            "1 % loss in bursts",
            "in bursts of five packets in the mean",
            GilbertElliott(good_to_bad=0.01 * 0.2 / 0.99, bad_to_good=0.2),
        ),
    }
    lossy = [
        Case(
            key,
            criteria.WIRELESS,
            title,
            f"One flow for 25 s; 1 % of the packets is lost, {how}.",
            "loss",
            {"": lineup(_usual(loss=loss), flows(1), 25)},
            (_rate(), *_queueing()[1:]),
        )
        for key, (title, how, loss) in losses.items()
    ]
    cellular = Direction(trace=traces.cellular, delay_us=25_000, buffer=Buffer(packets=500))
    back = Direction(rate_bytes_per_s=10 * MBIT, delay_us=25_000)
    bursty = Direction(trace=traces.bursts, delay_us=20_000, buffer=Buffer(packets=1000))
    return [
        *lossy,
        Case(
            "cellular",
            criteria.WIRELESS,
            "a cellular link",
            "One flow for 40 s; a modelled LTE link of 10 Mbit/s in the mean, 50 ms, 500 packets of buffer.",
            "cellular",
            {"": lineup(cellular, flows(1), 40, back=back)},
            (_rate(10), *_queueing(base_ms=50)),
        ),
        Case(
            "ack-bursts",
            criteria.WIRELESS,
            "acknowledgments in bursts",
            "One flow; the way back delivers what it has every 20 ms.",
            "cellular",
            {"": lineup(_usual(), flows(1), 25, back=bursty)},
            (_rate(), retransmitted(start_s=STEADY_S)),
        ),
    ]


# --- special cases -----------------------------------------------------------------------------------------


def _aqm() -> list[Case]:
    bdp_bytes = round(MBIT_USUAL * MBIT * RTT_MS / 1000)
    queues: dict[str, tuple[str, Queue, bool]] = {
        "codel": ("CoDel that drops", CoDel(ecn=False), False),
        "codel-ecn": ("CoDel that marks (ECN)", CoDel(), True),
        "red": ("RED that drops", Red(min_bytes=bdp_bytes // 8, max_bytes=bdp_bytes // 2, ecn=False), False),
        "step-ecn": ("marks above 5 ms of queue (ECN)", DropTail(ce_threshold_us=5_000), True),
    }
    return [
        Case(
            key,
            criteria.AQM,
            title,
            f"One flow for 25 s; a buffer of 4 BDP with {title}.",
            "aqm",
            {"": lineup(_usual(4, queue=queue), flows(1), 25, ecn=ecn)},
            (_rate(), *_queueing()[1:], retransmitted(start_s=STEADY_S)),
        )
        for key, (title, queue, ecn) in queues.items()
    ]


def _delays() -> list[Case]:
    longer = lineup(_usual(), flows(1), 25, events=[both_ways(10, delay_us=60_000)])
    return [
        Case(
            "jitter",
            criteria.VARYING_DELAY,
            "jitter",
            "One flow; each packet is up to 20 ms late, without reordering.",
            "drop-tail",
            {"": lineup(_usual(jitter_us=20_000), flows(1), 25)},
            (_rate(),),
        ),
        Case(
            "longer-way",
            criteria.VARYING_DELAY,
            "a longer route",
            "One flow; after 10 s the RTT of the path becomes 120 ms.",
            "drop-tail",
            {"": longer},
            (_rate(start_s=12),),
        ),
        Case(
            "narrow",
            criteria.CONSTRAINED,
            "0.5 Mbit/s",
            "One flow for 40 s; 0.5 Mbit/s, 100 ms, 10 packets of buffer.",
            "drop-tail",
            {"": lineup(path(0.5, 100, None, buffer=Buffer(packets=10)), flows(1), 40)},
            (_rate(0.5), *_queueing(base_ms=100)[1:], retransmitted(start_s=STEADY_S)),
        ),
        Case(
            "satellite",
            criteria.HIGH_DELAY,
            "600 ms of RTT",
            "One flow for 40 s, from its start; 20 Mbit/s, 600 ms, 0.5 BDP.",
            "drop-tail",
            {"": lineup(path(20, 600, 0.5), flows(1), 40)},
            (_rate(20, 0), retransmitted()),
        ),
        Case(
            "high-bdp",
            criteria.HIGH_DELAY,
            "200 Mbit/s with 200 ms and one loss in 10,000",
            "One flow for 30 s; 200 Mbit/s, 200 ms, 0.5 BDP, 0.01 % random loss.",
            "loss",
            {"": lineup(path(200, 200, 0.5, loss=Bernoulli(ratio=1e-4)), flows(1), 30)},
            (_rate(200),),
        ),
    ]


def _changes() -> list[Case]:
    outage = [
        change(10, loss={"kind": "bernoulli", "ratio": 1.0}),
        change(12, loss=None),
    ]
    up = lineup(path(10, RTT_MS), flows(1), 25, events=[both_ways(10, rate_bytes_per_s=50 * MBIT)])
    down = lineup(_usual(), flows(1), 25, events=[both_ways(10, rate_bytes_per_s=10 * MBIT)])
    crowd = lineup(_usual(), (*flows(1), *(rival(n, start_s=10) for n in range(1, 5))), 25)
    return [
        Case(
            "outage",
            criteria.TRANSIENT,
            "an outage of 2 s",
            "One flow; everything is lost from 10 to 12 s. Measured from 12 to 20 s.",
            "drop-tail",
            {"": lineup(_usual(), flows(1), 25, events=outage)},
            (_rate(start_s=12, stop_s=20),),
        ),
        Case(
            "crowd",
            criteria.TRANSIENT,
            "four CUBIC flows arrive",
            "One flow; after 10 s four CUBIC flows start. Measured in the 10 s from then.",
            "drop-tail",
            {"": crowd},
            (
                goodput("c", 10, 20, key="left", label="goodput of those that arrive", share_mbit=40),
                rtt(95, "c", 10, 20, base_ms=RTT_MS, label="RTT p95 of those that arrive"),
            ),
        ),
        Case(
            "rate-up",
            criteria.CHANGES,
            "the rate rises from 10 to 50 Mbit/s",
            "One flow; measured in the 5 s after the change at 10 s.",
            "drop-tail",
            {"": up},
            (_rate(start_s=10, stop_s=15),),
        ),
        Case(
            "rate-down",
            criteria.CHANGES,
            "the rate falls from 50 to 10 Mbit/s",
            "One flow; measured in the 5 s after the change at 10 s.",
            "drop-tail",
            {"": down},
            (
                rtt(95, start_s=10, stop_s=15, base_ms=RTT_MS),
                retransmitted(start_s=10, stop_s=15),
                goodput(start_s=10, stop_s=15, link_mbit=10),
            ),
        ),
    ]


def _incast() -> list[Case]:
    answers = Http(objects=(64_000,), repeat=10, gaps_s=(0.2,))
    senders = tuple(Flow(f"x{n + 1}", traffic=answers) for n in range(16))
    return [
        Case(
            "incast",
            criteria.DATA_CENTRES,
            "16 servers answer simultaneously",
            "16 senders with ten answers of 64 kB each; 200 Mbit/s, 1 ms, 100 packets of buffer.",
            "drop-tail",
            {"": lineup(path(200, 1, None, buffer=Buffer(packets=100)), senders, 8)},
            (
                completion(50, key="time-p50", label="median time of an answer"),
                completion(95, key="time-p95", label="p95 of the time of an answer"),
            ),
        )
    ]


@cache
def all_cases(folder: Path) -> tuple[Case, ...]:
    """Return all cases, in the order of RFC 9743; `folder` is that of their trace files."""
    traces = Traces(folder)
    return (
        *_collapse(),
        *_bufferbloat(),
        *_high_loss(),
        *_fairness(),
        *_short_flows(),
        *_mixed(),
        *_real_time(),
        *_short_others(),
        *_equipment(),
        *_tail_drop(),
        *_wireless(traces),
        *_aqm(),
        *_delays(),
        *_changes(),
        *_incast(),
    )
