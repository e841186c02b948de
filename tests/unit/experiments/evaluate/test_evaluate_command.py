from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from experiments.evaluate import evaluating, running, words
from experiments.evaluate.command import app, compare_app
from experiments.evaluate.controllers import resolve
from experiments.evaluate.errors import EvaluateError
from experiments.evaluate.evaluating import Order
from experiments.evaluate.running import SIMULATOR, SOCKETS
from experiments.results import SWEEP
from experiments.runs.reports import RunReport
from experiments.scenario import Scenario

MINE = Path(__file__).parents[4] / "ccplane/templates/mine.py"
QUICK = ("--quick", "--jobs", "1", "--repeats", "6")


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(MINE.read_text())


def call(*arguments: str, status: int = 0, of: typer.Typer = app) -> str:
    result = CliRunner().invoke(of, arguments)
    assert result.exit_code == status, (result.output, result.exception)
    return str(result.stdout)


def test_a_worse_algorithm_is_named_and_fails_and_the_same_one_does_not() -> None:
    files = ("--json", "old.json", "--markdown", "mine.md", "--report", "mine.html")
    said = call("mine.py", *QUICK, "--only", "alone-tenth", *files)
    assert "alone, 0.1 BDP of buffer" in said
    assert "12 runs (simulator, all new" in said
    assert "alone, 0.1 BDP of buffer" in Path("mine.md").read_text()
    assert "<!doctype html>" in Path("mine.html").read_text()
    data = json.loads(Path("old.json").read_text())
    assert data["spent"][0]["missing"] == 0
    assert all(value > 1 for one in data["values"] if one["measure"] == "goodput" for value in one["values"])

    html = Path("mine.html").read_text()
    drawn = re.search(r'data-text="(ccp experiment plot [^"]+)"', html)
    assert drawn is not None
    scenario = Scenario.load(Path(drawn[1].split()[-1]) / "scenario.yaml")
    assert (scenario.name, scenario.flows[0].algorithm) == ("alone-tenth", str(Path("mine.py").resolve()))
    assert 'data-text="ccp evaluate mine.py --only alone-tenth --repeats 6 --quick"' in html

    said = call("mine.py", *QUICK, "--only", "alone-tenth", "--baseline", "old.json")
    assert "0 of 2 figures are worse" in said
    assert "12 runs (simulator, none of them new)" in said  # nothing is run again

    Path("mine.py").write_text(MINE.read_text().replace("0.6 if", "0.2 if"))
    said = call("mine.py", *QUICK, "--only", "alone-tenth", "--baseline", "old.json", status=1)
    assert "Worse than in the baseline\n  alone-tenth: goodput" in said


def test_runs_belong_to_an_algorithms_content_and_file_name_wherever_it_is() -> None:
    call("mine.py", *QUICK, "--only", "alone-tenth")
    Path("elsewhere").mkdir()
    moved = Path("mine.py").rename("elsewhere/mine.py")
    assert "none of them new" in call(str(moved), *QUICK, "--only", "alone-tenth")
    renamed = moved.rename("elsewhere/other.py")
    assert "6 of them new" in call(str(renamed), *QUICK, "--only", "alone-tenth")


def test_a_comparison_ranks_and_shares_the_runs_of_cubic() -> None:
    call("kernel/bbr", *QUICK, "--only", "alone-tenth")
    said = call(
        "kernel/bbr", "kernel/cubic", *QUICK, "--only", "alone-tenth", "--report", "both.html", of=compare_app
    )
    assert "12 runs (simulator, none of them new" in said
    assert "mean rank" in Path("both.html").read_text()


def test_an_algorithm_that_raises_is_a_finding() -> None:
    line = "congested = report.lost > 0"
    assert line in MINE.read_text()
    planted = f"{line}\n        self.age = getattr(self, 'age', 0) + 1\n        assert self.age < 200"
    Path("mine.py").write_text(MINE.read_text().replace(line, planted))
    said = call("mine.py", *QUICK, "--only", "alone-tenth", "--json", "mine.json")
    assert "Finding alone-tenth, seed 1: the algorithm raised an exception" in said
    finding = json.loads(Path("mine.json").read_text())["findings"][0]
    assert Path(finding["scenario"]).is_file()


def test_the_list_has_every_case_with_its_section() -> None:
    said = call("--list")
    assert "queue-8bdp" in said
    assert "5.1.2" in said


def test_one_algorithm_cannot_be_compared_with_nothing() -> None:
    call("cubic", *QUICK, of=compare_app, status=2)


def order(**changes: object) -> Order:
    usual: dict[str, object] = {
        "algorithms": ("kernel/bbr",),
        "against": (),
        "quick": True,
        "repeats": 6,
        "only": ("alone-tenth",),
        "out": Path("out"),
    }
    return Order(**usual | changes)  # type: ignore[arg-type]


def test_an_unknown_case_is_refused_with_a_similar_one() -> None:
    with pytest.raises(EvaluateError) as caught:
        evaluating.evaluated(order(only=("alone-tent",)))
    assert caught.value.slug == "evaluate.no_case"
    assert "alone-tenth" in caught.value.fix


def test_without_runs_there_is_nothing_to_report() -> None:
    with pytest.raises(EvaluateError) as caught:
        evaluating.evaluated(order(run=False))
    assert caught.value.slug == "evaluate.no_runs"


def test_without_new_runs_a_side_without_any_is_left_out() -> None:
    call("kernel/bbr", *QUICK, "--only", "alone-tenth")
    found = evaluating.evaluated(order(quick=False, run=False, out=Path("out/evaluate")))
    assert found.sides == (SIMULATOR,)


def test_real_sockets_need_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(EvaluateError) as caught:
        evaluating.evaluated(order(quick=False))
    assert caught.value.slug == "evaluate.needs_root"
    assert "--quick" in caught.value.fix


def test_root_also_runs_real_sockets_and_only_these_where_the_simulator_lacks_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    both = evaluating.sides_of(order(quick=False), [resolve("kernel/bbr")])
    assert both == (SIMULATOR, SOCKETS)
    assert evaluating.sides_of(order(quick=False), [resolve("kernel/vegas")]) == (SOCKETS,)


def test_an_interrupted_evaluation_resumes(monkeypatch: pytest.MonkeyPatch) -> None:
    class Impatient(RunReport):
        done_runs = 0

        def done(self, *_: object) -> None:
            self.done_runs += 1
            if self.done_runs == 3:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        evaluating.evaluated(order(jobs=1), Impatient())
    (sweep,) = Path("out").glob(f"*/{SWEEP}")
    assert len([one for one in sweep.parent.iterdir() if one.is_dir()]) == 3
    found = evaluating.evaluated(order(jobs=1), RunReport())
    assert (found.spent[0].runs, found.spent[0].now, found.complete) == (12, 9, True)


def test_a_disturbed_run_does_not_count_and_is_repeated_on_real_sockets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    evaluating.evaluated(order(jobs=1), RunReport())
    (sweep,) = Path("out").glob(f"*/{SWEEP}")
    file = next(sweep.parent.glob("*/metadata.json"))
    metadata = json.loads(file.read_text())
    file.write_text(json.dumps(metadata | {"processors": {"foreign_ratio": 0.5, "stolen_ratio": 0.0}}))

    found = evaluating.evaluated(order(run=False), RunReport())
    assert (found.spent[0].disturbed, found.spent[0].missing) == (1, 0)
    assert "1 disturbed, which do not count" in words.spent_text(found)
    (case,) = found.cases
    one_less = sorted(
        found.estimate(case, case.measures[0], SIMULATOR, one.algorithm).n
        for one in (*found.subjects, *found.against)
    )
    assert one_less == [5, 6]

    monkeypatch.setattr(running, "SOCKETS", SIMULATOR)
    found = evaluating.evaluated(order(jobs=1), RunReport())
    assert (found.spent[0].disturbed, found.spent[0].now) == (0, 1)


def test_a_share_of_real_sockets_without_real_sockets_is_refused() -> None:
    call("kernel/bbr", *QUICK, "--sample", "0.1", status=2)
    call("kernel/bbr", "kernel/reno", *QUICK, "--sample", "0.1", status=2, of=compare_app)
