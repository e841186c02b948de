from __future__ import annotations

import re
from pathlib import Path

import pytest

from experiments.evaluate import criteria
from experiments.evaluate.cases import Case, all_cases
from experiments.evaluate.cases.base import STEADY_S
from experiments.evaluate.model_error import errors
from experiments.evaluate.page import GROUPS
from experiments.evaluate.paths import Traces
from experiments.netlab.traces import read_trace
from experiments.runs.own_network import own_network
from experiments.units import MBIT
from experiments.validation.heldout import FAST
from tests.unit.experiments.evaluate.made import CASES

SECTION = re.compile(r"[567]\.\d+(\.\d+)?")


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Case]:
    folder = tmp_path_factory.mktemp("traces")
    Traces(folder).write()
    return {one.key: one for one in all_cases(folder)}


@pytest.mark.parametrize("key", CASES)
def test_every_line_up_is_a_valid_scenario_on_both_sides(key: str, cases: dict[str, Case]) -> None:
    for made in cases[key].lineups.values():
        for datapath in ("sim", "ebpf"):
            scenario = made("cubic").replace(datapath=datapath)
            scenario.validate()
            own_network(scenario.replace(seed=3)).validate()


@pytest.mark.parametrize("key", CASES)
def test_a_case_says_what_it_measures_with_which_error(key: str) -> None:
    case = CASES[key]
    assert SECTION.fullmatch(case.criterion.section)
    assert any(case.criterion.section.startswith(group) for group in GROUPS)
    assert case.about.endswith(".")
    assert "before" not in case.about.lower(), "a report can show the case alone"
    assert any(what.better for what in case.measures)
    assert len({what.key for what in case.measures}) == len(case.measures)
    for what in case.measures:
        assert errors()[case.kind][what.quantity] > 0
    for made in case.lineups.values():
        link = made("cubic").topology.bottleneck
        fast = link.rate_bytes_per_s is not None and link.rate_bytes_per_s > 100 * MBIT
        assert case.kind.endswith(FAST) == fast


def test_cases_have_different_names_and_the_order_of_the_rfc() -> None:
    cases = all_cases(Path("/nowhere"))
    assert len(CASES) == len(cases)
    sections = [tuple(map(int, one.criterion.section.split("."))) for one in cases]
    assert sections == sorted(sections)


def test_every_criterion_is_tested_or_its_absence_has_a_reason() -> None:
    tested = {one.criterion.section for one in CASES.values()}
    said = tested | {section for section, _, _ in criteria.NOT_TESTED}
    special = {f"7.{n}" for n in range(1, 12)}
    single = {f"5.1.{n}" for n in range(1, 6)} | {f"5.2.{n}" for n in range(1, 4)}
    assert special | single | {"5.3.1", "5.3.2", "6.1", "6.2", "6.4"} <= said


def test_goodput_on_a_trace_is_relative_to_the_rate_in_the_measured_time(cases: dict[str, Case]) -> None:
    found = 0
    for case in cases.values():
        scenario = case.lineups[""]("cubic")
        if (trace := scenario.topology.bottleneck.trace) is None:
            continue
        times_ms = read_trace(trace, "trace")
        offered_bytes = 1500 * sum(1e3 * STEADY_S < one <= 1e3 * scenario.duration_s for one in times_ms)
        rate_mbit = offered_bytes / (scenario.duration_s - STEADY_S) / MBIT
        assert case.measures[0].empty == pytest.approx(rate_mbit)
        found += 1
    assert found == 4


def test_traces_are_the_same_everywhere_and_written_once(tmp_path: Path) -> None:
    first, second = Traces(tmp_path / "one"), Traces(tmp_path / "two")
    first.write()
    second.write()
    for one, other in ((first.cellular, second.cellular), (first.bursts, second.bursts)):
        assert Path(one).read_bytes() == Path(other).read_bytes()
        assert read_trace(one, "trace")
    Path(first.bursts).write_text("1\n")
    first.write()
    assert Path(first.bursts).read_text() == "1\n"
