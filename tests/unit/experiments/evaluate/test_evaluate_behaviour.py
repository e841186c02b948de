"""The suite `general` of `ccp conform` in an evaluation."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.evaluate import evaluating
from experiments.evaluate.behaviour import findings
from experiments.evaluate.controllers import resolve
from experiments.evaluate.evaluating import Order, evaluated
from experiments.evaluate.page import report_of
from experiments.scenario import Scenario

DEFECTS = Path(__file__).parents[1] / "conform/defects"


def test_a_defect_is_a_finding_with_a_scenario_that_shows_it(tmp_path: Path) -> None:
    (found,) = findings([resolve(str(DEFECTS / "no_reaction_to_ecn.py"))], tmp_path)
    assert found.key == "reacts-to-ecn"
    assert Scenario.load(found.scenario).seed == found.seed
    assert Path(found.scenario).is_relative_to(tmp_path)


def test_the_kernels_congestion_controls_have_no_findings_but_those_that_are_known(tmp_path: Path) -> None:
    found = findings([resolve("kernel/cubic"), resolve("kernel/bbr")], tmp_path)
    assert found
    assert all("; known: version 1" in one.text for one in found)


def test_all_cases_include_the_suite_and_single_cases_do_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = evaluating.all_cases
    monkeypatch.setattr(
        evaluating, "all_cases", lambda traces: [one for one in usual(traces) if one.key == "alone-tenth"]
    )
    order = Order((str(DEFECTS / "no_reaction_to_ecn.py"),), (), True, 6, (), tmp_path, jobs=1)
    found = evaluated(order)
    assert [one.key for one in found.findings] == ["reacts-to-ecn"]
    sections = report_of(found).sections
    (row,) = next(one.rows for one in sections if one.title == "Findings")
    assert row.command == f"ccp experiment run {found.findings[0].scenario}"
    assert not evaluated(Order(order.algorithms, (), True, 6, ("alone-tenth",), tmp_path, jobs=1)).findings
