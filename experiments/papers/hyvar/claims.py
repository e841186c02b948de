"""Claims of Hyvar's slides, and their tests.

Bounds that the slides do not state are those of `experiments.papers.comparisons`.
"""

from __future__ import annotations

from typing import Final

from experiments.papers.comparisons import (
    FAIR_JAIN,
    FAIR_SHARES,
    LESS,
    MARGIN,
    MORE,
    Claim,
    Comparison,
    Tuned,
)
from experiments.papers.literal import in_two_parts
from experiments.papers.variants import KERNEL

HYVAR: Final = "hyvar"
HYBRID: Final = "hybrid_mtp"
POLICY: Final = "policy"
BBR: Final = "kernel/bbr"

MTPS_MS: Final = (10, 20, 50, 100, 200)
CLAIM_THROUGHPUT: Final = 1 - MARGIN
CLAIM_DELAY: Final = 1 + MARGIN
CLAIM_CPU: Final = 0.9

THROUGHPUT: Final = "throughput"
DELAY: Final = "delay"
CPU: Final = "cpu"
CPU_OVER_IDLE: Final = "cpu over idle"
"""Checks of the part `mtp`; the initial MTP is appended."""

COMPETITORS: Final = {
    KERNEL: "CUBIC",
    BBR: "BBR",
    HYBRID: "a hybrid with a fixed MTP (for Orca and Spine)",
    POLICY: "the policy alone (for Aurora and Sage)",
}
PATHS: Final = {
    "wired-1": "Wired 1",
    "wired-2": "Wired 2",
    "cellular-1": "Cellular 1",
    "cellular-2": "Cellular 2",
}

_LESS_OF_BOTH: Final = "the competitor has a few per cent less delay, with less throughput"
_SAME_DELAY: Final = "both have the same delay, and the competitor has less throughput"
_SAME_BOTH: Final = "both have the same throughput and delay"
_SAME: Final = "both have the same throughput"
_OPEN: Final = "the difference of the throughputs is smaller than their spread"
_MORE: Final = "Hyvar has less throughput, or at most as much"
WHY: Final = {
    ("wired-1", KERNEL): _SAME,
    ("wired-1", BBR): _SAME,
    ("cellular-1", BBR): _OPEN,
    ("cellular-1", HYBRID): _OPEN,
    ("cellular-1", POLICY): _OPEN,
    ("wired-1", HYBRID): _LESS_OF_BOTH,
    ("wired-1", POLICY): _LESS_OF_BOTH,
    ("wired-2", HYBRID): _SAME_DELAY,
    ("wired-2", POLICY): _SAME_DELAY,
    ("wired-2", BBR): _SAME_BOTH,
    ("cellular-1", KERNEL): _OPEN,
    ("cellular-2", KERNEL): _OPEN,
    ("cellular-2", BBR): _OPEN,
    ("cellular-2", HYBRID): _MORE,
    ("cellular-2", POLICY): _MORE,
}
"""Why the slides' claim fails or is undecided, by path and competitor."""


def _beats(path: str, other: str) -> list[Comparison]:
    own, rival = ({"path": path, "algorithm": one} for one in (HYVAR, other))
    name = {KERNEL: "kernel CUBIC", BBR: "kernel BBR"}.get(other, f"`{other}`")
    throughput, delay = (f"{path}: ratio of Hyvar's {what} to that of {name}" for what in (THROUGHPUT, DELAY))
    return [
        Comparison(f"throughput, {path}, {other}", throughput, "throughput_bytes_per_s", own, rival, *MORE),
        Comparison(f"delay, {path}, {other}", delay, "delay_us", own, rival, *LESS),
    ]


def _mtp(name: str, says: str, column: str, of_ms: int, by_ms: int) -> Comparison:
    of, by = ({"algorithm": HYBRID, "mtp_ms": float(one)} for one in (of_ms, by_ms))
    return Comparison(name, says, column, of, by, *MORE)


RULE: Final = "ccplane's reward, packet trains and price of losses"


TUNED: Final = Tuned(
    "price, weight and bound were chosen on simulated networks of seeds 3 to 16", frozenset(range(3, 17))
)
_RATIOS: Final = (2 * (FAIR_SHARES[0] or 0), 2 * (FAIR_SHARES[1] or 0))


CLAIMS: Final = (
    Claim(
        "Motivation (a)",
        "with a small MTP the sending rate fluctuates initially",
        "mtp",
        [
            _mtp(
                "fluctuates",
                "fixed MTP: ratio of the sending rate's fluctuation (between tenths of a second, first 2 s)"
                " with 10 ms to that with 200 ms",
                "fluctuation_ratio",
                10,
                200,
            )
        ],
    ),
    Claim(
        "Motivation (b)",
        "with a large MTP the delay is longer",
        "mtp",
        [_mtp("large", "fixed MTP: ratio of delay with 200 ms to that with 10 ms", "delay_us", 200, 10)],
    ),
    Claim(
        "Motivation",
        "with a small MTP the agent needs more CPU time",
        "mtp",
        [
            _mtp(
                "small",
                "fixed MTP: ratio of CPU time with 10 ms to that with 200 ms",
                "agent_cpu_pct",
                10,
                200,
            )
        ],
    ),
    Claim(
        "Motivation",
        "hybrids need less CPU time than learned congestion controls",
        "paths",
        [
            Comparison(
                f"cpu, {path}",
                f"{path}: ratio of the CPU time of a hybrid with a fixed MTP to that of the policy alone",
                "agent_cpu_pct",
                {"path": path, "algorithm": HYBRID},
                {"path": path, "algorithm": POLICY},
                *LESS,
            )
            for path in PATHS
        ],
    ),
    *in_two_parts(
        RULE,
        Claim(
            "MTP insensitivity (a)",
            "from any initial MTP, Hyvar has the throughput of the best fixed MTP",
            "mtp",
            checks=[f"{THROUGHPUT}-{one}" for one in MTPS_MS],
            how="ratio of throughput to the highest with a fixed MTP, from each initial MTP, is at least"
            f" {CLAIM_THROUGHPUT:g}",
            bars={f"{THROUGHPUT}-{one}": (CLAIM_THROUGHPUT, None) for one in MTPS_MS},
            measures="throughput_bytes_per_s",
        ),
        Claim(
            "MTP insensitivity (b)",
            "from any initial MTP, Hyvar has the delay of the best fixed MTP",
            "mtp",
            checks=[f"{DELAY}-{one}" for one in MTPS_MS],
            how="ratio of delay to that of the best fixed MTP, from each initial MTP, is at most"
            f" {CLAIM_DELAY:g}",
            bars={f"{DELAY}-{one}": (None, CLAIM_DELAY) for one in MTPS_MS},
            measures="delay_us",
        ),
        Claim(
            "MTP insensitivity (c)",
            "Hyvar needs up to 90 % less CPU time",
            "mtp",
            checks=[f"{CPU_OVER_IDLE}-{one}" for one in MTPS_MS],
            how="saved share of the CPU time at a fixed MTP of 10 ms, without an idle agent's CPU time,"
            f" from each initial MTP, is at least {CLAIM_CPU:g}",
            bars={f"{CPU_OVER_IDLE}-{one}": (CLAIM_CPU, None) for one in MTPS_MS},
            number="up to 90 %",
        ),
        *(
            Claim(
                reported,
                f"Hyvar has more throughput and less delay than {name}",
                "paths",
                _beats(path, other),
                why=WHY.get((path, other), ""),
            )
            for path, reported in PATHS.items()
            for other, name in COMPETITORS.items()
        ),
    ),
    Claim(
        "Beyond the slides",
        "Hyvar's flows share a path evenly",
        "sharing",
        checks=[f"jain-{one}" for one in (2, 4, 8)],
        how=f"Jain index of 2, 4 and 8 flows is at least {FAIR_JAIN:g}",
        bars={f"jain-{one}": (FAIR_JAIN, None) for one in (2, 4, 8)},
        measures="jain_index",
        rule=RULE,
        tuned=TUNED,
    ),
    Claim(
        "Beyond the slides",
        "Hyvar shares a path evenly with CUBIC",
        "sharing",
        checks=[f"share-{one}" for one in ("0.5", "1", "2", "4")],
        how="ratio of its goodput to an equal share, with buffers of 0.5 to 4 BDP, is 0.67 to 1.33",
        bars={f"share-{one}": _RATIOS for one in ("0.5", "1", "2", "4")},
        measures="share_of_fair_ratio",
        rule=RULE,
        tuned=TUNED,
    ),
)
"""Claims, in the slides' order. The slides' conclusion repeats these claims."""
