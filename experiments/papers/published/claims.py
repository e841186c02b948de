"""What others have published of Linux' CUBIC and BBR, and how it is tested here.

Bounds that a publication does not state are ours: twice for "ten times", 3 % of the link for "stalls", 5 and
15 % for "meets" and "is close to" a limit, 15 % for formulas and for a model whose median error is 5 %, a
fifth for what does not depend on a number of flows.
"""

from __future__ import annotations

from typing import Any, Final

from experiments.papers.comparisons import Claim, Comparison
from experiments.papers.variants import KERNEL

BBR: Final = "kernel/bbr"
RENO: Final = "kernel/reno"

CARDWELL: Final = "Cardwell et al., ACM Queue 14(5), 2016"
WARE: Final = "Ware et al., IMC 2019"

TENFOLD: Final = 0.2
STALLED: Final = 0.03
MEETS: Final = 0.95
CLOSE: Final = 0.85
FAIR: Final = 0.9
MODEL: Final = (0.85, 1.15)
ALIKE: Final = (0.8, 1.2)

FORMULA: Final = (0.85, 1.15)
FORMULA_LOSSES: Final = (0.001, 0.005, 0.01, 0.02, 0.05)

BUFFERS_BDP: Final = (2, 4, 8, 16, 32)
OTHERS: Final = (1, 2, 4, 8)
"""How many CUBIC flows are beside one BBR flow."""
OTHERS_BDP: Final = 8
"""Buffer in which there is more than one."""


def _loss(
    variant: str,
    loss: float,
    says: str,
    column: str,
    *,
    at_least: float | None = None,
    at_most: float | None = None,
) -> Comparison:
    of: dict[str, Any] = {"variant": variant, "loss_ratio": loss}
    name = "CUBIC" if variant == KERNEL else "BBR"
    sentence = f"{name}'s {says} at {100 * loss:g} % loss"
    return Comparison(f"{name}, {loss:g}", sentence, column, of, None, at_least, at_most)


def _formula(variant: str, loss: float, column: str, name: str) -> Comparison:
    what = "Reno" if variant == RENO else "CUBIC"
    of: dict[str, Any] = {"variant": variant, "loss_ratio": loss}
    says = f"{what}'s goodput by {name}, {100 * loss:g} % loss,"
    return Comparison(f"{name}, {loss:g}", says, column, of, None, *FORMULA)


_BUFFER: Final = (
    "with RTT 100 ms the default send buffer, 4 MiB, is full while losses are repaired (`sndbuf_limited`)"
)

CLAIMS: Final = (
    Claim(
        "Mathis et al., CCR 27(3), 1997, equation 3",
        "Reno's window is 1.31 / sqrt(p) under random loss, where timeouts are rare",
        "formulas",
        [_formula(RENO, loss, "by_mathis_ratio", "Mathis") for loss in (0.001, 0.005, 0.01)],
    ),
    Claim(
        "Padhye et al., SIGCOMM 1998, equation 30",
        "timeouts make Reno slower than that, the more is lost",
        "formulas",
        [_formula(RENO, loss, "by_padhye_ratio", "Padhye") for loss in FORMULA_LOSSES],
        why="RACK and tail loss probes spare Linux most of the timeouts that the formula of 1998 expects",
    ),
    Claim(
        "RFC 9438, section 5.1",
        "CUBIC's window is 1.054 RTT^0.75 / p^0.75, or Reno's",
        "formulas",
        [_formula(KERNEL, loss, "by_rfc9438_ratio", "RFC 9438") for loss in (0.001, 0.005, 0.01)],
    ),
    Claim(
        f"{CARDWELL}, Figure 8",
        "0.1 % random loss makes CUBIC's throughput ten times smaller",
        "loss",
        [_loss(KERNEL, 0.001, "share of the link", "share_of_link_ratio", at_most=TENFOLD)],
    ),
    Claim(
        f"{CARDWELL}, Figure 8",
        "above 1 % CUBIC stalls",
        "loss",
        [_loss(KERNEL, 0.02, "share of the link", "share_of_link_ratio", at_most=STALLED)],
    ),
    Claim(
        f"{CARDWELL}, Figure 8",
        "BBR has what the link delivers up to 5 % loss",
        "loss",
        [
            _loss(BBR, loss, "share of what the link delivers", "share_of_delivered_ratio", at_least=MEETS)
            for loss in (0.001, 0.01, 0.05)
        ],
        why=_BUFFER,
    ),
    Claim(
        f"{CARDWELL}, Figure 8",
        "and is close to it up to 15 %",
        "loss",
        [_loss(BBR, 0.15, "share of what the link delivers", "share_of_delivered_ratio", at_least=CLOSE)],
        why=f"{_BUFFER}; and in some runs BBR takes 15 % loss for a policer",
    ),
    Claim(
        f"{CARDWELL}, Figure 7",
        "five BBR flows that start 2 s apart share a link of 100 Mbit/s, RTT 10 ms",
        "converge",
        [
            Comparison(
                "converged",
                "Jain index of the five from 20 s on",
                "jain_index",
                {"part": "all"},
                at_least=FAIR,
            )
        ],
    ),
    Claim(
        f"{WARE}, Figure 8",
        "beside one CUBIC flow, BBR has the part of the link that the in-flight cap gives it",
        "share",
        [
            Comparison(
                f"model, {bdp}",
                f"BBR's part of the link by the model's, {bdp} BDP,",
                "by_model_ratio",
                {"buffer.bdp": float(bdp), "others": 1},
                None,
                *MODEL,
            )
            for bdp in BUFFERS_BDP
        ],
        why="BBR of Linux 6.18 has 13 to 21 % less than the model gives it",
    ),
    Claim(
        f"{WARE}, sections 1 and 3",
        "that part does not depend on how many CUBIC flows there are",
        "share",
        [
            Comparison(
                f"others, {n}",
                f"BBR's part beside {n} CUBIC flows by that beside one, {OTHERS_BDP} BDP,",
                "share_of_link_ratio",
                {"buffer.bdp": float(OTHERS_BDP), "others": n},
                {"buffer.bdp": float(OTHERS_BDP), "others": 1},
                *ALIKE,
            )
            for n in OTHERS[1:]
        ],
    ),
)
"""In the order of the publications."""
