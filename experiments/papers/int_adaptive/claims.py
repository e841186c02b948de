"""Claims of the paper on transport protocols with in-band telemetry, and their tests.

Bounds that the paper does not state are those of `experiments.papers.comparisons`, 0.7 for a clear
correlation, 5 % for a low overhead, one interval of summaries (10 ms) for real time, 95 % for correct causes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from experiments.papers.comparisons import LESS, MORE, NO_LESS, Claim, Comparison
from experiments.papers.variants import KERNEL

L1: Final = "CUBIC New L1"
L2: Final = "CUBIC New L2"
BOTH: Final = (L1, L2)
ECHO_LOSSES: Final = (0.0, 0.01, 0.05, 0.2)
QUEUE_NAMES: Final = ("drop-tail", "CoDel")
GAIN: Final = 7.0
"""Minimum goodput at 20 % loss, as a multiple of kernel CUBIC's."""
GAIN_WITHOUT_LOSS: Final = 1.12
"""Minimum goodput of New L2 without loss, as a multiple of kernel CUBIC's."""
CLEAR: Final = 0.7
LITTLE: Final = 0.95
RIGHT: Final = 0.95
AT_ONCE_US: Final = 10_000.0


def by_echo(name: str) -> str:
    """Return the name of a variant whose telemetry arrives in ACKs."""
    return f"{name}, echo"


def _no_less(variant: str, loss: float) -> Comparison:
    return Comparison(
        f"no less, {variant}, {loss:g}",
        f"ratio of {variant}'s goodput with echoes to that with summaries",
        "goodput_bytes_per_s",
        {"variant": by_echo(variant), "loss_ratio": loss},
        {"variant": variant, "loss_ratio": loss},
        *NO_LESS,
        where=f"{100 * loss:g} % loss",
    )


def _as_cubic(queue: str, variant: str, column: str, says: str) -> Comparison:
    return Comparison(
        f"silent, {queue}, {variant}, {column}",
        f"{queue}, {variant}: ratio of {says} to kernel CUBIC's",
        column,
        {"queue": queue, "variant": variant},
        {"queue": queue, "variant": KERNEL},
        *NO_LESS,
    )


def _fig6(name: str, variants: Sequence[str], losses: Sequence[float], at_least: float) -> list[Comparison]:
    return [
        Comparison(
            f"{name}, {variant}, {loss:g}",
            "ratio of goodput to kernel CUBIC's",
            "goodput_bytes_per_s",
            {"variant": variant, "loss_ratio": loss},
            {"variant": KERNEL, "loss_ratio": loss},
            at_least,
            where=f"{variant.removeprefix('CUBIC ')}, {100 * loss:g} % loss",
        )
        for loss in losses
        for variant in variants
    ]


def _fig7(
    name: str, says: str, column: str, increments: Sequence[int], *bounds: float | None
) -> list[Comparison]:
    return [
        Comparison(
            f"{name}, {one}",
            f"ratio of {says} to kernel CUBIC's",
            column,
            {"variant": f"CUBIC New {one}"},
            {"variant": KERNEL},
            *bounds,
            where=f"increment {one}",
        )
        for one in increments
    ]


def _right(flows: int, variant: str, loss: float) -> Comparison:
    which: dict[str, Any] = {"flows": flows, "variant": variant, "loss_ratio": loss}
    where = f"{flows} {'flow' if flows == 1 else 'flows'} of {variant}, {100 * loss:g} % loss"
    name, says = f"right, {flows}, {variant}, {loss:g}", "share of losses with the correct cause"
    return Comparison(name, says, "right_ratio", which, at_least=RIGHT, where=where)


CLAIMS: Final = (
    Claim(
        "Figure 4",
        "after every loss that telemetry reports, CUBIC's window is smaller",
        "fig4",
        [
            Comparison(
                "smaller",
                "share of losses after which the window is smaller",
                "smaller_window_ratio",
                at_least=1,
            )
        ],
    ),
    Claim(
        "Figure 4",
        "more losses cause a larger reduction",
        why="the losses of one round trip cause one reduction (RFC 9438); reductions are not counted",
    ),
    Claim(
        "Figure 5",
        "the window and the queue at an access point grow together",
        "fig5",
        [Comparison("together", "correlation of window and queue", "correlation", at_least=CLEAR)],
    ),
    Claim(
        "Figure 5",
        "CUBIC grows its window until the queue overflows",
        "fig5",
        [Comparison("overflows", "packets dropped by the queue", "dropped_queue_pkts", at_least=1)],
    ),
    Claim(
        "Section VI-A",
        "telemetry distinguishes losses on the air from overflowing queues",
        "cause",
        [_right(8, KERNEL, 0.01), _right(8, L1, 0.05), _right(1, L1, 0.01), _right(1, L1, 0.2)],
    ),
    Claim(
        "Figure 6",
        "New L1 and New L2 have more throughput than CUBIC at any loss",
        "fig6",
        _fig6("more", BOTH, (0.01, 0.02, 0.05, 0.1, 0.2), MORE[0] or 1),
        also="echo-loss",
    ),
    Claim(
        "Figure 6",
        "at 20 % loss New L1 and New L2 have seven times CUBIC's throughput",
        "fig6",
        _fig6("gain", BOTH, (0.2,), GAIN),
        number="7",
        why="CUBIC has about 1 % of the link here, so its goodput decides the ratio",
        also="echo-loss",
    ),
    Claim(
        "Figure 6",
        "without loss New L2 has 12 % more throughput",
        "fig6",
        _fig6("twelve per cent", (L2,), (0.0,), GAIN_WITHOUT_LOSS),
        number="12 %",
        why="kernel CUBIC fills the link here, so there is nothing to gain",
        also="echo-loss",
    ),
    Claim(
        "Figure 6",
        "without loss New L1 and New L2 have no less throughput than CUBIC",
        "fig6",
        _fig6("no harm", BOTH, (0.0,), NO_LESS[0] or 1),
        also="echo-loss",
    ),
    Claim(
        "Figure 7",
        "increments 2 and 3 fill the path earlier than CUBIC",
        "fig7",
        _fig7("sooner", "time to fill the path", "path_full_s", (2, 3), *LESS),
        also="echo-growth",
    ),
    Claim(
        "Figure 7",
        "windows set by telemetry stay constant, above all with increment 1",
        "fig7",
        _fig7("steady", "spread of the window", "cwnd_spread_ratio", (1, 2, 3), *LESS),
        why="the first loss sets a threshold, and above it the window grows like CUBIC's",
        also="echo-growth",
    ),
    Claim(
        "Section VI-C",
        "increments 2 and 3 have more throughput",
        "fig7",
        _fig7("throughput", "goodput", "goodput_bytes_per_s", (2, 3), *MORE),
        also="echo-growth",
    ),
    Claim(
        "Section VI-C",
        "increments 1 to 3 have fewer retransmissions",
        "fig7",
        _fig7("again", "retransmissions", "retrans_pkts", (1, 2, 3), *LESS),
        also="echo-growth",
    ),
    Claim(
        "Abstract, section II",
        "the overhead of telemetry is low",
        "overhead",
        [
            Comparison(
                f"overhead, {telemetry}",
                "ratio of goodput with telemetry to that without",
                "goodput_bytes_per_s",
                {"load": "100 Mbit/s", "telemetry": telemetry},
                {"load": "100 Mbit/s", "telemetry": "off"},
                at_least=LITTLE,
                where=f"{telemetry}, 100 Mbit/s",
            )
            for telemetry in ("1 in 10", "every packet")
        ],
        why="telemetry takes 184 of the 1500 bytes of each packet",
    ),
    Claim(
        "Section VI-B",
        "windows change in real time",
        "chain",
        [
            Comparison(
                f"age, {variant}",
                "age of telemetry when the window changes, 99th percentile [us],",
                "age_p99_us",
                {"variant": variant},
                at_most=AT_ONCE_US,
                where=variant,
            )
            for variant in (L1, f"{L2}, increment 1")
        ],
        simulable=False,
    ),
    Claim(
        "Beyond the paper",
        "New L1 has the same goodput with echoes in the ACKs as with summaries",
        "echo-loss",
        [_no_less(L1, loss) for loss in ECHO_LOSSES],
    ),
    Claim(
        "Beyond the paper",
        "with echoes, increments 2 and 3 also fill the path earlier than CUBIC",
        "echo-growth",
        [
            Comparison(
                f"sooner, {one}, echo",
                "ratio of time to fill the path to kernel CUBIC's",
                "path_full_s",
                {"variant": by_echo(f"CUBIC New {one}")},
                {"variant": KERNEL},
                *LESS,
                where=f"increment {one}, echoes",
            )
            for one in (2, 3)
        ],
    ),
    Claim(
        "Beyond the paper",
        "where the bottleneck does not report, New L1 is as fair as CUBIC, and loses no more packets",
        "silent",
        [
            _as_cubic(queue, variant, column, says)
            for queue in QUEUE_NAMES
            for variant in (L1, by_echo(L1))
            for column, says in (
                ("jain_index", "Jain's index"),
                ("sent_once_pct", "the share that is not lost"),
            )
        ],
    ),
    Claim(
        "Section V-C",
        "the results hold over Mininet-WiFi",
        why="the emulator has no radios; `ccp demo wifi` runs Figures 4 to 7 over simulated radios",
    ),
)
"""Claims, in the paper's order."""
