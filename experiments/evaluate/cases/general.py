"""Existing equipment and general use: sections 5.3 and 6 of RFC 9743."""

from __future__ import annotations

from typing import Final

import msgspec

from experiments.evaluate import criteria
from experiments.evaluate.cases.base import (
    MBIT_USUAL,
    RTT_MS,
    STEADY_S,
    Case,
    queueing,
    steady,
    usual,
)
from experiments.evaluate.measures import (
    goodput,
    retransmitted,
)
from experiments.evaluate.paths import (
    CELLULAR,
    Flow,
    Traces,
    flows,
    lineup,
    offered_mbit,
    path,
)
from experiments.netlab.spec import (
    Bernoulli,
    Buffer,
    CoDel,
    Direction,
    GilbertElliott,
    Loss,
    TokenBucket,
    Tunnel,
)
from experiments.traffic.spec import OnOff
from experiments.units import MBIT

_TRACED_S: Final = 40
"""Duration of runs over a link whose rate varies."""


def _equipment() -> list[Case]:
    cases: list[tuple[str, str, str, str, Direction, Direction | None, float]] = [
        (
            "slow-way-back",
            "a slow way back",
            "50 Mbit/s down, 0.6 Mbit/s up: acknowledgments fill the way back.",
            "drop-tail",
            usual(),
            Direction(rate_bytes_per_s=0.6 * MBIT, delay_us=20_000, buffer=Buffer(packets=50)),
            MBIT_USUAL,
        ),
        (
            "lost-acks",
            "a way back that loses 10 % of acknowledgments",
            "One flow; acknowledgments are lost at random.",
            "loss",
            usual(),
            path(MBIT_USUAL, RTT_MS, loss=Bernoulli(ratio=0.1)),
            MBIT_USUAL,
        ),
        (
            "thinned-acks",
            "a slow way back that thins acknowledgments",
            "50 Mbit/s down, 0.6 Mbit/s up: of the acknowledgments that wait, only the newest is kept.",
            "drop-tail",
            usual(),
            Direction(
                rate_bytes_per_s=0.6 * MBIT, delay_us=20_000, buffer=Buffer(packets=50), ack_filter=True
            ),
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
            usual(duplicate_ratio=0.01),
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
            (steady(mbit), retransmitted(start_s=STEADY_S)),
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
            {"": lineup(usual(0.1), flows(1), 25)},
            (steady(), retransmitted(start_s=STEADY_S)),
        ),
        Case(
            "app-limited",
            criteria.TAIL_DROP,
            "bursts after pauses",
            "One connection that sends for a second and pauses for a second; 0.5 BDP.",
            "drop-tail",
            {"": lineup(usual(0.5), (Flow("x1", traffic=bursts),), 25)},
            (goodput(start_s=STEADY_S, link_mbit=MBIT_USUAL / 2), retransmitted(start_s=STEADY_S)),
        ),
    ]


def _tunnels() -> list[Case]:
    vpn = Tunnel(overhead_bytes=80, mtu_bytes=1420)
    hidden = usual(4, queue=CoDel(), tunnel=msgspec.structs.replace(vpn, ecn=False))
    return [
        Case(
            "tunnel",
            criteria.TUNNELS,
            "a VPN",
            "One flow for 25 s through a tunnel that adds 80 bytes and takes packets of up to 1,420 bytes.",
            "drop-tail",
            {"": lineup(usual(tunnel=vpn), flows(1), 25)},
            (steady(), *queueing()[1:], retransmitted(start_s=STEADY_S)),
        ),
        Case(
            "tunnel-without-ecn",
            criteria.TUNNELS,
            "a VPN that hides ECN",
            "One flow with ECN for 25 s through a tunnel that adds 80 bytes; a buffer of 4 BDP with CoDel. "
            "Outside the tunnel no packet is ECN-capable, so CoDel drops.",
            "aqm",
            {"": lineup(hidden, flows(1), 25, ecn=True)},
            (steady(), *queueing()[1:], retransmitted(start_s=STEADY_S)),
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
            {"": lineup(usual(loss=loss), flows(1), 25)},
            (steady(), *queueing()[1:]),
        )
        for key, (title, how, loss) in losses.items()
    ]
    cellular = Direction(trace=traces.cellular, delay_us=25_000, buffer=Buffer(packets=500))
    offered = offered_mbit(CELLULAR, STEADY_S, _TRACED_S)
    back = Direction(rate_bytes_per_s=10 * MBIT, delay_us=25_000)
    bursty = Direction(trace=traces.bursts, delay_us=20_000, buffer=Buffer(packets=1000))
    return [
        *lossy,
        Case(
            "cellular",
            criteria.WIRELESS,
            "a cellular link",
            f"One flow for 40 s; a modelled LTE link of 10 Mbit/s in the mean ({offered:.3g} from "
            f"{STEADY_S:g} s on), 50 ms, 500 packets of buffer.",
            "cellular",
            {"": lineup(cellular, flows(1), _TRACED_S, back=back)},
            (steady(offered), *queueing(base_ms=50)),
        ),
        Case(
            "ack-bursts",
            criteria.WIRELESS,
            "acknowledgments in bursts",
            "One flow; the way back delivers what it has every 20 ms.",
            "cellular",
            {"": lineup(usual(), flows(1), 25, back=bursty)},
            (steady(), retransmitted(start_s=STEADY_S)),
        ),
    ]


def _mobile(traces: Traces) -> list[Case]:
    links = {
        "lte-driving": ("LTE in a car", "three handovers"),
        "5g-mmwave": ("5G at millimetre waves on foot", "a fall to LTE and back"),
        "leo": ("Starlink", "a reallocation every 15 s, which changes the RTT"),
    }
    made = []
    for key, (title, what) in links.items():
        link, offered = traces.mobile(key), offered_mbit(key, STEADY_S, _TRACED_S)
        made.append(
            Case(
                key,
                criteria.WIRELESS,
                title,
                f"One flow for 40 s; a modelled link of {link.mbit:g} Mbit/s in the mean ({offered:.3g} from "
                f"{STEADY_S:g} s on), with {what}.",
                "cellular",
                {"": lineup(link.way, flows(1), _TRACED_S, events=link.events)},
                (steady(offered), *queueing(base_ms=link.base_ms)),
            )
        )
    return made


def cases(traces: Traces) -> list[Case]:
    """Return the cases of sections 5.3 and 6."""
    return [*_equipment(), *_tail_drop(), *_tunnels(), *_wireless(traces), *_mobile(traces)]
