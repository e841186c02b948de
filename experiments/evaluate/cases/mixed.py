"""An algorithm next to others: section 5.2 of RFC 9743."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from experiments.evaluate import criteria
from experiments.evaluate.cases.base import (
    ALONE,
    CONVERGED_S,
    MBIT_USUAL,
    RTT_MS,
    SIZES,
    STEADY_S,
    Case,
    steady,
    usual,
)
from experiments.evaluate.controllers import CUBIC, RENO
from experiments.evaluate.measures import (
    GOODPUT,
    Measure,
    Run,
    Runs,
    completion,
    goodput,
    media_delay,
    media_lost,
)
from experiments.evaluate.paths import (
    VIDEO,
    Flow,
    flows,
    lineup,
    rival,
)
from experiments.traffic.spec import UNCONTROLLED, Http, Rtp


def _harm(competitor: str, count: int = 1) -> tuple[Measure, ...]:
    """Return measures of both directions of harm (Ware et al., HotNets 2019, section 4)."""
    fair_mbit = MBIT_USUAL / (1 + count)

    def others_mbit(runs: Runs) -> float:
        return _part_mbit(runs[""], "c", count / (1 + count))

    def own_mbit(runs: Runs) -> float:
        return _part_mbit(runs[""], "x", 1 / (1 + count))

    def kept_pct(runs: Runs) -> float:
        return min(100.0, 100 * own_mbit(runs) / fair_mbit)

    def harm(
        name: str, label: str, alone: Callable[[Runs], float], together: Callable[[Runs], float]
    ) -> Measure:
        return Measure(name, label, "", lambda runs: max(0.0, 1 - together(runs) / alone(runs)), "", GOODPUT)

    others = goodput(key="left", label=f"goodput left to {competitor}", share_mbit=fair_mbit * count)
    own = goodput(key="own", label=f"own goodput next to {competitor}", share_mbit=fair_mbit)
    return (
        replace(others, of=lambda runs: min(others_mbit(runs), fair_mbit * count)),
        harm(
            "harm-done",
            f"harm to {competitor}",
            lambda runs: runs[ALONE].mbit("c", CONVERGED_S),
            others_mbit,
        ),
        replace(own, of=own_mbit, better=""),
        Measure("kept", "kept of its equal share", "%", kept_pct, "more", GOODPUT, 0.1),
        harm(
            "harm-suffered",
            f"harm from {competitor}",
            lambda runs: runs["solo"].mbit("x", CONVERGED_S),
            own_mbit,
        ),
    )


def _part_mbit(run: Run, who: str, share: float) -> float:
    """Return the goodput of flows; where all have the same algorithm, their equal share of the goodput.

    Which one of two equal flows gets more is chance, so the mean over both says more.
    """
    if len(run.algorithms) == 1:
        return run.mbit("", CONVERGED_S) * share
    return run.mbit(who, CONVERGED_S)


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
        way = usual(bdp)
        found.append(
            Case(
                f"next-to-{name}",
                criteria.EXISTING,
                f"next to {text}, {bdp:g} BDP of buffer",
                f"One flow and {text if count > 1 else f'one {text} flow'} for 60 s; drop-tail queue of "
                f"{bdp:g} BDP; measured from 15 s. Harm is the share of the goodput without the other that "
                "is lost to it.",
                "drop-tail",
                {
                    "": lineup(way, (*flows(1), *rivals), 60),
                    "solo": lineup(way, flows(1), 60),
                    ALONE: lineup(way, rivals, 60),
                },
                _harm(text, count),
            )
        )
    return found


def _real_time() -> list[Case]:
    return [
        Case(
            f"rtp-{name}",
            criteria.REAL_TIME,
            f"{name} over RTP next to four flows",
            f"Four flows next to {about} over RTP, without congestion control; 2 BDP.",
            "drop-tail",
            {"": lineup(usual(2), (*flows(4), Flow("m1", UNCONTROLLED, traffic)), 30)},
            (media_delay("m", STEADY_S, RTT_MS / 2), media_lost("m", STEADY_S)),
        )
        for name, about, traffic in (
            ("voice", "64 kbit/s of voice (20 ms in a packet)", Rtp()),
            ("video", "2 Mbit/s of video (25 frames/s)", VIDEO),
        )
    ]


def _short_others() -> list[Case]:
    small = Http(objects=(SIZES["300 kB"],), repeat=20, gaps_s=(0.4,), persistent=False)
    way = lineup(usual(), (*flows(1), Flow("t1", CUBIC, small, start_s=5)), 25)
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
                steady(start_s=6),
            ),
        )
    ]


def cases() -> list[Case]:
    """Return the cases of section 5.2."""
    return [*_mixed(), *_real_time(), *_short_others()]
