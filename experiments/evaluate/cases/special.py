"""Special cases: section 7 of RFC 9743."""

from __future__ import annotations

from experiments.evaluate import criteria
from experiments.evaluate.cases.base import (
    CONVERGED_S,
    MBIT_USUAL,
    RTT_MS,
    STEADY_S,
    Case,
    queueing,
    steady,
    usual,
)
from experiments.evaluate.measures import (
    GOODPUT,
    Measure,
    Run,
    Runs,
    completion,
    goodput,
    media_breaker,
    media_delay,
    media_lost,
    retransmitted,
    rtt,
)
from experiments.evaluate.paths import (
    VIDEO,
    Flow,
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
    DropTail,
    DualPI2,
    FqCoDel,
    Misbehaving,
    Pie,
    Queue,
    Red,
    Reorder,
)
from experiments.traffic.spec import UNCONTROLLED, Http
from experiments.units import MBIT


def _aqm() -> list[Case]:
    bdp_bytes = round(MBIT_USUAL * MBIT * RTT_MS / 1000)
    queues: dict[str, tuple[str, Queue, bool]] = {
        "codel": ("CoDel that drops", CoDel(ecn=False), False),
        "codel-ecn": ("CoDel that marks (ECN)", CoDel(), True),
        "red": ("RED that drops", Red(min_bytes=bdp_bytes // 8, max_bytes=bdp_bytes // 2, ecn=False), False),
        "step-ecn": ("marks above 5 ms of queue (ECN)", DropTail(ce_threshold_us=5_000), True),
        "pie": ("PIE that drops", Pie(ecn=False), False),
        "pie-ecn": ("PIE that marks (ECN)", Pie(), True),
    }
    alone = [
        Case(
            key,
            criteria.AQM,
            title,
            f"One flow for 25 s; a buffer of 4 BDP with {title}.",
            "aqm",
            {"": lineup(usual(4, queue=queue), flows(1), 25, ecn=ecn)},
            (steady(), *queueing()[1:], retransmitted(start_s=STEADY_S)),
        )
        for key, (title, queue, ecn) in queues.items()
    ]
    return [*alone, _fq_codel(), _dual_pi2()]


def _fq_codel() -> Case:
    others = (*(rival(n) for n in range(1, 5)), Flow("m1", UNCONTROLLED, VIDEO))
    return Case(
        "fq-codel",
        criteria.AQM,
        "FQ-CoDel",
        "One flow next to four CUBIC flows and 2 Mbit/s of video over RTP, for 30 s; a buffer of 4 BDP with "
        "FQ-CoDel.",
        "aqm",
        {"": lineup(usual(4, queue=FqCoDel()), (*flows(1), *others), 30)},
        (
            goodput(start_s=STEADY_S, share_mbit=(MBIT_USUAL - 2) / 5),
            rtt(50, start_s=STEADY_S, base_ms=RTT_MS),
            media_delay("m", STEADY_S, RTT_MS / 2),
            retransmitted(start_s=STEADY_S),
        ),
    )


def _dual_pi2() -> Case:
    return Case(
        "dualpi2-ecn",
        criteria.AQM,
        "DualPI2 that marks (ECN), next to CUBIC",
        "One flow and one CUBIC flow for 40 s, both in the classic queue of DualPI2, with a buffer of 4 BDP; "
        "measured from 15 s.",
        "aqm",
        {"": lineup(usual(4, queue=DualPI2()), (*flows(1), rival()), 40, ecn=True)},
        (
            goodput(
                "c",
                CONVERGED_S,
                key="left",
                label="goodput left to CUBIC",
                share_mbit=MBIT_USUAL / 2,
            ),
            rtt(95, start_s=CONVERGED_S, base_ms=RTT_MS),
        ),
    )


def _breakers() -> list[Case]:
    media = Flow("m1", UNCONTROLLED, VIDEO)
    return [
        Case(
            "breaker",
            criteria.BREAKERS,
            "2 Mbit/s of video on a narrow path",
            "Four flows next to 2 Mbit/s of video over RTP for 40 s; 10 Mbit/s, 40 ms, 0.5 BDP. The circuit "
            "breakers are those of RFC 8083: no reports, no progress, ten times the rate of TCP.",
            "drop-tail",
            {"": lineup(path(10, RTT_MS, 0.5), (*flows(4), media), 40)},
            (media_breaker("m"), media_lost("m", STEADY_S)),
        )
    ]


def _delays() -> list[Case]:
    longer = lineup(usual(), flows(1), 25, events=[both_ways(10, delay_us=60_000)])
    return [
        Case(
            "jitter",
            criteria.VARYING_DELAY,
            "jitter",
            "One flow; each packet is up to 20 ms late, without reordering.",
            "drop-tail",
            {"": lineup(usual(jitter_us=20_000), flows(1), 25)},
            (steady(),),
        ),
        Case(
            "longer-way",
            criteria.VARYING_DELAY,
            "a longer route",
            "One flow; after 10 s the RTT of the path becomes 120 ms.",
            "drop-tail",
            {"": longer},
            (steady(start_s=12),),
        ),
        Case(
            "narrow",
            criteria.CONSTRAINED,
            "0.5 Mbit/s",
            "One flow for 40 s; 0.5 Mbit/s, 100 ms, 10 packets of buffer.",
            "drop-tail",
            {"": lineup(path(0.5, 100, None, buffer=Buffer(packets=10)), flows(1), 40)},
            (steady(0.5), *queueing(base_ms=100)[1:], retransmitted(start_s=STEADY_S)),
        ),
        Case(
            "satellite",
            criteria.HIGH_DELAY,
            "600 ms of RTT",
            "One flow for 40 s, from its start; 20 Mbit/s, 600 ms, 0.5 BDP.",
            "drop-tail",
            {"": lineup(path(20, 600, 0.5), flows(1), 40)},
            (steady(20, 0), retransmitted()),
        ),
        Case(
            "high-bdp",
            criteria.HIGH_DELAY,
            "200 Mbit/s with 200 ms and one loss in 10,000",
            "One flow for 30 s; 200 Mbit/s, 200 ms, 0.5 BDP, 0.01 % random loss.",
            "loss above 100 Mbit/s",
            {"": lineup(path(200, 200, 0.5, loss=Bernoulli(ratio=1e-4)), flows(1), 30)},
            (steady(200),),
        ),
    ]


def _reordering() -> list[Case]:
    late = {
        "reordering": ("1 % of the packets 5 ms late", Reorder(ratio=0.01, late_us=5_000)),
        "extreme-reordering": ("10 % of the packets 20 ms late", Reorder(ratio=0.1, late_us=20_000)),
    }
    return [
        Case(
            key,
            criteria.REORDERING,
            title,
            f"One flow for 25 s; {title}, at random: later ones overtake them.",
            "loss",
            {"": lineup(usual(reorder=reorder), flows(1), 25)},
            (steady(), retransmitted(start_s=STEADY_S)),
        )
        for key, (title, reorder) in late.items()
    ]


def _changes() -> list[Case]:
    outage = [
        change(10, loss={"kind": "bernoulli", "ratio": 1.0}),
        change(12, loss=None),
    ]
    up = lineup(path(10, RTT_MS), flows(1), 25, events=[both_ways(10, rate_bytes_per_s=50 * MBIT)])
    down = lineup(usual(), flows(1), 25, events=[both_ways(10, rate_bytes_per_s=10 * MBIT)])
    crowd = lineup(usual(), (*flows(1), *(rival(n, start_s=10) for n in range(1, 5))), 25)
    return [
        Case(
            "outage",
            criteria.TRANSIENT,
            "an outage of 2 s",
            "One flow; everything is lost from 10 to 12 s. Measured from 12 to 20 s.",
            "drop-tail",
            {"": lineup(usual(), flows(1), 25, events=outage)},
            (steady(start_s=12, stop_s=20),),
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
            (steady(start_s=10, stop_s=15),),
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


def _misbehaving() -> list[Case]:
    kinds: dict[str, tuple[str, str, Misbehaving]] = {
        "divided-acks": (
            "a receiver that divides acknowledgments",
            "sends ten acknowledgments instead of one",
            Misbehaving("r1", ack_division=10),
        ),
        "optimistic-acks": (
            "a receiver that acknowledges what it did not receive",
            "acknowledges all that was sent, so that the sender sees no loss and repeats nothing",
            Misbehaving("r1", optimistic=True),
        ),
    }
    who = (*flows(1), rival())

    def left_mbit(run: Run) -> float:
        # Which one of two equal flows gets more is chance.
        return run.mbit("", STEADY_S) / 2 if len(run.algorithms) == 1 else run.mbit("c", STEADY_S)

    def harm(runs: Runs) -> float:
        return max(0.0, 1 - runs[""].mbit("c", STEADY_S) / left_mbit(runs["honest"]))

    measures = (
        Measure("harm", "harm of it to CUBIC", "", harm, "less", GOODPUT, 0.05),
        Measure("delivered", "delivered in order", "Mbit/s", _delivered_mbit, "", GOODPUT),
    )
    return [
        Case(
            key,
            criteria.MISBEHAVING,
            title,
            f"One flow and one CUBIC flow for 25 s; the receiver of the first {about}. Harm is the share of "
            "CUBIC's goodput next to an honest receiver that is lost.",
            "drop-tail",
            {"": lineup(usual(), who, 25, misbehaving=how), "honest": lineup(usual(), who, 25)},
            measures,
        )
        for key, (title, about, how) in kinds.items()
    ]


def _delivered_mbit(runs: Runs) -> float:
    return runs[""].received_mbit("x")


def _incast() -> list[Case]:
    answers = Http(objects=(64_000,), repeat=10, gaps_s=(0.2,))
    senders = tuple(Flow(f"x{n + 1}", traffic=answers) for n in range(16))
    return [
        Case(
            "incast",
            criteria.DATA_CENTRES,
            "16 servers answer simultaneously",
            "16 senders with ten answers of 64 kB each; 200 Mbit/s, 1 ms, 100 packets of buffer.",
            "drop-tail above 100 Mbit/s",
            {"": lineup(path(200, 1, None, buffer=Buffer(packets=100)), senders, 8)},
            (
                completion(50, key="time-p50", label="median time of an answer"),
                completion(95, key="time-p95", label="p95 of the time of an answer"),
            ),
        )
    ]


def cases() -> list[Case]:
    """Return the cases of section 7."""
    return [
        *_aqm(),
        *_breakers(),
        *_delays(),
        *_misbehaving(),
        *_reordering(),
        *_changes(),
        *_incast(),
    ]
