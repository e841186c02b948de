"""Claims of the R-Hybrid paper, and their tests.

ccplane chose the bounds that the paper does not state: those of `experiments.papers.comparisons`, and a tenth
for "far more".
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from experiments.papers.comparisons import (
    EQUAL,
    FAIR_SHARES,
    LESS,
    MORE,
    NO_LESS,
    Claim,
    Comparison,
    Tuned,
)
from experiments.papers.literal import in_one_part
from experiments.papers.variants import KERNEL

OWN: Final = "r_hybrid"
OWN_ONLY: Final = f"{OWN}, mode own"
"""R-Hybrid in the mode that recognises the sender's own marks, without a threshold from other paths."""
BBR: Final = "kernel/bbr"
DCTCP: Final = "dctcp"
AGGRESSIVE: Final = "marking at 0.3 ms"
BASELINE: Final = "no marking"

LOSS: Final = 0.01
RTT_US: Final = 1_000
LITERAL: Final = f"{OWN}, marks as losses"
"""R-Hybrid with the paper's CUBIC, which takes a mark for a loss."""
STRICT: Final = f"{OWN}, a mark is congestion"
"""R-Hybrid with the paper's threshold for marks, and with the paper's CUBIC."""
SMALL_LOSS: Final = 0.96
"""Minimum ratio of throughput with 1 % loss to that without; the paper's."""
FEWER: Final = 0.1
"""Maximum ratio of R-Hybrid's retransmissions to BBR's without loss."""
AS_MANY: Final = (0.94, 1.06)
"""Ratio of retransmissions to BBR's that counts as equal: the paper calls 1,029,070 as many as 970,507."""
MOSTLY: Final = 0.9
OWN_MARKS_RULE: Final = "a threshold for marks from other paths (`noise_ce_marks` 650)"
OWN_BETA_RULE: Final = "`early_ecn_beta` 0.95"
PAPERS_MARKS: Final = "the paper's threshold for marks takes those of DCTCP alone for congestion"


def _fig2(variant: str, loss: float) -> dict[str, Any]:
    return {"variant": variant, "loss_ratio": loss, "rtt_us": RTT_US}


def _against(name: str, column: str, loss: float, *bounds: float | None, rule: str = OWN) -> list[Comparison]:
    what = {"goodput_bytes_per_s": "goodput", "retrans_pkts": "retransmissions"}[column]
    on = f"{100 * loss:g} % loss" if loss else "clean"
    others = {KERNEL: "kernel CUBIC", BBR: "kernel BBR"}
    chosen = [BBR] if column == "retrans_pkts" else list(others)
    threshold = ", the paper's threshold" if rule == STRICT else ""
    return [
        Comparison(
            f"{name}, {other}{threshold}",
            f"ratio of R-Hybrid's {what} to {others[other]}'s, {on}{threshold},",
            column,
            _fig2(rule, loss),
            _fig2(other, loss),
            *bounds,
        )
        for other in chosen
    ]


def _fig3(variant: str, marking: str) -> dict[str, str]:
    return {"variant": variant, "marking": marking}


def _by_baseline(name: str, who: str, variant: str, *bounds: float | None) -> Comparison:
    return Comparison(
        name,
        f"ratio of {who}'s goodput under aggressive marking to the clean baseline's",
        "goodput_bytes_per_s",
        _fig3(variant, AGGRESSIVE),
        _fig3(KERNEL, BASELINE),
        *bounds,
    )


def _as_dctcp(*variants: tuple[str, str]) -> list[Comparison]:
    return [
        Comparison(
            f"as dctcp, {column}{more}",
            f"ratio of R-Hybrid's {what} to DCTCP's, clean{more},",
            column,
            {"variant": variant},
            {"variant": DCTCP},
            *EQUAL,
        )
        for variant, more in variants
        for what, column in (
            ("goodput", "goodput_bytes_per_s"),
            ("median queueing delay", "queueing_delay_p50_us"),
        )
    ]


def _fast(name: str, says: str, of: tuple[str, float], by: tuple[str, float], *bounds: float) -> Comparison:
    """Return a ratio of goodputs on 1 Gbit/s; `of` and `by` are a variant and its random loss."""
    one, other = ({"variant": variant, "loss_ratio": loss} for variant, loss in (of, by))
    return Comparison(name, says, "goodput_bytes_per_s", one, other, *bounds, path="loss")


def _next_to_cubic(name: str, who: str) -> list[Comparison]:
    says = f"share of the goodput of four streams of {who} next to four of kernel CUBIC that obey marks"
    return [
        Comparison(
            f"{name}, {link}",
            says,
            "own_goodput_ratio",
            {"link": link, "others": "kernel CUBIC", "ours": who},
            None,
            *FAIR_SHARES,
            where=link,
            path="aqm",
        )
        for link in ("RTT 1 ms, marks at 0.3 ms", "RTT 20 ms, marks at 5 ms")
    ]


_CLAIMS: Final = (
    *in_one_part(
        Claim(
            "Figure 2",
            "without loss R-Hybrid has as much throughput as CUBIC and BBR",
            "fig2",
            _against("clean", "goodput_bytes_per_s", 0.0, *NO_LESS),
            number="4.6 to 4.7 Gbit/s",
        ),
        OWN_MARKS_RULE,
        PAPERS_MARKS,
        _against("clean", "goodput_bytes_per_s", 0.0, *NO_LESS, rule=STRICT),
    ),
    Claim(
        "Figure 2",
        "1 % random loss costs CUBIC and BBR 2 to 4 % of their throughput",
        "fig2",
        [
            Comparison(
                f"loss, {variant}",
                f"ratio of {name}'s goodput with 1 % loss to that without",
                "goodput_bytes_per_s",
                _fig2(variant, LOSS),
                _fig2(variant, 0.0),
                SMALL_LOSS,
            )
            for variant, name in ((KERNEL, "kernel CUBIC"), (BBR, "kernel BBR"))
        ],
        number="2 to 4 %",
        why="200 Mbit/s and RTT 1 ms: 17 packets fill the path, so loss costs nothing",
    ),
    Claim(
        "Figure 2, 1 Gbit/s",
        "1 % random loss costs CUBIC and BBR 2 to 4 % of their throughput",
        "fast",
        [
            _fast(
                f"fast loss, {name}",
                f"ratio of {name}'s goodput with 1 % loss to that without",
                (variant, LOSS),
                (variant, 0.0),
                SMALL_LOSS,
            )
            for variant, name in ((KERNEL, "kernel CUBIC"), (BBR, "kernel BBR"))
        ],
        number="2 to 4 %",
        why="CUBIC loses two thirds of its throughput",
    ),
    *in_one_part(
        Claim(
            "Figure 2",
            "with 1 % loss R-Hybrid has as much throughput as CUBIC and BBR",
            "fig2",
            _against("lossy", "goodput_bytes_per_s", LOSS, *NO_LESS),
            number="4.62 Gbit/s; 4.64 and 4.59",
        ),
        OWN_MARKS_RULE,
        PAPERS_MARKS,
        _against("lossy", "goodput_bytes_per_s", LOSS, *NO_LESS, rule=STRICT),
    ),
    Claim(
        "Figure 2, 1 Gbit/s",
        "with 1 % loss R-Hybrid has as much throughput as CUBIC and BBR",
        "fast",
        [
            _fast(
                f"fast as much, {name}",
                f"ratio of R-Hybrid's goodput to {name}'s, 1 % loss,",
                (OWN, LOSS),
                (variant, LOSS),
                NO_LESS[0] or 1,
            )
            for variant, name in ((KERNEL, "kernel CUBIC"), (BBR, "kernel BBR"))
        ],
        number="4.62 Gbit/s; 4.64 and 4.59",
        why="R-Hybrid uses CUBIC here, which loses throughput; BBR does not",
    ),
    Claim(
        "Figure 3",
        "DCTCP loses throughput if marks come too early",
        "fig3",
        [_by_baseline("dctcp", "DCTCP", DCTCP, *LESS)],
        number="11.4 % less",
        path="aqm",
    ),
    *in_one_part(
        Claim(
            "Figure 3",
            "R-Hybrid keeps its throughput if marks come too early",
            "fig3",
            [_by_baseline("ours", "R-Hybrid", OWN, *NO_LESS)],
            number="4.61 of 4.65 Gbit/s",
            path="aqm",
            tuned=Tuned(f"{OWN_BETA_RULE} was chosen on this link"),
        ),
        OWN_BETA_RULE,
        "CUBIC, to which R-Hybrid switches, takes marks for losses",
        [_by_baseline("literal", "R-Hybrid (marks as losses)", LITERAL, *NO_LESS)],
    ),
    Claim(
        "Figure 3",
        "R-Hybrid keeps its throughput because it mistakes the path for shared, and uses CUBIC",
        "fig3",
        [
            Comparison(
                "shared",
                "share of the receiver's decisions for SHARED",
                "shared_ratio",
                _fig3(OWN, AGGRESSIVE),
                at_least=MOSTLY,
            )
        ],
        path="aqm",
    ),
    Claim(
        "Section 5.1",
        "segmentation in the network card exceeds the rate of `fq`",
        why="the claim is about AWS' network cards",
    ),
    *in_one_part(
        Claim(
            "Figure 4",
            "without loss BBR retransmits far more than R-Hybrid",
            "fig2",
            _against("fewer", "retrans_pkts", 0.0, None, FEWER),
            number="37,374 to 944,524 packets",
        ),
        OWN_MARKS_RULE,
        PAPERS_MARKS,
        _against("fewer", "retrans_pkts", 0.0, None, FEWER, rule=STRICT),
    ),
    Claim(
        "Figure 4",
        "BBR retransmits more with 1 % loss than without",
        "fig2",
        [
            Comparison(
                "bbr again",
                "ratio of BBR's retransmissions with 1 % loss to those without",
                "retrans_pkts",
                _fig2(BBR, LOSS),
                _fig2(BBR, 0.0),
                *MORE,
            )
        ],
        number="970,507 to 944,524 packets",
        why="BBR's probes lose ten times as many packets at the full queue as are lost at random",
    ),
    *in_one_part(
        Claim(
            "Figure 4",
            "with 1 % loss R-Hybrid retransmits as much as BBR",
            "fig2",
            _against("as many", "retrans_pkts", LOSS, *AS_MANY),
            number="1,029,070 to 970,507 packets",
            why="BBR's probes overflow this queue; R-Hybrid retransmits little more than is lost at random",
        ),
        OWN_MARKS_RULE,
        PAPERS_MARKS,
        _against("as many", "retrans_pkts", LOSS, *AS_MANY, rule=STRICT),
    ),
    Claim(
        "Figure 5",
        "the regime changes to SHARED around 70 s and around 220 s",
        "fig5",
        checks=["shared-1", "shared-2"],
        how="time of the change [s] in the synthetic series is within 5 s of the paper's",
    ),
    Claim(
        "Figure 5",
        "the regime stays SHARED while losses continue",
        "fig5",
        checks=["held"],
        how="share of SHARED among the intervals with losses is 1",
    ),
    Claim(
        "Figure 5, section 5",
        "decisions do not oscillate",
        "fig5",
        checks=["changes"],
        how="number of changes of the regime is 4",
    ),
    *in_one_part(
        Claim(
            "Sections 5 and 9",
            "alone on a link R-Hybrid is as good as DCTCP",
            "clean",
            _as_dctcp((OWN, ""), (OWN_ONLY, ", mode own")),
            path="aqm",
        ),
        OWN_MARKS_RULE,
        PAPERS_MARKS,
        _as_dctcp((STRICT, ", the paper's threshold")),
    ),
    Claim(
        "Sections 4.2 and 4.3",
        "alone on a link there is at most one mark per interval",
        "clean",
        [
            Comparison(
                "marks",
                "DCTCP's marks per interval, 95th percentile,",
                "ce_marks_p95",
                {"variant": DCTCP},
                None,
                None,
                1.0,
            )
        ],
        why="DCTCP needs marks: even alone on the link, a quarter of its packets are marked",
    ),
    Claim(
        "Section 4.4",
        "live connections are switched",
        "timing",
        checks=[f"switched, {kind}" for kind in ("ccplane flow", "ordinary socket")],
        how="share of path changes that switched the flow is 1, for ccplane flows and ordinary sockets",
    ),
    Claim(
        "Section 6",
        "a change of the regime is confirmed after 15 to 25 s",
        "timing",
        checks=["confirmed"],
        how="time until the flow on a shared path has switched [s], with the paper's constants, is 15 to 25",
        number="15 to 25 s",
    ),
    Claim(
        "Section 6",
        "short connections end before the regime is confirmed",
        why="this follows from the time until a flow switches",
    ),
    Claim(
        "Sections 6 and 8",
        "switching single flows serves a near and a far peer simultaneously, switching the host does not",
        "two-peers",
        checks=[
            f"{peer}, {variant}"
            for variant in (OWN, "ordinary sockets, switched")
            for peer in ("near", "far")
        ],
        how="share of time with DCTCP is at least 0.9 to the near peer, and at most 0.1 to the far peer",
    ),
    Claim(
        "Section 6",
        "a longer route is mistaken for a shared bottleneck",
        "false-switches",
        checks=["route"],
        how="share of time in SHARED on a longer route is at least 0.9",
    ),
    Claim(
        "Section 8",
        "a windowed minimum RTT corrects the mistake about a longer route",
        "false-switches",
        checks=["horizon"],
        how="share of time in SHARED on a longer route, with a baseline of the last 5 s, is at most 0.6",
    ),
    Claim(
        "Section 5",
        "a quiet path stays SINGLE_OWNER, a path with a bulk transfer does not",
        "false-switches",
        checks=["quiet", "bulk"],
        how="share of time in SHARED is 0 without a disturbance, and at least 0.8 with a bulk transfer",
    ),
    *in_one_part(
        Claim(
            "Abstract",
            "R-Hybrid is fair on shared bottlenecks",
            "next-to-cubic",
            _next_to_cubic("abe", "r_hybrid, abe"),
            path="aqm",
            why="a mark costs 5 or 15 % of the window, kernel CUBIC 30 %",
        ),
        OWN_BETA_RULE,
        "at short RTTs Linux hardly grows its window between marks (docs/r-hybrid.md)",
        _next_to_cubic("loss", "r_hybrid, loss"),
    ),
    Claim(
        "Abstract",
        "R-Hybrid has low latency within a zone",
        why="the paper gives no latency",
    ),
    Claim(
        "Abstract",
        "R-Hybrid's overhead is minimal",
        why="no experiment measures the receiver's processor time",
    ),
    Claim("Section 6", "without AWS' control plane R-Hybrid cannot adapt", why="AWS is not available here"),
)
"""Claims, in the paper's order."""
_SLOW: Final = frozenset({"false-switches", "two-peers"})
"""Parts with paths of at most 100 Mbit/s; the others have 200 Mbit/s."""
_TUNED: Final = {"next-to-cubic": Tuned("the periods of the mode `fast` were chosen on these links")}
"""Part -> choice that was made on its runs, whatever the rule."""
CLAIMS: Final = tuple(
    replace(claim, fast=claim.part not in _SLOW, tuned=claim.tuned or _TUNED.get(claim.part or ""))
    for claim in _CLAIMS
)
