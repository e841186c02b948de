"""Claims of the Flex-Cubic paper, and their tests.

Bounds that the paper does not state are those of `experiments.papers.comparisons`, 3 for "several
multiples", 0.8 for a gradual fall, and 0.5 for a pronounced fall.
"""

from __future__ import annotations

from typing import Any, Final

from experiments.papers.comparisons import (
    EQUAL,
    FAIR_JAIN,
    LESS,
    MORE,
    NO_LESS,
    NO_MORE,
    Claim,
    Comparison,
)
from experiments.papers.variants import KERNEL

OWN: Final = "flex_cubic"
BETA: Final = 0.7
"""Beta of RFC 9438, and of kernel CUBIC in all runs."""
CLAIM_LOSS: Final = 0.005
C_PER_S3: Final = 0.4
"""C of RFC 9438; 41 in the paper's unit."""
ALWAYS_K: Final = 1.0
"""k with which every loss counts as congestion."""
TOLERANT_K: Final = 2.0
"""k of the paper."""
LIVE_PHASES: Final = {"before": (0.2, 0.5), "after": (0.85, 1.0)}
"""Measured phases of a run in which k changes halfway, as shares of the run, without slow start. After the
change CUBIC's growth to the other window takes 17 s; the full runs of 60 s leave all of it out, the quick
ones of 40 s only 14 s.
"""
SEVERAL: Final = 3.0
KEPT: Final = 0.8
FALLEN: Final = 0.5

THROUGHPUT: Final = "throughput_bytes_per_s"
GOODPUT: Final = "goodput_bytes_per_s"

LOSSY: Final = (
    (10_000, 1.0, 0.005),
    (25_000, 1.0, 0.005),
    (50_000, 1.0, 0.005),
    (25_000, 0.5, 0.005),
    (25_000, 0.25, 0.005),
    (25_000, 1.0, 0.01),
    (25_000, 1.0, 0.02),
)
"""Networks with random loss that are also in the quick grid: OWD [us], buffer [BDP], loss."""
TYPICAL: Final = "OWD 25 ms, 100 % BDP"


def _of(
    algorithm: str, owd_us: int = 25_000, bdp: float = 1.0, loss: float = 0.005, beta: float = BETA
) -> dict[str, Any]:
    network = {"owd_us": owd_us, "buffer.bdp": bdp, "loss_ratio": loss}
    return {**network, "algorithm": algorithm, "beta": beta, "queue_fraction": 0.0}


def _reported(owd_us: int, bdp: float, loss: float) -> str:
    return f"OWD {owd_us / 1000:g} ms, {100 * bdp:g} % BDP, {100 * loss:g} % loss"


def _by_cubic(
    name: str, column: str, owd_us: int, bdp: float, loss: float, *bounds: float | None
) -> Comparison:
    what = {THROUGHPUT: "throughput", GOODPUT: "goodput", "retrans_pct": "retransmitted share"}[column]
    return Comparison(
        f"{name}, {owd_us}, {bdp:g}, {loss:g}",
        f"ratio of Flex-Cubic's {what} to kernel CUBIC's",
        column,
        _of(OWN, owd_us, bdp, loss),
        _of(KERNEL, owd_us, bdp, loss),
        *bounds,
        where=_reported(owd_us, bdp, loss),
    )


def _ratio(
    name: str,
    says: str,
    column: str,
    of: dict[str, Any],
    by: dict[str, Any],
    where: str,
    *bounds: float | None,
) -> Comparison:
    return Comparison(name, says, column, of, by, *bounds, where=where)


def _parameter(
    name: str, what: str, column: str, of: str, by: str, loss: float, *bounds: float | None
) -> Comparison:
    return Comparison(
        f"{name}, {of}, {loss:g}",
        f"ratio of {what} to that with {by}",
        column,
        {"variant": of, "loss_ratio": loss},
        {"variant": by, "loss_ratio": loss},
        *bounds,
        where=f"{of}, {100 * loss:g} % loss",
    )


def _live(name: str, says: str, variant: str, by: str, *bounds: float | None) -> Comparison:
    column = "after_goodput_bytes_per_s"
    return Comparison(name, says, column, {"variant": variant}, {"variant": by}, *bounds)


CLAIMS: Final = (
    Claim(
        "Figures 4 to 6, section 5",
        "Flex-Cubic has more throughput than CUBIC in most networks with loss",
        "grid",
        [_by_cubic("more", THROUGHPUT, *network, *MORE) for network in LOSSY],
    ),
    Claim(
        "Section 5",
        "at OWD 25 ms and 0.5 % loss Flex-Cubic has several times CUBIC's goodput",
        "grid",
        [_by_cubic("several", GOODPUT, 25_000, 1.0, 0.005, SEVERAL, None)],
    ),
    Claim(
        "Section 5",
        "without loss and with short delays, both have about the same goodput",
        "grid",
        [_by_cubic("same", GOODPUT, owd_us, 1.0, 0.0, *EQUAL) for owd_us in (10_000, 25_000)],
    ),
    Claim(
        "Section 5",
        "CUBIC's throughput falls markedly at 0.5 % loss",
        "grid",
        [
            _ratio(
                "cubic falls",
                "ratio of kernel CUBIC's throughput at 0.5 % loss to that without loss",
                THROUGHPUT,
                _of(KERNEL),
                _of(KERNEL, loss=0.0),
                TYPICAL,
                None,
                FALLEN,
            )
        ],
    ),
    Claim(
        "Section 5",
        "Flex-Cubic's throughput falls gradually as loss grows",
        "grid",
        [
            _ratio(
                "ours stays",
                "ratio of Flex-Cubic's throughput at 2 % loss to that without loss",
                THROUGHPUT,
                _of(OWN, loss=0.02),
                _of(OWN, loss=0.0),
                TYPICAL,
                KEPT,
            )
        ],
    ),
    *(
        Claim(
            "Section 5",
            claim,
            "grid",
            [
                _ratio(
                    name,
                    f"ratio of {what}'s throughput at OWD 50 ms to that at 10 ms",
                    THROUGHPUT,
                    _of(algorithm, 50_000),
                    _of(algorithm, 10_000),
                    "100 % BDP, 0.5 % loss",
                    *bounds,
                )
            ],
            why="runs of 8 s; in the simulator, runs of 15 s",
        )
        for claim, name, what, algorithm, bounds in (
            (
                "CUBIC loses throughput with longer delays",
                "cubic far",
                "kernel CUBIC",
                KERNEL,
                (None, FALLEN),
            ),
            ("Flex-Cubic keeps its throughput with longer delays", "ours far", "Flex-Cubic", OWN, NO_LESS),
        )
    ),
    Claim(
        "Section 5",
        "Flex-Cubic has more throughput with larger buffers",
        "grid",
        [
            _ratio(
                "buffers",
                "ratio of Flex-Cubic's throughput at 100 % BDP to that at 25 %",
                THROUGHPUT,
                _of(OWN),
                _of(OWN, bdp=0.25),
                "OWD 25 ms, 0.5 % loss",
                *MORE,
            )
        ],
    ),
    Claim(
        "Section 5",
        "of beta 0.3, 0.7 and 0.9, 0.7 gives the highest throughput",
        "grid",
        [
            _ratio(
                f"beta {beta}, {loss:g}",
                f"ratio of throughput with beta 0.7 to that with {beta}",
                THROUGHPUT,
                _of(OWN, loss=loss),
                _of(OWN, loss=loss, beta=beta),
                _reported(25_000, 1.0, loss),
                *NO_LESS,
            )
            for beta in (0.3, 0.9)
            for loss in (0.0, 0.005)
        ],
    ),
    Claim(
        "Section 5",
        "throughput varies less with beta 0.3, and more with beta 0.9",
        "grid",
        [
            _ratio(
                f"steady, {beta}",
                f"ratio of the variation of goodput (per second) with beta {beta} to that with 0.7",
                "variation_ratio",
                _of(OWN, beta=beta),
                _of(OWN),
                _reported(25_000, 1.0, CLAIM_LOSS),
                *bounds,
            )
            for beta, bounds in ((0.3, LESS), (0.9, MORE))
        ],
    ),
    Claim(
        "Section 5",
        "Flex-Cubic retransmits more than CUBIC",
        "grid",
        [
            _by_cubic("again", "retrans_pct", 25_000, bdp, loss, *MORE)
            for bdp in (0.25, 1.0)
            for loss in (0.0, 0.005)
        ],
    ),
    Claim(
        "Section 5",
        "C hardly matters",
        "parameters",
        [
            _parameter(
                "c",
                "throughput",
                THROUGHPUT,
                f"C {c:g}",
                f"C {C_PER_S3:g}",
                loss,
                *EQUAL,
            )
            for c in (0.1, 1.6)
            for loss in (0.0, CLAIM_LOSS)
        ],
    ),
    Claim(
        "Section 3.4",
        "thresholds above 2 x minRTT gain nothing",
        "parameters",
        [
            _parameter("k gains", "throughput", THROUGHPUT, f"k {k}", "k 2", loss, *NO_MORE)
            for k in (3, 4, 5)
            for loss in (0.0, CLAIM_LOSS)
        ],
    ),
    Claim(
        "Section 3.4",
        "thresholds above 2 x minRTT cause longer queues and more retransmissions",
        "parameters",
        [
            _parameter(name, what, column, f"k {k}", "k 2", CLAIM_LOSS, *MORE)
            for name, what, column in (
                ("k queues", "RTT (95th percentile)", "rtt_p95_us"),
                ("k again", "retransmitted share", "retrans_pct"),
            )
            for k in (3, 4, 5)
        ],
        why="a buffer that holds a queue of k x minRTT hardly drops anything, whatever k is",
    ),
    Claim(
        "Section 3.4",
        "within a burst of losses, losses after the first one possibly do not count as congestion",
        why="no experiment counts the losses of a burst that did not reduce the window",
    ),
    Claim(
        "Figure 3",
        "two flows that overlap for some time share the link",
        "overlap",
        [
            Comparison(
                f"overlap, {loss:g}",
                "Jain index while both send",
                "jain_index",
                {"variant": OWN, "loss_ratio": loss},
                at_least=FAIR_JAIN,
                where=f"{100 * loss:g} % loss",
            )
            for loss in (0.0, CLAIM_LOSS)
        ],
        why="a loss below 2 x minRTT does not reduce the larger window, so the windows converge slowly;"
        " with the same loss kernel CUBIC has 0.993",
    ),
    Claim(
        "Title, section 3.2",
        "parameters can be changed while flows run",
        "live",
        [
            _live(
                "as from the start, k 2",
                "ratio of goodput after k changed from 1 to 2 to that with k 2 throughout",
                "k 1, then 2",
                "k 2",
                *EQUAL,
            ),
            _live(
                "several times",
                "ratio of goodput after k changed from 1 to 2 to that with k 1 throughout",
                "k 1, then 2",
                "k 1",
                SEVERAL,
            ),
            _live(
                "and back",
                "ratio of goodput after k changed from 2 to 1 to that with k 2 throughout",
                "k 2, then 1",
                "k 2",
                None,
                FALLEN,
            ),
        ],
        why="CUBIC needs 17 s to grow to the other window; runs of 40 s leave 14 s after the change out",
    ),
    Claim(
        "Abstract, section 2",
        "Flex-Cubic uses the available rate after the path's RTT changes",
        "reroute",
        [
            Comparison(
                "rerouted",
                "ratio of goodput at the end to kernel CUBIC's",
                "far_goodput_bytes_per_s",
                {"variant": OWN},
                {"variant": KERNEL},
                *MORE,
                where="RTT 20 ms, then 80 ms; 0.5 % loss",
            )
        ],
        why="once the RTT is four times the old minimum every loss counts; `min_rtt_window_ms` corrects this",
    ),
    Claim(
        "Section 4",
        "the processors are busy for 5 to 10 % of the time",
        why="the paper's figure is for another machine; `ccp bench datapath` compares CPU time with CUBIC",
    ),
    Claim(
        "Section 5, left open there",
        "Flex-Cubic is fair to kernel CUBIC",
        "fairness",
        [
            Comparison(
                "fair",
                "Jain index with a flow of kernel CUBIC",
                "jain_index",
                {"pair": "Flex-Cubic against kernel CUBIC", "buffer.bdp": 1.0, "loss_ratio": 0.0},
                at_least=FAIR_JAIN,
                where=f"{TYPICAL}, no random loss",
            )
        ],
        why="with a full queue of one BDP the RTT is just below 2 x minRTT, so Flex-Cubic ignores the drops;"
        " kernel CUBIC next to itself has 0.944 [0.837, 0.997] on real sockets",
    ),
)
"""Claims, roughly in the paper's order."""
