"""Claims of the R-TCP paper, and their tests.

Bounds that the paper does not state are those of `experiments.papers.comparisons`, 0.5 % for "nothing", and
0.9 for "finds".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from ccp_algs.rtcp.options import Options
from experiments.papers.comparisons import EQUAL, LESS, MORE, Bounds, Claim, Comparison
from experiments.papers.literal import in_one_part, in_two_parts
from experiments.papers.variants import KERNEL
from experiments.plots import label

BBR: Final = "kernel/bbr"
BBR3: Final = "bbr3"
R_CUBIC: Final = "rtcp/cubic"
R_BBR: Final = "rtcp/bbr"
R_BBR3: Final = "r_tcp_bbr3"
NAMES: Final = {KERNEL: "CUBIC", BBR: "BBRv1", BBR3: "BBRv3"}
LIMITED_BY: Final = {KERNEL: R_CUBIC, BBR: R_BBR, BBR3: R_BBR3}
"""Congestion control -> the same congestion control under R-TCP."""
MB: Final = 1_000_000

AUTHORS: Final = "the public programs of mBBR, SmBBR and BBRv2 are for older kernels; they were not run"
RULE: Final = "probes that also wait for 200 packets"
OWN_PKTS: Final = Options().probe_every_pkts
LIMITERS_RATE: Final = "goodput is the limiter's rate, whatever eta and gamma are"
FIRST_BURST: Final = (
    "over operator 1 most of the remaining retransmissions are the burst in flight when the bucket runs dry"
)
PRODUCTION: Final = "the figure is from a service in production"
RETRANS: Final = "retrans_pct"
GOODPUT: Final = "goodput_bytes_per_s"


def _of(algorithm: str, mb: float, operator: str = "op1") -> dict[str, Any]:
    return {"algorithm": algorithm, "size_bytes": round(mb * MB), "operator": operator}


def _has(name: str, algorithm: str, mb: float, *bounds: float | None) -> Comparison:
    says, of = "retransmissions over operator 1 [%]", _of(algorithm, mb)
    where = f"{NAMES[algorithm]}, {mb:g} MB"
    return Comparison(f"{name}, {algorithm}, {mb:g}", says, RETRANS, of, None, *bounds, where=where)


def _by(
    name: str,
    says: str,
    of: dict[str, Any],
    by: dict[str, Any],
    *bounds: float | None,
    column: str = RETRANS,
    where: str = "",
) -> Comparison:
    return Comparison(name, says, column, of, by, *bounds, where=where)


def _far(name: str, mb: float, *bounds: float | None) -> Comparison:
    of, by = (
        {"algorithm": BBR, "size_bytes": round(mb * MB), "rtt_us": rtt_us} for rtt_us in (200_000, 40_000)
    )
    says = "ratio of BBRv1's retransmissions at RTT 200 ms to those at 40 ms"
    return _by(name, says, of, by, *bounds, where=f"{mb:g} MB")


def _tuned(name: str, algorithm: str, column: str, bounds: Bounds, pkts: int) -> list[Comparison]:
    points = (
        {"probe_every_rounds": 25, "probe_gain_ratio": 0.1, "probe_every_pkts": pkts},
        {"probe_every_rounds": 15, "probe_gain_ratio": 0.25, "probe_every_pkts": pkts},
    )
    rule = "" if pkts else ", the paper's probes"
    what = "goodput" if column == GOODPUT else "retransmissions"
    control = "CUBIC" if algorithm == R_CUBIC else "BBRv1"
    found = []
    for operator in ("op2", "op3"):
        of, by = ({"algorithm": algorithm, "operator": operator, **point} for point in points)
        says = f"ratio of {control}'s {what} with eta 25, gamma 10 % to that with eta 15, gamma 25 %{rule}"
        found.append(_by(f"{name}, {operator}{rule}", says, of, by, *bounds, column=column, where=operator))
    return found


def _of_probes(
    says: str, tests: Sequence[tuple[str, str, str, Bounds]], why: str, papers_why: str
) -> tuple[Claim, Claim]:
    own, papers = ([one for test in tests for one in _tuned(*test, pkts)] for pkts in (OWN_PKTS, 0))
    return in_one_part(Claim("Tables 6 and 7", says, "tuning", own, why=why), RULE, papers_why, papers)


def _detectors(names: Sequence[str], pattern: str) -> list[str]:
    return [f"{pattern}, {name}" for name in names]


_CLAIMS: Final[tuple[Claim, ...]] = (
    Claim("Figure 1, section 2.1", "up to 28 % of a service's flows are behind a rate limit", why=PRODUCTION),
    Claim(
        "Figure 2",
        "0.5 MB fit into operator 1's bucket, so nothing is retransmitted",
        "download",
        [_has("fits", one, 0.5, None, 0.5) for one in NAMES],
    ),
    Claim(
        "Figure 2",
        "large parts of 1 MB are retransmitted: 15 % with CUBIC, more than 50 % with BBRv3",
        "download",
        [_has("much", KERNEL, 1, 15.0), _has("much", BBR3, 1, 50.0)],
        number="15 %; 50 %",
    ),
    Claim(
        "Figure 2",
        "the retransmitted share decreases as files grow",
        "download",
        [
            _by(
                f"grows, {one}",
                "ratio of retransmissions of 16 MB to those of 1 MB, operator 1,",
                _of(one, 16),
                _of(one, 1),
                *LESS,
                where=name,
            )
            for one, name in NAMES.items()
        ],
    ),
    Claim(
        "Figure 2",
        "CUBIC retransmits less than BBRv1, and BBRv1 less than BBRv3",
        "download",
        [
            _by(
                "bbr1 by bbr3",
                "ratio of BBRv1's retransmissions to BBRv3's, 4 MB, operator 1,",
                _of(BBR, 4),
                _of(BBR3, 4),
                *LESS,
            ),
            _by(
                "cubic by bbr1",
                "ratio of CUBIC's retransmissions to BBRv1's, 4 MB, operator 1,",
                _of(KERNEL, 4),
                _of(BBR, 4),
                *LESS,
            ),
        ],
    ),
    Claim("Figure 2", "BBRv2 retransmits as much as BBRv3", why=AUTHORS),
    Claim(
        "Section 3.2",
        "PD, mBBR and P-MODRL find no limit in transfers with idle times",
        "patterns",
        checks=_detectors(("pd", "mbbr-like", "p-modrl-like"), "multi"),
        how="share of limits found with a rate within 10 %,"
        " by PD and the stand-ins for mBBR and P-MODRL, is at most 0.5",
    ),
    Claim(
        "Section 3.3",
        "PD, mBBR and P-MODRL find no limit with several simultaneous connections",
        "patterns",
        checks=_detectors(("pd", "mbbr-like", "p-modrl-like"), "concurrent"),
        how="share of limits found with a rate within 10 %,"
        " by PD and the stand-ins for mBBR and P-MODRL, is at most 0.5",
    ),
    Claim(
        "Sections 4.2 and 4.4",
        "R-TCP finds the limit with idle times and with simultaneous connections",
        "patterns",
        checks=[f"{pattern}, r-tcp" for pattern in ("multi", "concurrent")],
        how="share of limits found with a rate within 10 % is at least 0.9",
        why="BBRv1's objects over operator 1 end within a second after the bucket is empty, before a verdict",
    ),
    *in_two_parts(
        RULE,
        *(
            Claim(
                "Figure 6, 32 MB",
                f"R-TCP avoids {share:g} % of {NAMES[control]}'s retransmissions",
                "download-32mb",
                checks=[
                    f"fewer, {control}",
                    f"share of {label(control)}'s retransmissions that {label(LIMITED_BY[control])} avoids,"
                    " from the operators' means,",
                ],
                how="share of retransmissions that R-TCP avoids, as the mean of operators and from operators'"
                f" means, is at least {share / 100:g}",
                number=f"{share} %",
                why="the paper does not say which mean it gives" if control == BBR else "",
                measures="saved retrans_pct",
                readings=True,
            )
            for control, share in ((KERNEL, 57), (BBR, 80), (BBR3, 76))
        ),
        Claim(
            "Figure 6, 32 MB",
            "goodput stays within 5 %",
            "download-32mb",
            checks=[f"goodput, {control}" for control in NAMES],
            how="ratio of goodput to that without R-TCP is at least 0.95",
            number="5 %",
            measures=GOODPUT,
        ),
        Claim(
            "Figure 6, simultaneous connections",
            "goodput stays within 5 %",
            "concurrent",
            [
                _by(
                    f"concurrent goodput, {operator}, {one}",
                    "ratio of goodput to that without R-TCP",
                    {"algorithm": LIMITED_BY[one], "operator": operator},
                    {"algorithm": one, "operator": operator},
                    0.95,
                    column=GOODPUT,
                    where=f"{name}, {operator}",
                )
                for operator in ("op1", "op2", "op3")
                for one, name in NAMES.items()
            ],
            number="5 %",
            why="over operators 2 and 3 R-TCP's connections finish later",
        ),
        Claim(
            "Figure 6",
            "R-TCP does not change transfers of 1 MB over operator 1: the limit is not found in time",
            "download",
            [
                _by(
                    f"early, {one}",
                    "ratio of retransmissions under R-TCP to those without, 1 MB, operator 1,",
                    _of(LIMITED_BY[one], 1),
                    _of(one, 1),
                    *EQUAL,
                    where=name,
                )
                for one, name in NAMES.items()
            ],
        ),
    ),
    Claim(
        "Section 6.1",
        "most retransmissions of small files, and few of large files, happen in slow start",
        why="no experiment distinguishes retransmissions of slow start from others",
    ),
    Claim(
        "Section 6.1",
        "BBRv1 retransmits much more over operator 3 than over operator 2",
        "download-32mb",
        [
            _by(
                "op3 by op2",
                "ratio of BBRv1's retransmissions over operator 3 to those over operator 2, 32 MB,",
                {"algorithm": BBR, "operator": "op3"},
                {"algorithm": BBR, "operator": "op2"},
                1.5,
            )
        ],
        why="ccplane's limiters are steadier than the operator's, so BBRv1's own detector does well",
    ),
    Claim(
        "Figure 7",
        "R-TCP estimates rates accurately",
        "errors",
        checks=["rate error"],
        how="relative error of the estimated rate is at most 0.05",
    ),
    Claim("Figures 6 to 8, 11, Table 3", "R-TCP retransmits less than mBBR and SmBBR", why=AUTHORS),
    Claim(
        "Section 6.1",
        "over operators without a limit, no limit is found",
        "false-positives",
        checks=["none"],
        how="share of transfers without a limit in which one is found is 0",
    ),
    Claim(
        "Section 6.1",
        "over operators without a limit, no limit is found even if R-TCP acts on its findings",
        "closed-loop",
        checks=["none acted on"],
        how="R-TCP limits at most 0.001 of the transfers that have no limit",
    ),
    *in_two_parts(
        RULE,
        Claim(
            "Figure 8",
            "a second connection has up to 88 % fewer retransmissions",
            "stateful",
            checks=["second"],
            how="in the best case, R-TCP avoids at least 0.88 of the second connection's retransmissions",
            number="88 %",
            measures="saved retrans_pct",
        ),
    ),
    Claim(
        "Figure 9",
        "R-TCP finds the limit in an app's transfers with idle times",
        "multi",
        checks=[f"found, {one}" for one in LIMITED_BY.values()],
        how="share of clients whose limit is found, with ccplane's sizes and gaps, is at least 0.9",
    ),
    Claim(
        "Section 3.3",
        "R-TCP finds the limit with an app's simultaneous connections",
        "concurrent",
        checks=[f"found, {one}" for one in LIMITED_BY.values()],
        how="share of clients whose limit is found is at least 0.9",
    ),
    Claim(
        "Figure 11",
        "video has 28 (CUBIC), 40 (BBRv1) and 44 % (BBRv3) fewer retransmissions",
        "video",
        checks=[f"fewer, {one}" for one in NAMES],
        how="share of retransmissions that R-TCP avoids is at least the paper's",
        number="28, 40 and 44 %",
        why="one run in an earlier version: 66, 35 and 46 %",
    ),
    Claim(
        "Figure 11",
        "the viewer's quality stays within 3 %",
        "video",
        checks=[f"kept, {one}" for one in NAMES],
        how="change of the quality of experience by R-TCP is at least -0.03",
        number="3 %",
        why="one run in an earlier version: -1, +3 and +2 %",
    ),
    Claim(
        "Tables 3 and 10",
        "short videos have 40 (CUBIC) to 50 % fewer retransmissions, and play equally well",
        why="the app needs a commercial service",
    ),
    Claim(
        "Section 6.3",
        "sessions send 13 and 24 % less data in total",
        why="no experiment adds up what a session sends",
    ),
    Claim(
        "Appendix A",
        "BBRv3 loses more because its window is too large when the bucket runs dry",
        why="no experiment measures windows at that moment",
    ),
    Claim(
        "Figure 14",
        "with a longer RTT BBRv1 retransmits more of files of 4 MB and more",
        "bdp",
        [_far(f"far, {mb}", mb, *MORE) for mb in (4, 16)],
    ),
    Claim("Figure 14", "with a longer RTT BBRv1 retransmits less of 1 MB", "bdp", [_far("far, 1", 1, *LESS)]),
    *in_two_parts(
        RULE,
        Claim(
            "Figure 14",
            "with a longer RTT R-TCP also retransmits less than BBRv1",
            "bdp",
            [
                _by(
                    f"longer, {rtt_ms}, {mb}",
                    "ratio of retransmissions under R-TCP to BBRv1's",
                    {"algorithm": R_BBR, "size_bytes": mb * MB, "rtt_us": 1000 * rtt_ms},
                    {"algorithm": BBR, "size_bytes": mb * MB, "rtt_us": 1000 * rtt_ms},
                    *LESS,
                    where=f"{mb} MB, RTT {rtt_ms} ms",
                )
                for rtt_ms in (40, 120, 200)
                for mb in (4, 16)
            ],
        ),
    ),
    Claim(
        "Appendix G",
        "BBRv1's own detector may underestimate a rate",
        why="no experiment measures this detector's estimates",
    ),
    *in_two_parts(
        RULE,
        Claim(
            "Figure 17",
            "R-TCP finds the end of a limit",
            "lift",
            checks=[f"gone, {one}, 0" for one in (R_BBR, R_BBR3)],
            how="time from the end of the limit until R-TCP finds it [s] is at most 2",
            why="the next probe begins up to 1.3 s later, and may have to start over",
        ),
        Claim(
            "Figure 17",
            "R-TCP finds the end of a limit with 2 % random loss",
            "lift",
            checks=[f"gone, {one}, 0.02" for one in (R_BBR, R_BBR3)],
            how="time from the end of the limit until R-TCP finds it [s] is at most 2",
            why="BBRv3's bounds on bytes in flight assume losses below 2 %, with R-TCP or without",
        ),
    ),
    Claim(
        "Figure 18",
        "alpha, epsilon and omega hardly matter, beta and theta do",
        why="the claim gives no bound; in `traces`, with exact token buckets, no value of any parameter"
        " causes a wrong verdict",
    ),
    *_of_probes(
        "rarer and smaller probes cause fewer retransmissions",
        [("bbr again", R_BBR, RETRANS, LESS), ("cubic again", R_CUBIC, RETRANS, LESS)],
        "eta changes nothing, because a probe also waits for 200 packets",
        "",
    ),
    *_of_probes(
        "rarer and smaller probes cost BBRv1 goodput, but not CUBIC",
        [("bbr goodput", R_BBR, GOODPUT, LESS), ("cubic goodput", R_CUBIC, GOODPUT, EQUAL)],
        LIMITERS_RATE,
        LIMITERS_RATE,
    ),
    Claim(
        "Table 8",
        "at most 1.2 % of limits are missed",
        "traces",
        checks=["missed"],
        how="share of missed limits is at most 0.012",
        bars={"missed": (None, 0.012)},
        number="1.2 %",
    ),
    Claim(
        "Table 8",
        "a limit is found in at most 0.5 % of transfers without one, or 3.7 % while the client moves",
        "traces",
        checks=["none"],
        how="share of transfers without a limit in which one is found is at most 0.005",
        bars={"none": (None, 0.005)},
        number="0.5 %; 3.7 %",
    ),
    Claim(
        "Table 8",
        "PD misses nearly all, and P-MODRL errs where networks vary",
        why="the claim gives no bound; in `traces`, with ccplane's versions and exact token buckets, PD"
        " misses three of six limits, and P-MODRL is never wrong",
    ),
    Claim(
        "Table 9",
        "estimated rates are within 5.5 %",
        "traces",
        checks=["rate error"],
        how="relative error of the rate is at most 0.055",
        bars={"rate error": (None, 0.055)},
        number="5.5 %",
    ),
    Claim(
        "Figures 19 and 20",
        "limits with buckets from 260 KB and rates up to 6 Mbit/s are found, with small errors of the rate",
        "grid",
        checks=[
            f"{what}, {variant}"
            for variant in ("CUBIC, watched", "BBRv1, watched", "CUBIC, capped", "BBRv1, capped")
            for what in ("missed", "rate error")
        ],
        how="share of missed limits, and largest relative error of the rate, are at most 0.05",
    ),
    Claim(
        "Figure 21",
        "Astraea, a learned control, has up to 98 % fewer retransmissions and 36 % more goodput",
        why="R-TCP was run neither with the public Astraea nor with another learned control (`r_tcp_hyvar`)",
    ),
    Claim(
        "Appendix N",
        "8,000 connections take 2 MB of kernel memory",
        "overhead",
        checks=["memory"],
        how="kernel memory [MB] is at most 2",
        number="2 MB",
        why="a connection takes 720 bytes, and its client 519",
    ),
    Claim(
        "Appendix N",
        "8,000 connections take no measurable CPU time",
        "overhead",
        checks=["cpu, cubic", "cpu, bbr"],
        how="ratio of CPU time per byte to that without R-TCP is at most 1.05",
    ),
    *in_two_parts(
        RULE,
        Claim(
            "Figure 22",
            "flows of one client share as fairly as with BBRv1, whichever starts first",
            "fairness",
            [
                Comparison(
                    f"shares, {place}",
                    "Jain index",
                    "jain_index",
                    {"order": f"{label(first)}, then {label(second)}"},
                    at_least=0.9,
                    where=f"R-TCP starts {place}",
                )
                for place, (first, second) in {"first": (R_BBR, BBR), "second": (BBR, R_BBR)}.items()
            ],
        ),
    ),
)
CLAIMS: Final = tuple(replace(claim, path="limiter") for claim in _CLAIMS)
"""Claims, in the paper's order."""
