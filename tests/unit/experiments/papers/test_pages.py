"""The result pages and their figures are those of the kept results."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from experiments.papers import claims
from experiments.papers.comparisons import Claim
from experiments.papers.tables import Check
from experiments.statistics import Estimate
from scripts.figures import benchmarks, pages, validation, verdicts
from scripts.figures.drawing import DOCS, IMAGES, RESULTS, svg
from scripts.tables import WRITERS

MAX_BYTES = 70_000


@pytest.mark.parametrize("page", WRITERS, ids=lambda page: page.stem)
def test_pages_have_what_is_made_from_the_kept_results(page: Path) -> None:
    text = page.read_text()
    assert WRITERS[page](text) == text, "run `make docs-tables`"
    assert "made by `make docs-tables`" in text or page.is_relative_to(RESULTS)


@pytest.mark.parametrize("name", pages.figures())
def test_a_figures_file_is_small_and_made_from_the_kept_results(name: str) -> None:
    text = pages.place(name).read_text()
    assert text == pages.image(name), "run `make docs-tables`"
    assert len(text) < MAX_BYTES
    root = ElementTree.fromstring(text)
    assert root[0].tag.endswith("title")
    assert root[0].text == pages.drawn(name).alt


def test_a_figure_drawn_again_is_the_same() -> None:
    figure = pages.figures()["published-share"]()
    assert svg(figure.plot, figure.alt) == pages.image("published-share")


def test_pages_and_folder_have_the_same_figures() -> None:
    files = {file.stem for file in IMAGES.iterdir()}
    assert files == set(pages.figures())
    text = "".join(page.read_text() for page in pages.all_pages())
    assert files == set(re.findall(r"images/figures/([\w-]+)\.svg", text))


def test_what_was_changed_by_hand_is_found() -> None:
    page = DOCS / "papers/published.md"
    text = page.read_text()
    changed = text.replace("claims. Real sockets: 1 holds", "claims. Real sockets: 2 hold")
    assert changed != text
    assert pages.written(page, changed) == text
    with pytest.raises(KeyError):
        pages.written(page, "<!-- begin nothing: made by `make docs-tables` -->\n<!-- end nothing -->")


@pytest.mark.parametrize("paper", pages.PAPERS)
def test_each_bar_has_every_claim(paper: str) -> None:
    whole = verdicts.judged(paper)
    for rows in verdicts.by_datapath(paper).values():
        assert len(rows) == len(claims.of_paper(whole))
    assert verdicts.summary(paper).startswith(f"{len(claims.of_paper(whole))} claims. ")
    listed = verdicts.failed(paper).count("**") // 2
    assert (listed > 0) == any(row.verdict == "fails" for row in whole)


def judged(verdict: str, why: str, source: str = "Figure 1", rule: str = "") -> claims.Judged:
    bounds = {"holds": (0.5, None), "fails": (3.0, None), "undecided": (1.1, None)}
    if verdict not in bounds:
        side = claims.Side(Claim(source, "it is so", why=why))
        return claims.Judged("p", side, side)
    low, high = bounds[verdict]
    check = Check("it", Estimate(1.0, 0.9, 1.2, 10), low, high, "it")
    claim = Claim(source, "it is so", "a", checks=("it",), why=why, rule=rule)
    return claims.Judged("p", claims.Side(claim, (check,)), claims.Side(claim, simulated=True))


def test_lists_follow_the_verdicts(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [
        judged("fails", "a reason"),
        judged("fails", "a reason", "Figure 2"),
        judged("undecided", "", "Figure 3"),
        judged(claims.NOT_TESTED, "no experiment counts it", "Figure 4"),
        judged("holds", ""),
        judged("fails", "another", rule="a timer"),
    ]
    monkeypatch.setattr(verdicts, "judged", lambda _: rows)
    assert verdicts.failed("p") == (
        "- **Figure 1:** it is so (1.000 [0.900, 1.200], not >= 3; real sockets); 1 more (Figure 2)"
        ": a reason.\n"
        "- **Figure 1:** it is so [ccplane's rule] (1.000 [0.900, 1.200], not >= 3; real sockets)"
        ": another."
    )
    assert verdicts.undecided("p") == "Undecided: Figure 3."
    assert verdicts.untested("p") == "- Figure 4: no experiment measures this."
    assert verdicts.summary("p").startswith(
        "5 claims. Real sockets: 1 holds, 2 fail, 1 undecided. No verdict: 1. With"
    )
    stale = claims.Side(replace(rows[0].claim, source="Figure 5"), rows[0].kernel.checks, stale="old")
    rows[:] = [claims.Judged("p", stale, claims.Side(stale.claim))]
    assert verdicts.untested("p") == "- 1 claim: stale (old)."
    rows[:] = [judged("holds", "")]
    assert verdicts.failed("p") == "No claim fails."
    assert verdicts.undecided("p") == "No claim is undecided."
    assert verdicts.untested("p") == "Every claim has a verdict."


def test_every_metric_with_a_goal_is_in_the_figure_or_is_a_count() -> None:
    for name, result in benchmarks.kept().items():
        for metric, found in result.metrics.items():
            if found.goal is not None and not benchmarks._label(name, metric):
                assert found.estimate.low == found.estimate.high == found.value, f"{name}.{metric}"


def test_the_margin_is_above_one_if_the_goal_is_met() -> None:
    for result in benchmarks.kept().values():
        for name, metric in result.metrics.items():
            if metric.goal is None or not benchmarks._label(result.name, name):
                continue
            margins = [benchmarks._margin(metric, value) for value in benchmarks._interval(metric)]
            if metric.verdict == "met":
                assert min(margins) >= 1
            if metric.verdict == "missed":
                assert max(margins) < 1


def test_the_table_of_validation_is_short_and_has_all_quantities() -> None:
    lines = validation.table().splitlines()
    assert 5 < len(lines) <= 10
