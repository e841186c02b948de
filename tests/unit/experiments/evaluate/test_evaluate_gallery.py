"""The kept comparison says what is known about these congestion controls, and its pages are made from it."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.evaluate.running import SIMULATOR
from experiments.report import write
from scripts import reports
from scripts.figures import evaluate as gallery
from tests.unit.experiments.evaluate.made import BBR, CASES, CUBIC, RENO

MAX_BYTES = 1_000_000
FLEX, BBR3 = "flex_cubic", "bbr3"


def verdict(case: str, measure: str, algorithm: str) -> str:
    kept = gallery.kept()
    (what,) = (one for one in CASES[case].measures if one.key == measure)
    found = kept.effect(CASES[case], what, SIMULATOR, algorithm, CUBIC.algorithm)
    return str(found.verdict)


KNOWN = [
    # Hock, Bless, Zitterbart: Experimental Evaluation of BBR Congestion Control, ICNP 2017.
    ("shallow-quarter", "retransmitted", BBR.algorithm, "worse"),
    ("shallow-1bdp", "retransmitted", BBR.algorithm, "worse"),
    ("next-to-cubic-quarter", "left", BBR.algorithm, "worse"),
    # Cardwell et al.: BBR, ACM Queue 14(5), 2016: no standing queue, and losses do not matter.
    ("queue-8bdp", "rtt_p50", BBR.algorithm, "better"),
    ("random-loss", "goodput", BBR.algorithm, "better"),
    ("random-loss", "goodput", BBR3, "better"),
    # Reno needs far longer than CUBIC on long and fat paths (RFC 9438, section 1).
    ("high-bdp", "goodput", RENO.algorithm, "worse"),
    ("random-loss", "goodput", RENO.algorithm, "undecided"),
    # docs/flex-cubic.md
    ("alone-tenth", "retransmitted", FLEX, "worse"),
    ("shallow-quarter", "retransmitted", FLEX, "worse"),
    ("random-loss", "goodput", FLEX, "better"),
]


@pytest.mark.parametrize(("case", "measure", "algorithm", "known"), KNOWN)
def test_the_gallery_says_what_is_known(case: str, measure: str, algorithm: str, known: str) -> None:
    assert verdict(case, measure, algorithm) == known


def test_cubic_fills_a_deep_buffer() -> None:
    case = CASES["queue-8bdp"]
    found = gallery.kept().estimate(case, case.measures[0], SIMULATOR, CUBIC.algorithm)
    assert found.low > 200  # ms; the empty path has 40


def test_no_goodput_is_above_the_rate_of_its_path() -> None:
    kept = gallery.kept()
    for case in kept.cases:
        for what in case.measures:
            for one in kept.subjects if what.empty and what.better == "more" else ():
                value = kept.estimate(case, what, SIMULATOR, one.algorithm).value
                assert value <= what.empty, (case.key, what.label, one.label)


def test_the_kept_comparison_is_complete_and_small() -> None:
    kept = gallery.kept()
    assert kept.complete
    assert gallery.KEPT.stat().st_size < MAX_BYTES
    assert all(len(one.against) == 1 for one in (kept.alone(subject) for subject in kept.subjects))


def test_each_algorithm_of_the_gallery_has_a_report(tmp_path: Path) -> None:
    kept, found = gallery.kept(), reports.evaluations()
    assert set(found) == {"evaluate", *(gallery.report_name(one) for one in kept.subjects)}
    assert all(f"(reports/{name}.html)" in gallery.gallery() for name in found if name != "evaluate")
    html = write(found["evaluate-kernel-bbr"], tmp_path / "bbr.html").read_text()
    assert "four own flows, 0.25 BDP of buffer" in html
