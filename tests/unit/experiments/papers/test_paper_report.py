"""The report of a paper: claims by real sockets and by simulation, and the results of parts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from ccplane.base.errors import UsageError
from experiments.papers import claims
from experiments.papers.claims import PAPERS, counted, judge, of_paper, paper_of
from experiments.papers.commands import app
from experiments.papers.comparisons import Claim, Comparison
from experiments.papers.kept import Kept
from experiments.papers.paper import Findings, Paper, Part, Runs, nothing_to_run
from experiments.papers.report import pictures_of, report_of
from experiments.papers.tables import Check, Table
from experiments.plots.style import new_plot
from experiments.report import Evidence, Row, rendered
from experiments.statistics import Estimate
from tests.unit.experiments.html_page import Page

OF, BY = {"algorithm": "cubic"}, {"algorithm": "reno"}
TEST = Comparison("faster", "ratio of goodputs,", "goodput_bytes_per_s", OF, BY, 1.1)
CLAIMS = (
    Claim("Figure 1", "CUBIC is faster", "download", [TEST], why="it is too old"),
    Claim("Figure 1", "CUBIC is better", "download", checks=["never measured"]),
    Claim("Section 2", "everybody uses it", why="the figure is from a service"),
    Claim("Section 3", "only sockets count", "download", [TEST], simulable=False),
)


def no_findings(_runs: Runs) -> Findings:
    return Findings()


PAPER = Paper.of(
    "r-tcp", "A paper", [Part("download", "how fast it is", nothing_to_run, no_findings)], CLAIMS
)


def kept(part: str, low: float, high: float, **about: object) -> Kept:
    values = {"goodput_bytes_per_s": [1e6, 1.1e6, 1.2e6] * 4, "rtt_us": [None] * 12}
    rows = pd.DataFrame({"algorithm": ["cubic"] * 6 + ["reno"] * 6, **values})
    table = Table.of(rows, "Two algorithms", ["algorithm"], ["goodput_bytes_per_s", "rtt_us"])
    check = Check("ratio of goodputs,", Estimate((low + high) / 2, low, high, 6), low=1.1, name="faster")
    described = {
        "command": ["ccp", "paper", "r-tcp", "--part", part],
        "git": {"commit": "0123456789abcdef", "dirty": False},
        "date": "2100-01-01T01:00:00+00:00",
        "host": {"kernel": "6.18.0", "cpu": "a processor", "cores": 2},
        **about,
    }
    return Kept("r-tcp", part, 12, 12, {"the emulator was late": 2}, (table,), (check,), described)


def rows_of(*parts: Kept) -> list[Row]:
    return list(report_of(PAPER, {one.part: one for one in parts}).sections[0].rows)


def both(row: Row) -> tuple[Evidence | None, Evidence | None]:
    real, simulated = row.sides
    return real, simulated


def test_both_sides_are_judged_and_real_sockets_decide() -> None:
    first, *_ = rows_of(kept("download", 0.8, 0.9), kept("download-sim", 2.2, 2.3))
    real, simulated = both(first)
    assert real is not None
    assert simulated is not None
    assert (first.verdict, real.verdict, simulated.verdict) == ("fails", "fails", "holds")
    assert first.why == "it is too old"
    assert real.source is not None
    assert simulated.source is not None
    assert (real.source.kernel, simulated.source.kernel) == ("Linux 6.18.0", "none: simulated")
    assert real.source.runs == "12 of 12 runs, 2 of them not counted (the emulator was late: 2)"


def test_real_sockets_decide_also_where_they_are_undecided() -> None:
    first, *_ = rows_of(kept("download", 0.9, 1.2), kept("download-sim", 2.2, 2.3))
    real, simulated = both(first)
    assert real is not None
    assert simulated is not None
    assert (first.verdict, real.verdict, simulated.verdict) == ("undecided", "undecided", "holds")
    assert first.why == "it is too old"


def test_claims_with_ccplanes_rules_are_a_section_that_is_not_counted() -> None:
    own = replace(CLAIMS[0], rule="a faster timer")
    paper = Paper.of("r-tcp", "A paper", [], [CLAIMS[0], own])
    report = report_of(paper, {"download": kept("download", 1.2, 1.3)})
    first, second, _ = report.sections
    assert ([len(one.rows) for one in (first, second)], second.counted) == ([1, 1], False)
    assert "a faster timer" in second.rows[0].about
    assert {row.key for row in first.rows}.isdisjoint(row.key for row in second.rows)
    assert report.about.endswith(
        "1 claim. Real sockets: 1 holds. With ccplane's rules: 1 claim. Real sockets: 1 holds."
    )


def test_claims_without_results_have_a_command_or_a_reason() -> None:
    rows = rows_of(kept("download-sim", 0.9, 1.2))
    assert [one.verdict for one in rows] == ["undecided", "not run", "not tested", "not run"]
    assert [one.key for one in rows] == ["figure-1-1", "figure-1-2", "section-2-1", "section-3-1"]
    assert rows[0].note.startswith("try ")
    assert rows[2].why == "the figure is from a service"
    assert rows[3].sides == [None, None], "simulated runs are no evidence"
    assert [bool(one.command) for one in rows] == [False, True, False, True]


def test_the_rows_that_a_claim_compares_are_marked_and_its_value_is_drawn() -> None:
    real, _ = both(rows_of(kept("download", 1.2, 1.3))[0])
    assert real is not None
    assert (list(real.marked), real.value) == ([OF, BY], "goodput_bytes_per_s")
    [table] = real.tables
    assert [column.name for column in table.columns] == ["algorithm", "goodput_bytes_per_s", "n"], (
        "known ones"
    )
    assert table.csv().splitlines()[1] == "cubic,1100000.0,1000000.0,1200000.0,6"
    assert real.measured[0].name == "ratio of goodputs"


def test_each_part_has_a_row_with_all_its_results() -> None:
    report = report_of(PAPER, {one.part: one for one in (kept("download", 1, 2), kept("download-sim", 1, 2))})
    [row] = report.sections[1].rows
    assert (row.source, row.title, row.verdict) == ("download", "how fast it is", None)
    assert all(both(row))
    assert sum(report.counts.values()) == len(CLAIMS)


@pytest.mark.parametrize(("seeds", "text"), [([1, 2, 3], "1 to 3"), ([1, 3], "1, 3"), (None, "not recorded")])
def test_seeds_are_those_of_the_runs(seeds: list[int] | None, text: str) -> None:
    real, _ = both(rows_of(kept("download", 1.2, 1.3, **({"seeds": seeds} if seeds else {})))[0])
    assert real is not None
    assert real.source is not None
    assert real.source.seeds.startswith(text)


def test_seeds_are_kept(tmp_path: Path) -> None:
    file = kept("download", 1.2, 1.3, seeds=[4, 5]).keep(tmp_path)
    assert Kept.read(file).about["seeds"] == [4, 5]
    assert "seeds" not in Kept.read(kept("download", 1.2, 1.3).keep(tmp_path)).about


def test_figures_of_runs_are_in_their_part() -> None:
    pictures = pictures_of(Findings(figures={"goodput-by-size": new_plot(1, 1)}))
    assert [one.title for one in pictures] == ["goodput by size"]
    assert b"<svg" in pictures[0].svg
    report = report_of(PAPER, {"download": kept("download", 1.2, 1.3)}, {"download": pictures})
    real, _ = both(report.sections[1].rows[0])
    assert real is not None
    assert real.pictures == pictures
    with_overview = report_of(PAPER, {}, overview=pictures)
    assert [one.title for one in with_overview.sections] == ["Claims", "Figures", "Experiments"]
    assert Page(rendered(with_overview)).all("img")[0]["alt"] == "goodput by size"


@pytest.mark.parametrize("name", PAPERS)
def test_a_report_counts_as_the_claims_do(name: str) -> None:
    paper, results = paper_of(name), claims.kept(name)
    judged = of_paper(judge(paper, results))
    counts = {verdict: n for verdict, n in counted(judged).items() if n}
    assert report_of(paper, results).counts == counts


def test_saved_results_become_a_report(tmp_path: Path) -> None:
    kept("download", 1.2, 1.3).keep(tmp_path)
    file = tmp_path / "report.html"
    options = ["--results", str(tmp_path), "--report", str(file)]
    done = CliRunner().invoke(app, ["show", "r-tcp", *options])
    assert done.output.strip() == str(file)
    assert "part-download" in {of.get("id") for of in Page(file.read_text()).all("tr", "row")}
    with pytest.raises(UsageError) as caught:
        CliRunner().invoke(app, ["show", "r-tcp", "--part", "grid", *options], catch_exceptions=False)
    assert caught.value.slug == "paper.not_kept"
