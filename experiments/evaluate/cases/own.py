"""An algorithm alone and among its own flows: section 5.1 of RFC 9743."""

from __future__ import annotations

from experiments.evaluate import criteria
from experiments.evaluate.cases.base import (
    MBIT_USUAL,
    RTT_MS,
    SIZES,
    STEADY_S,
    Case,
    queueing,
    steady,
    usual,
)
from experiments.evaluate.measures import (
    GOODPUT,
    Measure,
    completion,
    fairness,
    goodput,
    retransmitted,
)
from experiments.evaluate.paths import (
    Flow,
    change,
    flows,
    lineup,
    path,
)
from experiments.netlab.spec import (
    Buffer,
)
from experiments.traffic.spec import Http
from experiments.units import MBIT


def _collapse() -> list[Case]:
    dying = lineup(usual(), flows(1), 25, events=[change(10, loss={"kind": "bernoulli", "ratio": 0.4})])
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
            {"": lineup(usual(bdp), flows(1), 30)},
            (*queueing(10), steady(start_s=10)),
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
            {"": lineup(usual(bdp), flows(4), 25)},
            (retransmitted(start_s=STEADY_S), steady()),
        )
        for name, bdp in (("quarter", 0.25), ("1bdp", 1.0))
    ]


def _fairness() -> list[Case]:
    staggered = lineup(usual(), flows(4, every_s=3), 40)
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
            (fairness(start_s=20), steady(start_s=20)),
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
    alone = lineup(usual(), (Flow("x1", traffic=downloads),), 25)
    own = lineup(usual(), (Flow("y1"), Flow("x1", traffic=small, start_s=5)), 25)
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


def cases() -> list[Case]:
    """Return the cases of section 5.1."""
    return [*_collapse(), *_bufferbloat(), *_high_loss(), *_fairness(), *_short_flows()]
