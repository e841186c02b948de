"""Claims of the R-Hybrid paper, and their tests.

ccplane chose the bounds that the paper does not state: 5 % for "comparable", 2 % for "the same as DCTCP", 3
% for "as without marks".
"""

from __future__ import annotations

from typing import Any, Final

from experiments.papers.comparisons import Claim, Comparison
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
COMPARABLE: Final = 0.95
SMALL_LOSS: Final = 0.95
"""Minimum ratio of throughput with 1 % loss to that without; in the paper 0.96 to 0.98."""
MAX_LEFT: Final = 0.97
"""Maximum ratio of DCTCP's throughput to the clean baseline's; in the paper 0.886."""
SAME_AS_CLEAN: Final = 0.97
SAME_AS_DCTCP: Final = 0.02
FEWER: Final = 0.1
"""Maximum ratio of R-Hybrid's retransmissions to BBR's without loss; in the paper 0.04."""
AS_MANY: Final = (0.8, 1.25)
"""Range of the ratio of R-Hybrid's retransmissions to BBR's with loss; in the paper 1.06."""
MOSTLY: Final = 0.9


def _fig2(variant: str, loss: float) -> dict[str, Any]:
    return {"variant": variant, "loss_ratio": loss, "rtt_us": RTT_US}


def _against(name: str, column: str, loss: float, *bounds: float | None) -> list[Comparison]:
    what = {"goodput_bytes_per_s": "goodput", "retrans_pkts": "retransmissions"}[column]
    on = f"{100 * loss:g} % loss" if loss else "clean"
    others = {KERNEL: "kernel CUBIC", BBR: "kernel BBR"}
    chosen = [BBR] if column == "retrans_pkts" else list(others)
    return [
        Comparison(
            f"{name}, {other}",
            f"ratio of R-Hybrid's {what} to {others[other]}'s, {on},",
            column,
            _fig2(OWN, loss),
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


CLAIMS: Final = (
    Claim(
        "Figure 2",
        "without loss R-Hybrid has as much throughput as CUBIC and BBR",
        "fig2",
        _against("clean", "goodput_bytes_per_s", 0.0, COMPARABLE),
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
    ),
    Claim(
        "Figure 2",
        "with 1 % loss R-Hybrid has as much throughput as CUBIC and BBR",
        "fig2",
        _against("lossy", "goodput_bytes_per_s", LOSS, COMPARABLE),
    ),
    Claim(
        "Figure 3",
        "DCTCP loses throughput if marks come too early",
        "fig3",
        [_by_baseline("dctcp", "DCTCP", DCTCP, None, MAX_LEFT)],
    ),
    Claim(
        "Figure 3",
        "R-Hybrid keeps its throughput if marks come too early",
        "fig3",
        [_by_baseline("ours", "R-Hybrid", OWN, SAME_AS_CLEAN)],
        how="with R-Hybrid's default parameters",
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
    ),
    Claim(
        "Section 5.1",
        "segmentation in the network card exceeds the rate of `fq`",
        why="the claim is about AWS' network cards",
    ),
    Claim(
        "Figure 4",
        "without loss BBR retransmits far more than R-Hybrid",
        "fig2",
        _against("fewer", "retrans_pkts", 0.0, None, FEWER),
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
                1.0,
            )
        ],
        why="BBR's probes lose ten times as many packets at the full queue as are lost at random",
    ),
    Claim(
        "Figure 4",
        "with 1 % loss R-Hybrid retransmits as much as BBR",
        "fig2",
        _against("as many", "retrans_pkts", LOSS, *AS_MANY),
        why="BBR's probes overflow this queue; R-Hybrid retransmits little more than is lost at random",
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
    Claim(
        "Sections 5 and 9",
        "alone on a link R-Hybrid is as good as DCTCP",
        "clean",
        [
            Comparison(
                f"as dctcp, {column}{more}",
                f"ratio of R-Hybrid's {what} to DCTCP's, clean{more},",
                column,
                {"variant": variant},
                {"variant": DCTCP},
                1 - SAME_AS_DCTCP,
                1 + SAME_AS_DCTCP,
            )
            for variant, more in ((OWN, ""), (OWN_ONLY, ", mode own"))
            for what, column in (
                ("goodput", "goodput_bytes_per_s"),
                ("median queueing delay", "queueing_delay_p50_us"),
            )
        ],
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
    Claim(
        "Abstract",
        "R-Hybrid has low latency within a zone, and is fair on shared bottlenecks",
        why="the paper has no figures for it",
    ),
    Claim("Abstract", "R-Hybrid's overhead is minimal", why="the paper has no figures for it"),
    Claim("Section 6", "without AWS' control plane R-Hybrid cannot adapt", why="AWS is not available here"),
)
"""Claims, in the paper's order."""
