"""The engine of `ccp conform`: suites, comparisons, replays, files, and the command."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from ccplane.base.errors import CcpError
from experiments.conform import Lab, failures, run_suite, running
from experiments.conform.cases import Comparison
from experiments.conform.command import app
from experiments.netlab.spec import Bernoulli
from experiments.results import Result
from experiments.run import run
from experiments.scenario import Scenario
from scripts import suites

SUITE = '''
from experiments.conform import Lab, case

@case("RFC 5681 section 3.1")
def halves_its_window(lab: Lab) -> None:
    """Because."""
    net = lab.path(buffer_bdp=2)
    net.run(3)
    before = net.flow.cwnd_pkts
    net.drop()
    net.run(0.2)
    lab.compare("window after a loss / before", net.flow.cwnd_pkts / before, at_most=0.6)

@case("nowhere", "is never asked for")
def cannot(lab: Lab) -> None:
    lab.undecided("the sky is blue")
'''


@pytest.fixture
def suite(tmp_path: Path) -> str:
    file = tmp_path / "mine_suite.py"
    file.write_text(SUITE)
    return str(file)


def test_a_suite_of_a_user_distinguishes_algorithms(suite: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    reno = run_suite(suite, "kernel/reno", out=out)
    assert [(one.case, one.outcome) for one in reno] == [
        ("halves-its-window", "passes"),
        ("cannot", "undecided"),
    ]
    assert reno[0].title == "halves its window"
    assert reno[1].said == "the sky is blue"
    assert not out.exists(), "nothing failed"
    cubic = run_suite(suite, "kernel/cubic", out=out, only=["halves-its-window"])[0]
    assert cubic.outcome == "fails"
    assert cubic.why == "Because."
    assert [Path(file).name for file in cubic.files] == ["halves-its-window.yaml", "halves-its-window.png"]
    assert Path(cubic.files[1]).read_bytes().startswith(b"\x89PNG")
    run_suite(suite, "kernel/reno", out=out, only=["halves-its-window"])
    assert list(out.iterdir()) == [], "files of an earlier failure are removed"


def test_parameters_reach_the_algorithm(suite: str) -> None:
    half = running.parsed_params("cubic", ["beta=0.5"])
    results = [run_suite(suite, "cubic", params=one, only=["halves-its-window"])[0] for one in ({}, half)]
    assert [one.outcome for one in results] == ["fails", "passes"]


@pytest.mark.parametrize("algorithm", ["kernel/cubic", "cubic", "bbr3"])
def test_a_failure_can_be_run_again_exactly(algorithm: str, tmp_path: Path) -> None:
    lab = Lab(algorithm, seed=3)
    net = lab.path(ecn=False)
    net.run(1.2345)
    net.change(loss=Bernoulli(ratio=0.01))
    net.run(0.2)
    net.drop(0, 5)
    net.change(rate_bytes_per_s=1e6, delay_us=30_000)
    net.run(2)
    net.scenario().save(tmp_path / "again.yaml")
    lab.close()
    again = run(Scenario.load(tmp_path / "again.yaml")).connection_samples
    rows = net.flow.between(0, net.now_s)
    both = again[again["t_s"] <= net.now_s]
    stop = min(len(rows), len(both)) - 1  # the last samples are those of the end of the run
    assert stop > 1000
    for column in ("cwnd_bytes", "bytes_acked", "bytes_retrans", "rtt_us"):
        np.testing.assert_array_equal(both[column].to_numpy()[:stop], rows[column][:stop])


def test_seeds_change_the_path_and_exact_paths_stay() -> None:
    paths = {seed: Lab("kernel/reno", seed).path() for seed in (1, 2, 3)}
    assert paths[1].rate_mbit == pytest.approx(20)
    assert paths[1].rtt_s == pytest.approx(0.04)
    assert len({net.rate_mbit for net in paths.values()}) == 3
    assert all(20 / 1.2 <= net.rate_mbit <= 24 for net in paths.values())
    assert Lab("kernel/reno", 2).path(exact=True).rate_mbit == pytest.approx(20)


def test_comparisons_in_words() -> None:
    assert str(Comparison("share", 0.25, at_most=0.5)) == "share: 0.25 (at most 0.5)"
    assert str(Comparison("share", 2, 1, 3)) == "share: 2 (1 to 3)"
    assert str(Comparison("bound", None, at_least=1)) == "bound: no value (at least 1)"
    assert not Comparison("bound", None, at_least=1).holds
    assert not Comparison("nothing", float("nan"), at_least=0).holds


def test_watch_sees_reports_of_own_algorithms() -> None:
    seen: list[str] = []
    lab = Lab("bbr3")
    lab.path(watch=lambda bbr, report: seen.append(bbr.state)).run(1)
    assert {"startup", "drain"} <= set(seen)


def test_cases_run_on_datapaths_of_scenarios_alone(suite: str) -> None:
    with pytest.raises(CcpError) as caught:
        run_suite(suite, "kernel/reno", datapath="nowhere")
    assert caught.value.slug == "run.datapath"


def test_arrivals_are_read_from_a_file_that_is_still_written(tmp_path: Path) -> None:
    from experiments.conform.real import RealNet

    net = RealNet.__new__(RealNet)
    net._csv, net._link = tmp_path / "links.csv", "link"
    lines = ["t_us,link,queue_bytes", "1000,link>,0,0,0,0,9", "1000,link<,0,0,5,0,9", "2000,link>,0,0,17,0,9"]
    net._csv.write_text("\n".join([*lines, "3000,link>,0,0,2"]))  # of 25, say
    assert net._arrived(0) == ([1000, 2000], [0, 17])
    assert net._arrived(len(lines[0]) + 5) == ([2000], [17])


@pytest.mark.parametrize(
    ("text", "slug"),
    [
        ("def broken(:", "conform.bad_suite"),
        ("import nothing_of_this_name", "conform.bad_suite"),
        ("x = 1", "conform.no_cases"),
        (SUITE.replace("net.run(3)", "1 / 0"), "conform.bad_suite"),
    ],
)
def test_broken_suites(text: str, slug: str, tmp_path: Path) -> None:
    file = tmp_path / "broken.py"
    file.write_text(text)
    with pytest.raises(CcpError) as caught:
        run_suite(str(file), "kernel/reno")
    assert caught.value.slug == slug
    assert str(file) in caught.value.where


@pytest.mark.parametrize(
    ("args", "slug"),
    [
        (["generl", "kernel/reno"], "conform.unknown_suite"),
        (["missing.py", "kernel/reno"], "conform.unknown_suite"),
        (["general", "kernel/reno", "--case", "fills-an-emty-path"], "conform.unknown_case"),
        (["general", "kernel/vegas"], "scenario.unknown_algorithm"),
    ],
)
def test_wrong_names(args: list[str], slug: str) -> None:
    error = CliRunner().invoke(app, args).exception
    assert isinstance(error, CcpError)
    assert error.slug == slug


def test_failures_that_cannot_be_written(suite: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(CcpError) as caught:
        run_suite(suite, "kernel/cubic", out=tmp_path / "file" / "out")
    assert caught.value.slug == "conform.cannot_write"


def test_the_command(suite: str, tmp_path: Path) -> None:
    out = ["-o", str(tmp_path / "out")]
    passed = CliRunner().invoke(app, [suite, "kernel/reno", *out])
    assert passed.exit_code == 0
    assert "1 passes, 0 fails, 1 undecided; 2 cases" in passed.output
    failed = CliRunner().invoke(app, [suite, "kernel/cubic", "--seeds", "2", *out])
    assert failed.exit_code == 1
    assert "fails 2 of 2" in failed.output
    assert f"again  ccp experiment run {tmp_path}/out/halves-its-window.yaml" in failed.output
    assert (tmp_path / "out" / "halves-its-window-seed-2.png").exists()
    shown = CliRunner().invoke(app, [suite, "kernel/cubic", "--json", *out])
    first = json.loads(shown.stdout)[0]
    assert (first["case"], first["outcome"]) == ("halves-its-window", "fails")
    assert first["comparisons"][0]["holds"] is False
    listed = CliRunner().invoke(app, [suite, "--dry-run"])
    assert "halves-its-window" in listed.output
    assert CliRunner().invoke(app, [suite]).exit_code == 2


def test_a_plot_marks_what_was_measured(suite: str) -> None:
    result = run_suite(suite, "kernel/cubic", only=["halves-its-window"])[0]
    assert result.failure is not None
    again: Result = run(result.scenarios[0])
    plot = failures.drawn(result, result.failure, again)
    marks = [line.get_xdata()[0] for line in plot.axes[0].lines if len(line.get_xdata()) == 2]
    assert result.failure.at_s in marks


def test_the_title_of_a_plot_fits_and_names_no_folder(suite: str) -> None:
    result = run_suite(suite, "kernel/cubic", only=["halves-its-window"])[0]
    named = replace(result, algorithm=f"/{'folder/' * 30}mine.py", title="halves its window " * 8)
    assert named.failure is not None
    plot = failures.drawn(named, named.failure, run(result.scenarios[0]))
    plot.savefig(io.BytesIO(), format="png")
    title = plot.texts[0]
    assert title.get_text().startswith("mine.py fails: halves its window")
    assert title.get_window_extent().x1 <= plot.bbox.width


def test_the_suite_of_the_page_works(tmp_path: Path) -> None:
    page = (Path(__file__).parents[4] / "docs/conform.md").read_text()
    suite = tmp_path / "page.py"
    suite.write_text(page.split("```python\n")[1].split("```")[0])
    assert [run_suite(str(suite), one)[0].outcome for one in ("kernel/reno", "cubic")] == ["passes", "fails"]


def test_the_tables_of_the_page_are_those_of_the_suites() -> None:
    assert suites.written(suites.PAGE.read_text()) == suites.PAGE.read_text(), "run `make commands`"
