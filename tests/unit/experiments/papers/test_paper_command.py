"""`ccp paper`: what it runs, prints and draws, and how it goes on."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ccplane.base.errors import UsageError
from experiments import run as runs
from experiments.netlab import LabError
from experiments.papers.commands import app
from experiments.papers.flex_cubic import paper as flex_cubic
from experiments.plots import style
from experiments.runs.recording import Recording
from experiments.scenario import Scenario
from tests.unit.experiments.html_page import Page
from tests.unit.experiments.papers.fakes import fill

SHORT = ("flex-cubic", "--quick", "--seconds", "1", "--repeats", "1", "--out", "there")


class Kernel:
    """Replaces the kernel: counts runs, and fails at one of them."""

    def __init__(self) -> None:
        self.done = 0
        self.stop_at: int | None = None
        self.error: BaseException = KeyboardInterrupt()

    def __call__(self, scenario: Scenario, into: Recording, _directory: Path, _progress: Any) -> None:
        if self.done == self.stop_at:
            raise self.error
        self.done += 1
        share = 8e6 if scenario.seed % 2 else 9e6
        fill(into, scenario, {flow.name: share / len(scenario.flows) for flow in scenario.flows})


@pytest.fixture(autouse=True)
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kernel:
    stand_in = Kernel()
    monkeypatch.setitem(runs.DATAPATHS, "ebpf", stand_in)
    monkeypatch.setattr(style, "DPI", 30)
    monkeypatch.chdir(tmp_path)
    return stand_in


def call(*arguments: str, status: int = 0) -> Any:
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == status, (result.output, result.exception)
    return result


def test_parts_have_tables_figures_and_checks(kernel: Kernel) -> None:
    parts = ["fairness", "reroute"]
    document = json.loads(call(*SHORT, *(word for one in parts for word in ("--part", one)), "--json").stdout)
    assert kernel.done == sum(part["done"] for part in document["parts"].values())
    assert list(document["parts"]) == parts
    for part in document["parts"].values():
        assert part["done"] == part["planned"]
        assert sum(row["n"] for row in part["tables"][0]["rows"]) == part["done"]
        assert part["figures"]
        assert all(Path(file).stat().st_size > 1000 for file in part["figures"])
    (check,) = document["parts"]["fairness"]["checks"]
    assert check["value"] == pytest.approx(1)
    assert check["verdict"] == "undecided"
    assert check["runs_needed"] == 6


def test_it_goes_on_where_it_was_interrupted(kernel: Kernel) -> None:
    few = (*SHORT, "--part", "fairness")
    kernel.stop_at = 3
    call(*few, status=130)
    assert kernel.done == 3
    said = call(*few, "--no-run", status=1).stdout
    assert "(3 of " in said
    assert kernel.done == 3
    kernel.stop_at = None
    said = call(*few)
    n_planned = int(said.stderr.partition(": ")[2].partition(" runs")[0])
    assert f"{n_planned} runs, {n_planned - 3} to do" in said.stderr
    assert kernel.done == n_planned
    assert "undecided (too few, try 6 runs): Jain index with a flow of kernel CUBIC" in said.stdout
    assert "figures/fairness-jain.png" in said.stdout
    call(*few)
    assert kernel.done == n_planned


def test_how_long_it_takes_is_said_without_running(kernel: Kernel) -> None:
    extents = json.loads(call(*SHORT, "--dry-run", "--json").stdout)
    assert extents["reroute"] == {"planned": 3, "missing": 3, "estimate_s": pytest.approx(3 * 2.5 + 2 * 1.5)}
    assert "together about" in call(*SHORT, "--dry-run").stderr
    assert kernel.done == 0
    assert not Path("there").exists()


@pytest.mark.parametrize("paper", ["flex-cubic", "hyvar", "int-adaptive"])
def test_its_parts_are_reported_with_what_they_show(paper: str) -> None:
    extents = json.loads(call(paper, "--quick", "--dry-run", "--json").stdout)
    reported = call(paper, "--quick", "--dry-run").stderr
    assert all(f"\n{part} (" in f"\n{reported}" for part in extents)
    assert all(one["planned"] > 0 for one in extents.values())
    assert "--dry-run lists the parts" in " ".join(call(paper, "--help").stdout.replace("│", " ").split())


def test_parts_that_cannot_be_simulated_are_reported_and_left_out() -> None:
    simulated = ("int-adaptive", "--quick", "--datapath", "sim", "--dry-run")
    said = call(*simulated)
    assert "not simulated: `wired>` cannot be captured (simulated packets have no contents)" in said.stderr
    assert "\nfig4 (" in said.stderr
    named = CliRunner().invoke(app, [*simulated, "--part", "cause"]).exception
    assert getattr(named, "slug", "") == "scenario.bad_field"


def test_nothing_to_report_is_reported() -> None:
    assert "(0 of 3 runs)" in call(*SHORT, "--part", "reroute", "--no-run", status=1).stdout


def test_a_part_that_is_none_is_reported() -> None:
    found = CliRunner().invoke(app, [*SHORT, "--part", "fairnes"]).exception
    assert isinstance(found, UsageError)
    assert found.slug == "paper.unknown_part"
    assert "`fairness`" in found.fix


@pytest.mark.parametrize(
    ("options", "slug"),
    [(["--part", "reroute"], "paper.needs_video"), (["--video", "--part", "fairness"], None), ([], None)],
)
def test_parts_with_video_want_to_be_asked_for(
    monkeypatch: pytest.MonkeyPatch, options: list[str], slug: str | None
) -> None:
    parts = flex_cubic.PAPER.parts
    playing = dataclasses.replace(parts["reroute"], video=True)
    paper = dataclasses.replace(flex_cubic.PAPER, parts={**parts, "reroute": playing})
    monkeypatch.setattr(flex_cubic, "PAPER", paper)
    result = CliRunner().invoke(app, ["flex-cubic", "--quick", "--dry-run", "--json", *options])
    assert getattr(result.exception, "slug", None) == slug
    if slug is None:
        assert "reroute" not in json.loads(result.stdout)
    else:
        assert "ccp paper flex-cubic --video --part reroute" in getattr(result.exception, "fix", "")


def test_a_paper_without_video_plays_none() -> None:
    found = CliRunner().invoke(app, [*SHORT, "--video", "--dry-run"]).exception
    assert getattr(found, "slug", "") == "paper.no_video"


def test_without_privilege_the_first_run_says_so(kernel: Kernel) -> None:
    kernel.stop_at = 0
    kernel.error = LabError("lab.not_permitted", "not root", "here", "why", "run it with sudo")
    found = CliRunner().invoke(app, [*SHORT, "--part", "reroute"]).exception
    assert getattr(found, "slug", "") == "sweep.aborted"
    assert getattr(found, "fix", "") == "run it with sudo"


def test_a_report_has_the_runs_that_were_done_with_their_figures(tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    done = CliRunner().invoke(app, [*SHORT, "--part", "reroute", "--report", str(file)])
    assert done.output.splitlines()[-1] == str(file)
    page = Page(file.read_text())
    [command] = {
        one["data-text"] for one in page.all("button", "copy") if "--keep" not in (one["data-text"] or "")
    }
    assert command is not None
    assert command.endswith("--part reroute")
    assert "--report" not in command
    assert [of["alt"] for of in page.all("img")]
    assert all((of["src"] or "").startswith("data:image/svg+xml") for of in page.all("img"))
