from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.errors import ResultError
from experiments.evaluate import criteria, markdown, page, words
from experiments.evaluate.command import write_files
from experiments.evaluate.errors import EvaluateError
from experiments.evaluate.evaluation import Evaluation, Values, read
from experiments.evaluate.findings import Finding
from experiments.evaluate.running import SIMULATOR, SOCKETS
from experiments.report import rendered
from tests.unit.experiments.evaluate.made import (
    ABOUT,
    ALONE,
    BBR,
    CASES,
    CUBIC,
    RENO,
    REPEATS,
    made,
    seeds,
    usual,
)

FINDING = Finding(
    "kernel/bbr", "exception", "the algorithm raised an exception", "alone-tenth", 3, "out/scenario.yaml"
)


@given(st.lists(st.none() | st.floats(0, 1e9), min_size=9, max_size=9))
def test_json_keeps_values_and_what_follows_from_them(values: list[float | None]) -> None:
    own = made(
        {
            ("goodput", SIMULATOR, BBR.algorithm): values,
            ("goodput", SIMULATOR, CUBIC.algorithm): seeds(44.0),
        },
        findings=[FINDING],
    )
    text = own.to_json()
    back = Evaluation.from_json(text, "file")
    assert back.to_json() == text
    assert back.findings == [FINDING]
    goodput = ALONE.measures[0]
    assert back.effect(ALONE, goodput, SIMULATOR, BBR.algorithm, CUBIC.algorithm) == own.effect(
        ALONE, goodput, SIMULATOR, BBR.algorithm, CUBIC.algorithm
    )


def test_json_says_effects_errors_and_what_is_not_tested() -> None:
    data = json.loads(usual().to_json())
    effect = next(one for one in data["effects"] if one["measure"] == "retransmitted")
    assert effect["verdict"] == "worse"
    assert effect["ratio"] == pytest.approx(30, rel=0.01)  # CUBIC's is below the floor of 0.1 %
    assert effect["error"] > 0.5
    assert {one["section"] for one in data["not_tested"]} >= {"7.4", "7.10"}


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 99}'])
def test_another_file_is_refused(text: str, tmp_path: Path) -> None:
    file = tmp_path / "other.json"
    file.write_text(text)
    with pytest.raises(EvaluateError) as caught:
        read(file)
    assert caught.value.slug == "evaluate.bad_file"
    assert str(file) in caught.value.where


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(EvaluateError, match=str(tmp_path)) as caught:
        read(tmp_path / "none.json")
    assert caught.value.slug == "evaluate.bad_file"


def test_the_option_of_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(ResultError, match=str(tmp_path)) as caught:
        write_files((None, str), (tmp_path, str), (None, lambda: page.report_of(made())))
    assert caught.value.slug == "result.cannot_write"
    assert "--markdown" in caught.value.fix


def test_a_simulated_effect_has_to_exceed_the_simulators_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("experiments.evaluate.evaluation.error", lambda _kind, _quantity: 0.3)
    said = words.sentence(usual(), ALONE, SIMULATOR, BBR, CUBIC)
    assert said.startswith("Worse: retransmitted 3.01 %, 30.1 times that of kernel CUBIC [")
    assert "About the same: goodput 46.2 Mbit/s (92 % of the path's rate)" in said
    said = words.sentence(usual(goodput=55.0), ALONE, SIMULATOR, BBR, CUBIC)
    assert "Undecided (model): goodput 55.2 Mbit/s (110 % of the path's rate), 1.25 times" in said
    assert "[0.962, 1.62]" in said, "the interval that decides"


def test_the_reasons_of_undecided_cases_are_distinguished_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("experiments.evaluate.evaluation.error", lambda _kind, _quantity: 0.3)
    cases = [CASES[key] for key in ("jitter", "longer-way", "outage")]
    wide = tuple(44.0 * one for one in (0.5, 0.6, 0.7, 1.2, 1.3, 1.4, 1.5, 2.0, 3.0))
    values = [
        Values(case.key, "goodput", SIMULATOR, who.algorithm, found)
        for case, own in zip(cases, (wide, seeds(55.0), seeds(44.0)), strict=True)
        for who, found in ((BBR, own), (CUBIC, seeds(44.0)))
    ]
    evaluation = Evaluation((BBR,), (CUBIC,), cases, REPEATS, values, made({}).spent, (), ABOUT)
    said = words.counted(evaluation, BBR, CUBIC)
    assert said == (
        "Compared with kernel CUBIC in 3 cases, kernel BBR is undecided in 3: more seeds 1 (too few, or they "
        "differ too much: raise --repeats), model 1 (within the simulator's error: real sockets decide), "
        "about the same 1 (nothing to do)."
    )
    whys = ["more seeds", "model", "about the same"]
    rows = [row for section in page.report_of(evaluation).sections for row in section.rows if row.sides]
    assert [(row.verdict, row.note) for row in rows] == [("undecided", why) for why in whys]
    text = markdown.of(evaluation)
    assert all(f"| undecided ({why}) |" in text for why in whys)
    effects = json.loads(evaluation.to_json())["effects"]
    assert [one["why"] for one in effects if one["measure"] == "goodput"] == whys


def test_real_sockets_decide_where_there_are_runs() -> None:
    values = {
        ("goodput", side, who.algorithm): seeds(value)
        for side, who, value in (
            (SIMULATOR, BBR, 10.0),
            (SIMULATOR, CUBIC, 40.0),
            (SOCKETS, BBR, 46.0),
            (SOCKETS, CUBIC, 40.0),
        )
    }
    both = made(values, sides=(SIMULATOR, SOCKETS))
    assert both.sides == (SOCKETS, SIMULATOR)
    assert both.verdict_on(ALONE, SIMULATOR, BBR.algorithm, CUBIC.algorithm) == "worse"
    assert both.verdict(ALONE, BBR.algorithm, CUBIC.algorithm) == "better"
    only_simulated = made(
        {key: found for key, found in values.items() if key[1] == SIMULATOR}, sides=(SIMULATOR, SOCKETS)
    )
    assert only_simulated.verdict(ALONE, BBR.algorithm, CUBIC.algorithm) == "worse"


def test_the_queue_is_said_relative_to_the_empty_path() -> None:
    case = CASES["queue-8bdp"]
    evaluation = made(
        {("rtt_p95", SIMULATOR, who.algorithm): seeds(value) for who, value in ((BBR, 52.0), (CUBIC, 357.0))},
        cases=[case],
    )
    said = words.sentence(evaluation, case, SIMULATOR, BBR, CUBIC)
    assert "12.2 ms above the empty path" in said
    ((found, text),) = words.furthest(evaluation, BBR, CUBIC, "better")
    assert found is case
    assert text.startswith(f"{case.title}: RTT p95 52.2 ms, 12.2 ms above the empty path, 0.146 times")
    assert words.furthest(evaluation, BBR, CUBIC, "worse") == []


def test_harm_is_said_with_that_of_the_reference() -> None:
    case = CASES["next-to-cubic-1bdp"]
    values = {("harm-done", BBR): 0.9, ("harm-done", CUBIC): 0.5, ("own", BBR): 42.0, ("own", CUBIC): 24.0}
    evaluation = made(
        {(measure, SIMULATOR, who.algorithm): (value,) * 9 for (measure, who), value in values.items()},
        cases=[case],
    )
    said = words.sentence(evaluation, case, SIMULATOR, BBR, CUBIC)
    assert "Harm to CUBIC 0.900 (kernel CUBIC: 0.500)" in said
    assert (
        "own goodput next to CUBIC 42.0 Mbit/s (168 % of an equal share; kernel CUBIC: 24.0 Mbit/s)" in said
    )


def test_the_report_has_all_cases_findings_and_what_is_not_tested() -> None:
    evaluation = usual(goodput=44.0)
    evaluation.findings.append(FINDING)
    report = page.report_of(evaluation)
    assert report.counts == {"fails": 1, "not tested": len(criteria.NOT_TESTED)}
    html = rendered(report)
    assert FINDING.text in html
    assert "is worse" in html
    assert "the 95 % interval of a median, in the simulator with its error, drawn" in html
    assert "compliant" not in html
    text = markdown.of(evaluation)
    for part in (
        FINDING.text,
        "| 6.1 Tail-drop queues | alone, 0.1 BDP of buffer | worse |",
        "## Not tested",
    ):
        assert part in text


def test_each_case_of_the_report_has_its_command_where_it_was_run() -> None:
    values = {("goodput", SIMULATOR, who.algorithm): seeds(44.0) for who in (BBR, CUBIC)}
    both = {
        ("goodput", side, who.algorithm): seeds(44.0) for side in (SIMULATOR, SOCKETS) for who in (BBR, CUBIC)
    }
    for found, sides, against, command in (
        (values, (SIMULATOR,), (CUBIC,), "ccp evaluate kernel/bbr --only alone-tenth --repeats 9 --quick"),
        (
            both,
            (SIMULATOR, SOCKETS),
            (CUBIC, RENO),
            "sudo ccp evaluate kernel/bbr --only alone-tenth --repeats 9 --against kernel/reno",
        ),
    ):
        report = page.report_of(made(found, sides=sides, against=against))
        (row,) = (row for section in report.sections for row in section.rows if row.key == "alone-tenth")
        assert (row.command, row.drawing) == (command, "")
        assert f'data-text="{command}"' in rendered(report)


def test_without_findings_the_report_has_no_such_section() -> None:
    assert all(one.title != "Findings" for one in page.report_of(usual()).sections)


def test_unknown_values_are_not_compared() -> None:
    evaluation = made({("goodput", SIMULATOR, BBR.algorithm): (None,) * 9})
    assert math.isnan(evaluation.estimate(ALONE, ALONE.measures[0], SIMULATOR, BBR.algorithm).value)
    assert evaluation.verdict(ALONE, BBR.algorithm, CUBIC.algorithm) is None


def test_one_controller_of_a_comparison_has_its_own_findings_and_its_usual_reference() -> None:
    other = Finding("kernel/cubic", "exception", "another", "alone-tenth", 1, "out/other.yaml")
    values = {
        ("goodput", SIMULATOR, one.algorithm): seeds(40.0 + n) for n, one in enumerate((BBR, CUBIC, RENO))
    }
    found = made(values, subjects=(BBR, CUBIC, RENO), findings=[FINDING, other])
    assert "kernel CUBIC: another" in rendered(page.comparison_of(found, {}))
    for subject, reference, findings in ((BBR, CUBIC, [FINDING]), (CUBIC, RENO, [other]), (RENO, CUBIC, [])):
        own = found.alone(subject)
        assert (own.subjects, own.against, own.findings) == ((subject,), (reference,), findings)
        counts = words.counts(own, subject, reference)
        assert counts == words.counts(found, subject, reference)
        assert counts.total() == 1
