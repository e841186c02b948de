"""Published claims about Linux' CUBIC and BBR, and their tests.

ccplane chose the bounds that a publication does not state: 20 % of the link for "ten times smaller", 3 %
for "stalls", 5 and 15 % for "meets" and "is close to" a limit, 15 % for formulas and for a model with a
median error of 5 %, 20 % for claims that a quantity does not depend on the number of flows.
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
"""Numbers of CUBIC flows that compete with one BBR flow."""
OTHERS_BDP: Final = 8
"""Buffer in the runs with more than one CUBIC flow."""


def _loss(variant: str, loss: float, says: str, column: str, *bounds: float | None) -> Comparison:
    of: dict[str, Any] = {"variant": variant, "loss_ratio": loss}
    name = "CUBIC" if variant == KERNEL else "BBR"
    where = f"{100 * loss:g} % loss"
    return Comparison(f"{name}, {loss:g}", f"{name}'s {says}", column, of, None, *bounds, where=where)


def _formula(variant: str, loss: float, column: str, name: str) -> Comparison:
    what = "Reno" if variant == RENO else "CUBIC"
    of: dict[str, Any] = {"variant": variant, "loss_ratio": loss}
    says = f"ratio of {what}'s goodput to the formula ({name})"
    return Comparison(f"{name}, {loss:g}", says, column, of, None, *FORMULA, where=f"{100 * loss:g} % loss")


_BUFFER: Final = (
    "at RTT 100 ms the default send buffer (4 MiB) is full while losses are repaired (`sndbuf_limited`)"
)

CLAIMS: Final = (
    Claim(
        "Mathis et al., CCR 27(3), 1997, equation 3",
        "under random loss Reno's window is 1.31 / sqrt(p) if timeouts are rare",
        "formulas",
        [_formula(RENO, loss, "by_mathis_ratio", "Mathis") for loss in (0.001, 0.005, 0.01)],
    ),
    Claim(
        "Padhye et al., SIGCOMM 1998, equation 30",
        "timeouts make Reno slower than equation 3 of Mathis et al., increasingly with loss",
        "formulas",
        [_formula(RENO, loss, "by_padhye_ratio", "Padhye") for loss in FORMULA_LOSSES],
        why="RACK and tail loss probes avoid most of the timeouts that the formula of 1998 assumes",
    ),
    Claim(
        "RFC 9438, section 5.1",
        "CUBIC's window is 1.054 RTT^0.75 / p^0.75, or Reno's if larger",
        "formulas",
        [_formula(KERNEL, loss, "by_rfc9438_ratio", "RFC 9438") for loss in (0.001, 0.005, 0.01)],
    ),
    Claim(
        f"{CARDWELL}, Figure 8",
        "0.1 % random loss reduces CUBIC's throughput to a tenth",
        "loss",
        [_loss(KERNEL, 0.001, "share of the link", "share_of_link_ratio", None, TENFOLD)],
    ),
    Claim(
        f"{CARDWELL}, Figure 8",
        "above 1 % CUBIC stalls",
        "loss",
        [_loss(KERNEL, 0.02, "share of the link", "share_of_link_ratio", None, STALLED)],
    ),
    Claim(
        f"{CARDWELL}, Figure 8",
        "up to 5 % loss BBR has the throughput that the link delivers",
        "loss",
        [
            _loss(BBR, loss, "share of what the link delivers", "share_of_delivered_ratio", MEETS)
            for loss in (0.001, 0.01, 0.05)
        ],
        why=_BUFFER,
    ),
    Claim(
        f"{CARDWELL}, Figure 8",
        "up to 15 % loss BBR is close to the throughput that the link delivers",
        "loss",
        [_loss(BBR, 0.15, "share of what the link delivers", "share_of_delivered_ratio", CLOSE)],
        why=f"{_BUFFER}; and in some runs BBR mistakes 15 % loss for a policer",
    ),
    Claim(
        f"{CARDWELL}, Figure 7",
        "five BBR flows that start 2 s apart share a link of 100 Mbit/s, RTT 10 ms",
        "converge",
        [
            Comparison(
                "converged",
                "Jain index of the five flows from 20 s on",
                "jain_index",
                {"part": "all"},
                at_least=FAIR,
            )
        ],
    ),
    Claim(
        f"{WARE}, Figure 8",
        "competing with one CUBIC flow, BBR has the share of the link that its in-flight cap allows",
        "share",
        [
            Comparison(
                f"model, {bdp}",
                "ratio of BBR's share of the link to the model's",
                "by_model_ratio",
                {"buffer.bdp": float(bdp), "others": 1},
                None,
                *MODEL,
                where=f"{bdp} BDP",
            )
            for bdp in BUFFERS_BDP
        ],
        why="the simulated BBR gets 14 to 20 % less of the link than the model says",
    ),
    Claim(
        f"{WARE}, sections 1 and 3",
        "BBR's share does not depend on the number of CUBIC flows",
        "share",
        [
            Comparison(
                f"others, {n}",
                "ratio of BBR's share with several CUBIC flows to that with one",
                "share_of_link_ratio",
                {"buffer.bdp": float(OTHERS_BDP), "others": n},
                {"buffer.bdp": float(OTHERS_BDP), "others": 1},
                *ALIKE,
                where=f"{n} flows, {OTHERS_BDP} BDP",
            )
            for n in OTHERS[1:]
        ],
    ),
)
"""Claims, in the order of the publications."""
