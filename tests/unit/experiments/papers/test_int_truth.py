"""Telemetry beside the flows, and the causes of losses."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.papers.int_adaptive.chain import OWN, chain, losing, seen
from experiments.papers.int_adaptive.truth import gaps, matrix
from experiments.papers.variants import steered
from experiments.results import Result
from experiments.runs.grid import changed
from tests.unit.experiments.papers.int_fakes import capture, records, result_of


@pytest.fixture
def result() -> Result:
    scenario = chain("x", 9, flows=2)
    return result_of(changed(scenario, {"flows.flow2.start_s": 3.5}))


def test_a_node_s_telemetry_is_alongside_the_flows(result: Result) -> None:
    own = seen(result, "ap2")
    assert set(own["flow"]) == {"flow1", "flow2"}
    assert own["link_lost_pkts"].sum() == own["lost_pkts"].sum() > 0
    assert own["t_s"].is_monotonic_increasing
    assert set(own["node"]) == {"ap2"}


def causes(tmp_path: Path, reported: dict[int, tuple[int, int]], behind_the_bottleneck: list[int]) -> Result:
    capture(tmp_path, behind_the_bottleneck)
    scenario = changed(chain("x", 1), {**losing(0.01), **steered(OWN, wireless_loss="keep")})
    return result_of(scenario, tmp_path, int_records=records(reported))


def test_what_left_the_bottleneck_and_did_not_arrive_was_lost_on_air(tmp_path: Path) -> None:
    reported = {0: (0, 0), 1: (0, 0), 4: (2, 0), 7: (0, 2), 9: (1, 0)}
    found = gaps(causes(tmp_path, reported, [0, 1, 2, 3, 4, 7, 9]))
    assert found["link_pkts"].tolist() == [2, 0, 0]
    assert found["congestion_pkts"].tolist() == [0, 2, 1]
    counted = matrix(found)
    assert counted["link_as_link_pkts"] == 2
    assert counted["congestion_as_congestion_pkts"] == 2
    assert counted["congestion_as_link_pkts"] == 1
    assert counted["link_as_congestion_pkts"] == 0
    assert counted["untold_pkts"] == 0
    assert counted["right_ratio"] == pytest.approx(4 / 5)


def test_in_a_gap_of_both_causes_numbers_count(tmp_path: Path) -> None:
    counted = matrix(gaps(causes(tmp_path, {0: (0, 0), 5: (3, 1), 7: (0, 0)}, [0, 1, 2, 5, 7])))
    assert counted["link_as_link_pkts"] == 2
    assert counted["congestion_as_congestion_pkts"] == 1
    assert counted["congestion_as_link_pkts"] == 1
    assert counted["untold_pkts"] == 1
    assert counted["right_ratio"] == pytest.approx(3 / 5)


def test_nothing_lost_is_neither_right_nor_wrong(tmp_path: Path) -> None:
    counted = matrix(gaps(causes(tmp_path, {0: (0, 0), 1: (0, 0)}, [0, 1])))
    assert counted["untold_pkts"] == 0
    assert counted["right_ratio"] != counted["right_ratio"]
