"""What the Flex-Cubic paper claims, and how it is tested here.

Bounds that the paper does not state are ours: 3 for "several multiples", a fifth for what is kept, half for a
pronounced fall, 3 % for no difference.
"""

from __future__ import annotations

from typing import Any, Final

from experiments.papers.comparisons import Claim, Comparison
from experiments.papers.variants import KERNEL

OURS: Final = "flex_cubic"
BETA: Final = 0.7
"""Of RFC 9438, and of the kernel, where it is fixed."""
CLAIM_LOSS: Final = 0.005
C_PER_S3: Final = 0.4
"""Of RFC 9438; 41 in the paper's unit."""
ALWAYS_K: Final = 1.0
"""k with which every loss counts."""
TOLERANT_K: Final = 2.0
"""The paper's k."""
LIVE_PHASES: Final = {"before": (0.2, 0.5), "after": (0.85, 1.0)}
"""What is looked at of a run in which k changes at half: shares of it, without slow start and the way to the
other window, which takes CUBIC 12 s."""
SEVERAL: Final = 3.0
SAME: Final = 0.03
KEPT: Final = 0.8
FALLEN: Final = 0.5
FAIR: Final = 0.9
HARDLY: Final = 0.05
"""By how much throughput may differ where a parameter hardly matters."""

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
"""Networks with random loss that the quick grid has, too: OWD [us], buffer [BDP], loss."""


def _of(
    algorithm: str, owd_us: int = 25_000, bdp: float = 1.0, loss: float = 0.005, beta: float = BETA
) -> dict[str, Any]:
    network = {"owd_us": owd_us, "buffer.bdp": bdp, "loss_ratio": loss}
    return {**network, "algorithm": algorithm, "beta": beta, "queue_fraction": 0.0}


def _told(owd_us: int, bdp: float, loss: float) -> str:
    return f"OWD {owd_us / 1000:g} ms, {100 * bdp:g} % BDP, {100 * loss:g} % loss"


def _by_cubic(
    name: str, column: str, owd_us: int, bdp: float, loss: float, **bounds: float | None
) -> Comparison:
    what = {THROUGHPUT: "throughput", GOODPUT: "goodput", "retrans_pct": "retransmitted share"}[column]
    return Comparison(
        f"{name}, {owd_us}, {bdp:g}, {loss:g}",
        f"{what} by kernel CUBIC's, {_told(owd_us, bdp, loss)},",
        column,
        _of(OURS, owd_us, bdp, loss),
        _of(KERNEL, owd_us, bdp, loss),
        **bounds,
    )


def _parameter(
    name: str, what: str, column: str, of: str, by: str, loss: float, **bounds: float | None
) -> Comparison:
    return Comparison(
        f"{name}, {of}, {loss:g}",
        f"{what} with {of} by that with {by}, {100 * loss:g} % loss,",
        column,
        {"variant": of, "loss_ratio": loss},
        {"variant": by, "loss_ratio": loss},
        **bounds,
    )


def _live(name: str, says: str, variant: str, by: str, *bounds: float | None) -> Comparison:
    column = "after_goodput_bytes_per_s"
    return Comparison(name, says, column, {"variant": variant}, {"variant": by}, *bounds)


CLAIMS: Final = (
    Claim(
        "Figures 4 to 6, section 5",
        "Flex-Cubic's throughput is above CUBIC's in most networks with loss",
        "grid",
        [_by_cubic("more", THROUGHPUT, *network, at_least=1.0) for network in LOSSY],
    ),
    Claim(
        "Section 5",
        "at OWD 25 ms and 0.5 % loss it is several times CUBIC's",
        "grid",
        [_by_cubic("several", GOODPUT, 25_000, 1.0, 0.005, at_least=SEVERAL)],
    ),
    Claim(
        "Section 5",
        "without loss, and with short delays, both are much the same",
        "grid",
        [
            _by_cubic("same", GOODPUT, owd_us, 1.0, 0.0, at_least=1 - SAME, at_most=1 + SAME)
            for owd_us in (10_000, 25_000)
        ],
    ),
    Claim(
        "Section 5",
        "CUBIC falls markedly at a loss of 0.5 %",
        "grid",
        [
            Comparison(
                "cubic falls",
                "kernel CUBIC's throughput at 0.5 % loss by that without, OWD 25 ms, 100 % BDP,",
                THROUGHPUT,
                _of(KERNEL),
                _of(KERNEL, loss=0.0),
                at_most=FALLEN,
            )
        ],
    ),
    Claim(
        "Section 5",
        "Flex-Cubic falls gradually as loss grows",
        "grid",
        [
            Comparison(
                "ours stays",
                "Flex-Cubic's throughput at 2 % loss by that without, OWD 25 ms, 100 % BDP,",
                THROUGHPUT,
                _of(OURS, loss=0.02),
                _of(OURS, loss=0.0),
                at_least=KEPT,
            )
        ],
    ),
    Claim(
        "Section 5",
        "CUBIC suffers from longer delays where packets are lost",
        "grid",
        [
            Comparison(
                "cubic far",
                "kernel CUBIC's throughput at OWD 50 ms by that at 10 ms, 0.5 % loss, 100 % BDP,",
                THROUGHPUT,
                _of(KERNEL, 50_000),
                _of(KERNEL, 10_000),
                at_most=FALLEN,
            )
        ],
    ),
    Claim(
        "Section 5",
        "Flex-Cubic keeps its throughput with longer delays",
        "grid",
        [
            Comparison(
                "ours far",
                "Flex-Cubic's throughput at OWD 50 ms by that at 10 ms, 0.5 % loss, 100 % BDP,",
                THROUGHPUT,
                _of(OURS, 50_000),
                _of(OURS, 10_000),
                at_least=KEPT,
            )
        ],
    ),
    Claim(
        "Section 5",
        "larger buffers give Flex-Cubic more throughput",
        "grid",
        [
            Comparison(
                "buffers",
                "Flex-Cubic's throughput at 100 % BDP by that at 25 %, OWD 25 ms, 0.5 % loss,",
                THROUGHPUT,
                _of(OURS),
                _of(OURS, bdp=0.25),
                at_least=1.0,
            )
        ],
    ),
    Claim(
        "Section 5",
        "beta 0.7 has the highest throughput of 0.3, 0.7 and 0.9",
        "grid",
        [
            Comparison(
                f"beta {beta}, {loss:g}",
                f"throughput with beta 0.7 by that with {beta}, {_told(25_000, 1.0, loss)},",
                THROUGHPUT,
                _of(OURS, loss=loss),
                _of(OURS, loss=loss, beta=beta),
                at_least=1.0,
            )
            for beta in (0.3, 0.9)
            for loss in (0.0, 0.005)
        ],
    ),
    Claim(
        "Section 5",
        "beta 0.3 is steadier, beta 0.9 varies more",
        "grid",
        [
            Comparison(
                f"steady, {beta}",
                f"coefficient of variation of goodput from second to second with beta {beta} by that with"
                f" 0.7, {_told(25_000, 1.0, CLAIM_LOSS)},",
                "variation_ratio",
                _of(OURS, beta=beta),
                _of(OURS),
                **bounds,
            )
            for beta, bounds in ((0.3, {"at_most": 1.0}), (0.9, {"at_least": 1.0}))
        ],
    ),
    Claim(
        "Section 5",
        "Flex-Cubic retransmits more than CUBIC",
        "grid",
        [
            _by_cubic("again", "retrans_pct", 25_000, bdp, loss, at_least=1.0)
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
                at_least=1 - HARDLY,
                at_most=1 + HARDLY,
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
            _parameter("k gains", "throughput", THROUGHPUT, f"k {k}", "k 2", loss, at_most=1 + SAME)
            for k in (3, 4, 5)
            for loss in (0.0, CLAIM_LOSS)
        ],
    ),
    Claim(
        "Section 3.4",
        "but queue more, and retransmit more",
        "parameters",
        [
            _parameter(name, what, column, f"k {k}", "k 2", CLAIM_LOSS, at_least=1.0)
            for name, what, column in (
                ("k queues", "RTT (95th percentile)", "rtt_p95_us"),
                ("k again", "retransmitted share", "retrans_pct"),
            )
            for k in (3, 4, 5)
        ],
        why="a buffer that holds the queue of k x minRTT hardly drops anything, whatever k is",
    ),
    Claim(
        "Section 3.4",
        "within a burst of losses, those behind the first may be taken for no congestion",
        why="`bursts` has goodput and retransmissions, but no part counts which losses were spared",
    ),
    Claim(
        "Figure 3",
        "two flows that overlap in part share the link",
        "overlap",
        [
            Comparison(
                f"overlap, {loss:g}",
                f"Jain index while both send, {100 * loss:g} % loss,",
                "jain_index",
                {"variant": OURS, "loss_ratio": loss},
                at_least=FAIR,
            )
            for loss in (0.0, CLAIM_LOSS)
        ],
        why="who has the larger window keeps it for a while: from run to run shares differ widely",
    ),
    Claim(
        "Title, section 3.2",
        "parameters can be changed while flows run",
        "live",
        [
            _live(
                "as from the start, k 2",
                "goodput after k was set from 1 to 2, by that with 2 from the start,",
                "k 1, then 2",
                "k 2",
                1 - HARDLY,
                1 + HARDLY,
            ),
            _live(
                "several times",
                "the same by that with 1 throughout",
                "k 1, then 2",
                "k 1",
                SEVERAL,
            ),
            _live(
                "and back",
                "goodput after k was set from 2 to 1, by that with 2 throughout",
                "k 2, then 1",
                "k 2",
                None,
                FALLEN,
            ),
        ],
    ),
    Claim(
        "Abstract, section 2",
        "it uses what there is when the path's RTT changes",
        "reroute",
        [
            Comparison(
                "rerouted",
                "goodput by kernel CUBIC's at the end, RTT 20 ms then 80 ms, 0.5 % loss,",
                "far_goodput_bytes_per_s",
                {"variant": OURS},
                {"variant": KERNEL},
                at_least=1.0,
            )
        ],
        why="once the RTT is four times the old minimum every loss counts; `min_rtt_window_ms` mends it",
    ),
    Claim(
        "Section 4",
        "the processors are busy for 5 to 10 %",
        why="that is of another machine; `ccp bench datapath` compares ours with kernel CUBIC",
    ),
    Claim(
        "Section 5, left open there",
        "it is fair to kernel CUBIC",
        "fairness",
        [
            Comparison(
                "fair",
                "Jain index against kernel CUBIC, OWD 25 ms, 100 % BDP, no random loss,",
                "jain_index",
                {"pair": "Flex-Cubic against kernel CUBIC", "buffer.bdp": 1.0, "loss_ratio": 0.0},
                at_least=FAIR,
            )
        ],
        why="a full queue of one BDP is just below 2 x minRTT, so drops are spared that CUBIC answers",
    ),
)
"""In the paper's order, more or less."""
