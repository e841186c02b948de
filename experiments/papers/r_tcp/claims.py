"""What the R-TCP paper claims, and how it is tested here.

Bounds that the paper does not state are ours: half of what it shows for "very high", 0.5 % for none, 5 % for
no difference.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from experiments.papers.comparisons import Claim, Comparison
from experiments.papers.variants import KERNEL
from experiments.plots import label

BBR: Final = "kernel/bbr"
BBR3: Final = "bbr3"
R_CUBIC: Final = "rtcp/cubic"
R_BBR: Final = "rtcp/bbr"
R_BBR3: Final = "r_tcp_bbr3"
NAMES: Final = {KERNEL: "CUBIC", BBR: "BBRv1", BBR3: "BBRv3"}
LIMITED_BY: Final = {KERNEL: R_CUBIC, BBR: R_BBR, BBR3: R_BBR3}
"""Congestion control -> the same under R-TCP."""
MB: Final = 1_000_000

AUTHORS: Final = "their authors have not published mBBR, SmBBR and BBRv2 for kernels of today"
FIRST_BURST: Final = "over operator 1 most of what is left is the burst in flight when the bucket runs dry"
PRODUCTION: Final = "it is measured in a service's production"
RETRANS: Final = "retrans_pct"
GOODPUT: Final = "goodput_bytes_per_s"


def _of(algorithm: str, mb: float, operator: str = "op1") -> dict[str, Any]:
    return {"algorithm": algorithm, "size_bytes": round(mb * MB), "operator": operator}


def _has(name: str, algorithm: str, mb: float, *bounds: float | None) -> Comparison:
    says = f"{NAMES[algorithm]}'s retransmissions of {mb:g} MB over operator 1 [%],"
    return Comparison(f"{name}, {algorithm}, {mb:g}", says, RETRANS, _of(algorithm, mb), None, *bounds)


def _by(
    name: str,
    says: str,
    of: dict[str, Any],
    by: dict[str, Any],
    at_least: float | None = None,
    at_most: float | None = None,
    column: str = RETRANS,
) -> Comparison:
    return Comparison(name, says, column, of, by, at_least, at_most)


def _far(name: str, mb: float, at_least: float | None, at_most: float | None) -> Comparison:
    of, by = (
        {"algorithm": BBR, "size_bytes": round(mb * MB), "rtt_us": rtt_us} for rtt_us in (200_000, 40_000)
    )
    return _by(
        name, f"BBRv1's retransmissions of {mb:g} MB, RTT 200 ms by RTT 40 ms,", of, by, at_least, at_most
    )


def _tuned(
    name: str, algorithm: str, column: str, at_least: float | None, at_most: float | None
) -> list[Comparison]:
    points = (
        {"probe_every_rounds": 25, "probe_gain_ratio": 0.1},
        {"probe_every_rounds": 15, "probe_gain_ratio": 0.25},
    )
    what = "goodput" if column == GOODPUT else "retransmissions"
    control = "CUBIC" if algorithm == R_CUBIC else "BBRv1"
    found = []
    for operator in ("op2", "op3"):
        of, by = ({"algorithm": algorithm, "operator": operator, **point} for point in points)
        says = f"{control}'s {what} with eta 25, gamma 10 % by those with 15, 25 %, {operator},"
        found.append(_by(f"{name}, {operator}", says, of, by, at_least, at_most, column))
    return found


def _detectors(names: Sequence[str], pattern: str) -> list[str]:
    return [f"{pattern}, {name}" for name in names]


CLAIMS: Final = (
    Claim("Figure 1, section 2.1", "up to 28 % of a service's flows are limited", why=PRODUCTION),
    Claim(
        "Figure 2",
        "0.5 MB fit into operator 1's bucket, so nothing is sent again",
        "download",
        [_has("fits", one, 0.5, None, 0.5) for one in NAMES],
    ),
    Claim(
        "Figure 2",
        "of 1 MB very much is: 15 % with CUBIC, more than 50 % with BBRv3",
        "download",
        [_has("much", KERNEL, 1, 7.5), _has("much", BBR3, 1, 25.0)],
    ),
    Claim(
        "Figure 2",
        "the share decreases as files grow",
        "download",
        [
            _by(
                f"grows, {one}",
                f"{name}'s retransmissions of 16 MB by those of 1 MB, operator 1,",
                _of(one, 16),
                _of(one, 1),
                None,
                1.0,
            )
            for one, name in NAMES.items()
        ],
    ),
    Claim(
        "Figure 2",
        "BBRv1 retransmits less than BBRv3, and CUBIC least",
        "download",
        [
            _by(
                "bbr1 by bbr3",
                "BBRv1's retransmissions by BBRv3's, 4 MB, operator 1,",
                _of(BBR, 4),
                _of(BBR3, 4),
                None,
                1.0,
            ),
            _by("cubic by bbr1", "CUBIC's by BBRv1's", _of(KERNEL, 4), _of(BBR, 4), None, 1.0),
        ],
    ),
    Claim("Figure 2", "BBRv2 retransmits as BBRv3", why=AUTHORS),
    Claim(
        "Section 3.2",
        "PD, mBBR and P-MODRL find no limit behind idle times",
        "patterns",
        checks=_detectors(("pd", "mbbr-like", "p-modrl-like"), "multi"),
        how="share of limits found with a rate within 10 %, by detectors after theirs, is at most 0.5",
    ),
    Claim(
        "Section 3.3",
        "nor with several connections at once",
        "patterns",
        checks=_detectors(("pd", "mbbr-like", "p-modrl-like"), "concurrent"),
        how="the same",
    ),
    Claim(
        "Sections 4.2 and 4.4",
        "R-TCP does, in both cases",
        "patterns",
        checks=[f"{pattern}, r-tcp" for pattern in ("multi", "concurrent")],
        how="share of limits found with a rate within 10 % is at least 0.9",
        why="BBRv1's objects over operator 1 end within a second of the bucket running dry, before a verdict",
    ),
    *(
        Claim(
            "Figure 6, 32 MB",
            f"R-TCP avoids {share:g} % of {NAMES[control]}'s retransmissions",
            "download-32mb",
            checks=[f"fewer, {control}"],
            how=f"share that is avoided, mean over operators, is at least {share / 100:g}",
            why=FIRST_BURST if control == BBR else "",
        )
        for control, share in ((KERNEL, 57), (BBR, 80), (BBR3, 76))
    ),
    Claim(
        "Figure 6, 32 MB",
        "goodput stays within 5 %",
        "download-32mb",
        checks=[f"goodput, {control}" for control in NAMES],
        how="goodput by that without R-TCP is at least 0.95",
    ),
    Claim(
        "Figure 6",
        "1 MB over operator 1 is as without R-TCP: the limit is not found yet",
        "download",
        [
            _by(
                f"early, {one}",
                f"{name}'s retransmissions under R-TCP by those without, 1 MB, operator 1,",
                _of(LIMITED_BY[one], 1),
                _of(one, 1),
                0.9,
                1.1,
            )
            for one, name in NAMES.items()
        ],
    ),
    Claim(
        "Section 6.1",
        "with small files most retransmissions are of slow start, with large ones few",
        why="no part tells retransmissions of slow start from others",
    ),
    Claim(
        "Section 6.1",
        "BBRv1 retransmits much more over operator 3 than over operator 2",
        "download-32mb",
        [
            _by(
                "op3 by op2",
                "BBRv1's retransmissions over operator 3 by those over operator 2, 32 MB,",
                {"algorithm": BBR, "operator": "op3"},
                {"algorithm": BBR, "operator": "op2"},
                1.5,
            )
        ],
        why="our limiters are steadier than the operator's, and BBRv1's own detector does well over them",
    ),
    Claim(
        "Figure 7",
        "R-TCP's rates are accurate",
        "errors",
        checks=["rate error"],
        how="error of the estimated rate is at most 0.05",
    ),
    Claim("Figures 6 to 8, 11, Table 3", "R-TCP does better than mBBR and SmBBR", why=AUTHORS),
    Claim(
        "Section 6.1",
        "over operators without a limit none is found",
        "false-positives",
        checks=["none"],
        how="share of limits found where there is none is 0",
    ),
    Claim(
        "Section 6.1",
        "nor where R-TCP acts on what it finds",
        "closed-loop",
        checks=["none acted on"],
        how="share of transfers limited where nothing does is at most 0.001",
    ),
    Claim(
        "Figure 8",
        "a second connection has up to 88 % fewer",
        "stateful",
        checks=["second"],
        how="share of its retransmissions that is avoided, in the best case, is at least 0.88",
    ),
    Claim(
        "Figure 9",
        "it finds the limit in an app's transfers with idle times",
        "multi",
        checks=[f"found, {one}" for one in LIMITED_BY.values()],
        how="share of clients whose limit is found, with sizes and gaps of our own, is at least 0.9",
    ),
    Claim(
        "Section 3.3",
        "and with an app's connections at once",
        "concurrent",
        checks=[f"found, {one}" for one in LIMITED_BY.values()],
        how="the same",
    ),
    Claim(
        "Figure 11",
        "video is streamed with 28 (CUBIC), 40 (BBRv1) and 44 % (BBRv3) fewer retransmissions",
        "video",
        checks=[f"fewer, {one}" for one in NAMES],
        how="share that is saved is at least that",
    ),
    Claim(
        "Figure 11",
        "the viewer's quality stays within 3 %",
        "video",
        checks=[f"kept, {one}" for one in NAMES],
        how="what R-TCP changes in the quality of experience is at least -0.03",
    ),
    Claim(
        "Tables 3 and 10",
        "short videos have 40 (CUBIC) to 50 % fewer retransmissions, and play as before",
        why="the app is a service's own",
    ),
    Claim(
        "Section 6.3", "in all 13 and 24 % less is sent", why="no part adds up what a session sends in all"
    ),
    Claim(
        "Appendix A",
        "BBRv3 loses more because its window is too large when the bucket runs dry",
        why="no part looks at windows at that moment",
    ),
    Claim(
        "Figure 14",
        "a longer RTT makes BBRv1 retransmit more of 4 MB and more",
        "bdp",
        [_far(f"far, {mb}", mb, 1.0, None) for mb in (4, 16)],
    ),
    Claim(
        "Figure 14",
        "and less of 1 MB",
        "bdp",
        [_far("far, 1", 1, None, 1.0)],
    ),
    Claim(
        "Appendix G", "BBRv1's own detector may underestimate a rate", why="no part looks at its estimates"
    ),
    Claim(
        "Figure 17",
        "the end of a limit is found",
        "lift",
        checks=[f"gone, {one}, 0" for one in (R_BBR, R_BBR3)],
        how="time until the limit is found gone [s] is at most 2",
        why="the next probe begins up to 1.3 s later, and may begin anew",
    ),
    Claim(
        "Figure 17",
        "also with 2 % random loss",
        "lift",
        checks=[f"gone, {one}, 0.02" for one in (R_BBR, R_BBR3)],
        how="the same",
        why="BBRv3's bounds on what is in flight assume losses below 2 %, with R-TCP or without",
    ),
    Claim(
        "Figure 18",
        "alpha, epsilon and omega hardly matter, beta and theta do",
        why="`traces` has a table and figures of it, but none of it is a bound",
    ),
    Claim(
        "Tables 6 and 7",
        "rarer and smaller probes retransmit less",
        "tuning",
        [
            *_tuned("bbr again", R_BBR, RETRANS, None, 1.0),
            *_tuned("cubic again", R_CUBIC, RETRANS, None, 1.0),
        ],
        why="eta changes nothing: a probe waits for 200 packets, too",
    ),
    Claim(
        "Tables 6 and 7",
        "which costs BBRv1 goodput, but not CUBIC",
        "tuning",
        [
            *_tuned("bbr goodput", R_BBR, GOODPUT, None, 1.0),
            *_tuned("cubic goodput", R_CUBIC, GOODPUT, 0.95, 1.05),
        ],
        why="goodput is the limiter's, whatever eta and gamma are",
    ),
    Claim(
        "Table 8",
        "at most 1.2 % of limits are missed",
        "traces",
        checks=["missed"],
        how="share that is missed is at most 0.02",
    ),
    Claim(
        "Table 8",
        "at most 0.5 % are found where none is, 3.7 % while moving",
        "traces",
        checks=["none"],
        how="share that is found where none is is 0",
    ),
    Claim(
        "Table 8",
        "PD misses nearly all, and P-MODRL errs where networks vary",
        why="`traces` has both after what is published, without a bound: they are not their authors'",
    ),
    Claim(
        "Table 9",
        "rates are within 5.5 %",
        "traces",
        checks=["rate error"],
        how="error of the rate is at most 0.05",
    ),
    Claim(
        "Figures 19 and 20",
        "limits are found from 260 KB on and up to 6 Mbit/s, with small errors of the rate",
        "grid",
        checks=[
            f"{what}, {variant}"
            for variant in ("CUBIC, watched", "BBRv1, watched", "CUBIC, capped", "BBRv1, capped")
            for what in ("missed", "rate error")
        ],
        how="share missed there, and largest error of the rate, are at most 0.05",
    ),
    Claim(
        "Figure 21",
        "Astraea, a learned control, has up to 98 % fewer retransmissions and 36 % more goodput",
        why="Astraea cannot be had here; `r_tcp_hyvar` is R-TCP over another learned control, without a part",
    ),
    Claim(
        "Appendix N",
        "8,000 connections take 2 MB of the kernel's memory",
        "overhead",
        checks=["memory"],
        how="memory [MB] is at most 2",
    ),
    Claim(
        "Appendix N",
        "and no processor time that is seen",
        "overhead",
        checks=["cpu, cubic", "cpu, bbr"],
        how="CPU time for the same bytes by that without R-TCP is at most 1.05",
    ),
    Claim(
        "Figure 22",
        "flows of one client share as BBRv1 does, whoever is first",
        "fairness",
        [
            Comparison(
                f"shares, {place}",
                f"Jain index, R-TCP {place},",
                "jain_index",
                {"order": f"{label(first)}, then {label(second)}"},
                at_least=0.9,
            )
            for place, (first, second) in {"first": (R_BBR, BBR), "second": (BBR, R_BBR)}.items()
        ],
    ),
)
"""In the paper's order."""
