"""Telemetry against the emulator's own figures, and the causes of losses."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.papers.int_adaptive.chain import OURS, chain, losing, seen, way_us
from experiments.papers.int_adaptive.truth import accuracy, comparison, gaps, matrix, told_and_true
from experiments.papers.variants import steered
from experiments.results import Result
from experiments.runs.grid import changed
from tests.unit.experiments.papers.int_fakes import (
    ARRIVAL_PKTS_PER_S,
    QUEUE_PKTS,
    capture,
    records,
    result_of,
)


@pytest.fixture
def result() -> Result:
    scenario = chain("x", 9, flows=2)
    return result_of(changed(scenario, {"flows.flow2.start_s": 3.5}))


def test_a_node_s_telemetry_is_beside_the_flows(result: Result) -> None:
    own = seen(result, "ap2")
    assert set(own["flow"]) == {"flow1", "flow2"}
    assert own["link_lost_pkts"].sum() == own["lost_pkts"].sum() > 0
    assert own["t_s"].is_monotonic_increasing
    assert set(own["node"]) == {"ap2"}


def test_the_way_is_of_the_links_ahead(result: Result) -> None:
    assert way_us(result, "ap2") == 1_000 + 240
    assert way_us(result, "ap1") == 3_000 + 600 + 1_240


def test_what_agrees_has_no_error(result: Result) -> None:
    found = comparison(result)
    means = found.groupby("quantity")["true"].mean()
    assert means["queue_depth"] == pytest.approx(QUEUE_PKTS)
    assert means["arrival_rate"] == pytest.approx(ARRIVAL_PKTS_PER_S)
    assert found.loc[found["quantity"] == "link_loss", "error_ratio"].max() < 0.02
    assert max(accuracy(result).values()) < 0.02


def test_windows_in_which_flows_change_are_left_out(result: Result) -> None:
    found = comparison(result)
    counts = found[(found["quantity"] == "flow_count") & (found["flow"] == "flow1")]
    assert dict(zip(counts["t_s"], counts["true"], strict=True)) == {1.0: 1, 5.0: 2}


def test_what_disagrees_is_an_error(result: Result) -> None:
    hops = result.int_hops.assign(
        queue_depth_pkts=1.1 * QUEUE_PKTS, flow_count=3, lost_pkts=result.int_hops["lost_pkts"] * 2
    )
    wrong = result_of(result.scenario, int_hops=hops, int_summaries=result.int_summaries)
    errors = accuracy(wrong)
    assert errors["queue_depth_error_p50_ratio"] == pytest.approx(0.1)
    assert errors["flow_count_error_p95_ratio"] > 0.5
    assert errors["link_loss_error_p50_ratio"] == pytest.approx(1, abs=0.02)
    assert errors["arrival_rate_error_p95_ratio"] < 0.02


def test_the_truth_is_taken_when_the_packets_met_the_node(result: Result) -> None:
    behind_s = (600 * QUEUE_PKTS + way_us(result, "ap1")) / 1e6
    links = result.link_samples.copy()
    links.loc[links["t_s"] < 1.0 - behind_s, "queue_pkts"] = 50  # before the first window
    moved = result_of(result.scenario, link_samples=links)
    assert comparison(moved)["error_ratio"].max() < 0.02


def test_both_are_drawn_on_one_clock(result: Result) -> None:
    both = told_and_true(result, "flow1")
    assert set(both["flow"]) == {"telemetry", "emulator"}
    steady = both[both["t_s"].between(1, 5)].groupby("flow")
    assert steady["queue_depth_pkts"].mean()["telemetry"] == pytest.approx(QUEUE_PKTS, rel=0.01)
    assert steady["arrival_pkts_per_s"].mean()["emulator"] == pytest.approx(ARRIVAL_PKTS_PER_S)


# --- causes ------------------------------------------------------------------------------------------------


def causes(tmp_path: Path, told: dict[int, tuple[int, int]], behind_the_bottleneck: list[int]) -> Result:
    capture(tmp_path, behind_the_bottleneck)
    scenario = changed(chain("x", 1), {**losing(0.01), **steered(OURS, wireless_loss="keep")})
    return result_of(scenario, tmp_path, int_records=records(told))


def test_what_left_the_bottleneck_and_did_not_arrive_was_lost_on_air(tmp_path: Path) -> None:
    told = {0: (0, 0), 1: (0, 0), 4: (2, 0), 7: (0, 2), 9: (1, 0)}
    found = gaps(causes(tmp_path, told, [0, 1, 2, 3, 4, 7, 9]))
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
