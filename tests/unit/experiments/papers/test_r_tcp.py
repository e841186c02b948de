"""R-TCP's experiments: plans and results."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import numpy as np
import pandas as pd
import pytest

from experiments.events import SetLink
from experiments.papers.estimates import IN_RUN
from experiments.papers.paper import Findings, Runs, Size, findings, table_of
from experiments.papers.r_tcp import fairness as r_tcp_fairness
from experiments.papers.r_tcp import lift as r_tcp_lift
from experiments.papers.r_tcp import transfers as r_tcp_transfers
from experiments.papers.r_tcp.download import LARGEST, MB, claims, downloads
from experiments.papers.r_tcp.lift import LIFTED_S, lifted, lifts
from experiments.papers.r_tcp.operators import LIMITED, OPERATORS, download, limit_of, side_by_side
from experiments.papers.r_tcp.paper import PAPER
from experiments.papers.r_tcp.runs import (
    LIMITED_BY,
    VARIANTS,
    conditions,
    in_order,
    name_of,
    pairs_of,
    transfers,
)
from experiments.papers.r_tcp.transfers import IDLE_S, twice
from experiments.papers.r_tcp.tuning import ETAS, GAMMAS, WAITS_PKTS
from experiments.papers.variants import KERNEL
from experiments.results import Result
from experiments.scenario import Scenario
from experiments.sweep import PlannedRun, planned
from experiments.traffic.spec import Http
from tests.unit.experiments.papers import fakes

FULL, QUICK = Size(repeats=1), Size(quick=True, repeats=1)
OWN_PARTS = ["download", "download-32mb", "errors", "stateful", "multi", "concurrent"]
OWN_PARTS += ["bdp", "lift", "tuning", "fairness"]


def runs_of(part: str, size: Size) -> list[PlannedRun]:
    return [one for grid in PAPER.parts[part].grids(size) for one in planned(grid)]


def test_operators_are_table_1() -> None:
    assert LIMITED == ("op1", "op2", "op3")
    rates = [OPERATORS[name].rate_bytes_per_s * 8e-6 for name in LIMITED]
    assert rates == pytest.approx([2.07, 1.3, 1.04])
    assert [OPERATORS[name].rtt_us for name in LIMITED] == [36_000, 18_000, 21_000]
    assert [OPERATORS[name].limiter(1) for name in ("op4", "op5", "op4m")] == [None] * 3


@pytest.mark.parametrize("name", LIMITED)
def test_limiters_vary_as_the_table_says(name: str) -> None:
    operator = OPERATORS[name]
    drawn = [operator.limiter(number) for number in range(300)]
    assert drawn == [operator.limiter(number) for number in range(300)]
    sizes = np.array([one.bucket_bytes for one in drawn if one is not None])
    assert operator.bucket_bytes is not None
    assert np.median(sizes) == pytest.approx(operator.bucket_bytes, rel=0.05)
    assert sizes.std() == pytest.approx(operator.bucket_std_bytes, rel=0.3)
    assert abs(sizes - operator.bucket_bytes).max() <= 2 * operator.bucket_std_bytes + 1


def test_a_link_varies_as_the_paper_says() -> None:
    events = OPERATORS["op4m"].pair(1, [], 2000.0).events
    rates = np.array([event.fields["rate_bytes_per_s"] for event in events])
    assert rates.mean() == pytest.approx(OPERATORS["op4m"].link_bytes_per_s, rel=0.1)
    assert rates.std() / rates.mean() == pytest.approx(0.39, abs=0.06)
    assert np.corrcoef(rates[1:], rates[:-1])[0, 1] > 0.6
    assert OPERATORS["op5"].pair(1, [], 10.0).events == ()


def test_pairs_share_nothing() -> None:
    pairs = [OPERATORS[name].pair(1, [download(name, KERNEL, MB)], 5.0) for name in ("op1", "op4")]
    scenario = side_by_side("two", pairs, 5.0)
    scenario.validate()
    assert [(flow.sender, flow.receiver) for flow in scenario.flows] == [("s1", "r1"), ("s2", "r2")]
    assert {event.link for event in scenario.events if isinstance(event, SetLink)} == {"path2>"}
    limits = [limit_of(scenario, flow) for flow in scenario.flows]
    assert limits[1] is None
    assert limits[0] is not None
    assert limits[0][1] == pytest.approx(258_750 * 1448 / 1500, rel=0.01)


@pytest.mark.parametrize("part", OWN_PARTS)
@pytest.mark.parametrize("size", [FULL, QUICK], ids=["full", "quick"])
def test_flows_of_all_parts_have_the_time_that_their_limiter_takes(part: str, size: Size) -> None:
    for run in runs_of(part, size):
        for flow in run.scenario.flows:
            assert isinstance(flow.traffic, Http)
            limit = limit_of(run.scenario, flow)
            if limit is not None and flow.stop_s is None:
                needed_s = sum(flow.traffic.objects) * flow.traffic.repeat / limit[1]
                assert run.scenario.duration_s - flow.start_s > needed_s


@pytest.mark.parametrize("part", ["download", "download-32mb"])
def test_what_is_compared_has_the_same_limiter_and_is_run_at_once(part: str) -> None:
    for run in runs_of(part, Size(repeats=2)):
        cells: dict[tuple[str, ...], set[Any]] = {}
        for flow in run.scenario.flows:
            operator, number, _ = flow.name.split("-")
            cells.setdefault((operator, number), set()).add((flow.algorithm, limit_of(run.scenario, flow)))
        assert set(cells) == {(operator, str(run.scenario.seed)) for operator in LIMITED}
        for found in cells.values():
            assert {algorithm for algorithm, _ in found} == set(VARIANTS)
            assert len({limit for _, limit in found}) == 1


def test_all_sizes_of_figure_6_are_downloaded() -> None:
    runs = runs_of("download", FULL) + runs_of("download-32mb", FULL)
    sizes = {flow.traffic.objects[0] for run in runs for flow in run.scenario.flows}
    assert sizes == {MB // 2, MB, 2 * MB, 4 * MB, 8 * MB, 16 * MB, 32 * MB}
    assert LARGEST == 32 * MB


def test_a_second_connection_comes_five_seconds_later() -> None:
    for flow in twice("twice", MB, [1]).flows:
        assert flow.traffic == Http(objects=(MB, MB), gaps_s=(IDLE_S,), persistent=False)


def test_limits_end_after_20_s_of_each_flow_and_in_each_repeat_at_another_time() -> None:
    times_s = []
    for number in (1, 2):
        scenario = lifted("lifted", VARIANTS, [number])
        scenario.validate()
        for flow, event in zip(scenario.flows, scenario.events, strict=True):
            assert isinstance(event, SetLink)
            times_s.append(round(event.at_s - flow.start_s, 6))
            assert event.fields["token_bucket"]["rate_bytes_per_s"] == 5_000_000
    assert len(set(times_s)) == 2
    assert all(LIFTED_S <= time_s <= LIFTED_S + 2 for time_s in times_s)


def test_all_of_tables_6_and_7_is_run() -> None:
    params = [run.scenario.flows[0].params for run in runs_of("tuning", FULL)]
    found = {(one["probe_every_rounds"], one["probe_gain_ratio"], one["probe_every_pkts"]) for one in params}
    assert found == {(eta, gamma, pkts) for eta in ETAS for gamma in GAMMAS for pkts in WAITS_PKTS}
    assert WAITS_PKTS == (0, 200)


def result_of(scenario: Scenario, limits: pd.DataFrame | None = None, connections: int = 1) -> Result:
    """A made-up result: goodput is 1 Mbit/s, a tenth of the bytes is retransmitted."""
    without = fakes.result_of(scenario, {flow.name: 125_000.0 for flow in scenario.flows})
    objects = [
        (flow.name, 0, number, size, size / 125_000)
        for flow in scenario.flows
        if isinstance(flow.traffic, Http)
        for number, size in enumerate(flow.traffic.objects)
    ]
    samples = without.connection_samples
    names = ["flows", "flow_samples", "events", "rate_limits"]
    frames = {name: without.table(name) for name in names}
    frames["connection_samples"] = pd.concat([samples.assign(connection=i) for i in range(connections)])
    frames["objects"] = pd.DataFrame(
        objects, columns=["flow", "connection", "number", "size_bytes", "completion_s"]
    )
    if limits is not None:
        frames["rate_limits"] = limits
    return Result(None, without.metadata, frames.__getitem__, scenario.to_yaml())


def limits_of(scenario: Scenario, *states: tuple[float, str]) -> pd.DataFrame:
    """Verdicts of every client at some times since its flow's start."""
    found = []
    for flow in scenario.flows:
        bucket_bytes, rate_bytes_per_s = limit_of(scenario, flow)  # type: ignore[misc]
        limit = flow.sender, flow.receiver, 0.9 * bucket_bytes, 1.1 * rate_bytes_per_s
        found += [(flow.start_s + at_s, *limit, state) for at_s, state in states]
    columns = ["t_s", "sender", "receiver", "bucket_bytes", "rate_bytes_per_s", "state"]
    return pd.DataFrame(found, columns=columns)


def without_limits(scenario: Scenario, made: Result, ends_s: list[float]) -> Result:
    """The result with events that take each flow's limit away at one of these times."""
    links = [f'{{"link": "path{number}>"}}' for number in range(1, 1 + len(ends_s))]
    events = pd.DataFrame({"t_s": ends_s, "kind": "set_link", "detail": links})
    tables = {name: made.table(name) for name in ("flow_samples", "rate_limits", "flows")} | {
        "events": events
    }
    return Result(None, made.metadata, tables.__getitem__, scenario.to_yaml())


def test_a_row_has_what_became_of_a_flow() -> None:
    scenario = downloads("one", MB, [1], operators=("op3",), algorithms=("rtcp/cubic",))
    row = transfers(result_of(scenario, limits_of(scenario, (0.5, "capped"), (0.9, "probing")))).iloc[0]
    assert (row["operator"], row["number"], row["algorithm"]) == ("op3", 1, "rtcp/cubic")
    assert row["retrans_pct"] == pytest.approx(10)
    assert row["goodput_bytes_per_s"] == pytest.approx(125_000)
    assert (row["bucket_error_pct"], row["rate_error_pct"]) == (pytest.approx(-10), pytest.approx(10))
    assert row["limited_ratio"] == 1
    assert row["limited_s"] == pytest.approx(0.5)
    missed = transfers(result_of(scenario)).iloc[0]
    assert missed["limited_ratio"] == 0
    assert np.isnan(missed["rate_error_pct"])


def rows(fewer: float, goodput: float = 1.0) -> pd.DataFrame:
    """Downloads of each operator with ten percent retransmitted, and fewer of it under R-TCP."""
    cells = itertools.product(LIMITED, range(6), VARIANTS)
    table = pd.DataFrame(cells, columns=["operator", "number", "algorithm"]).assign(size_bytes=LARGEST)
    under = ~table["algorithm"].isin(list(LIMITED_BY))
    table["retrans_pct"] = np.where(under, 10.0 * (1 - fewer), 10.0)
    table["goodput_bytes_per_s"] = np.where(under, 1e5 * goodput, 1e5)
    return table.assign(**{IN_RUN: table["number"]})


@pytest.mark.parametrize(
    ("fewer", "goodput", "verdicts"),
    [
        (0.81, 1.0, ["holds"] * 9),
        (0.7, 1.0, ["holds"] * 2 + ["fails"] * 4 + ["holds"] * 3),
        (0.81, 0.9, ["holds"] * 6 + ["fails"] * 3),
    ],
)
def test_what_must_show_of_32_mb(fewer: float, goodput: float, verdicts: list[str]) -> None:
    checks = claims(rows(fewer, goodput))
    assert [check.verdict for check in checks] == verdicts
    assert checks[0].found.value == pytest.approx(fewer)


def test_a_mean_of_shares_is_not_the_share_of_means() -> None:
    table = rows(0.9)
    bad = (table["operator"] == LIMITED[0]) & table["algorithm"].isin(LIMITED_BY.values())
    table.loc[bad, "retrans_pct"] = 4.0  # 0.6 avoided
    table.loc[table["operator"] == LIMITED[1], "retrans_pct"] *= 3
    mean_of_shares, share_of_means = (check.found.value for check in claims(table)[:2])
    assert mean_of_shares == pytest.approx((0.6 + 0.9 + 0.9) / 3)
    assert share_of_means == pytest.approx(1 - (4 + 3 + 1) / (10 + 30 + 10))


def test_pairs_are_those_with_the_same_limiter() -> None:
    table = rows(0.5).sample(frac=1, random_state=1)
    for _, both in pairs_of(table, "retrans_pct"):
        assert len(both) == 18
        assert set(both["under"] / both["without"]) == {0.5}
    assert [*in_order(table, "operator")["algorithm"][:12:6]] == [VARIANTS[0], VARIANTS[1]]


def test_connections_are_reported_apart() -> None:
    scenario = twice("twice", MB, [1])
    found = r_tcp_transfers.connections(result_of(scenario, connections=2))
    assert len(found) == 2 * len(VARIANTS)
    assert set(found["connection"]) == {1, 2}
    assert set(found["size_bytes"]) == {MB}
    check = r_tcp_transfers.claim_of_state(found[found["connection"] == 2])
    assert check.found.value == pytest.approx(0)
    assert check.verdict == "undecided", "one run"


def test_the_end_of_a_limit_counts_from_when_it_ended() -> None:
    scenario = lifted("lifted", ("rtcp/bbr",), [1])
    ends_s = [event.at_s for event in scenario.events]
    limits = limits_of(scenario, (1.0, "capped"), (19.0, "probing"), (ends_s[0] + 1.5, "gone"))
    found = lifts(without_limits(scenario, result_of(scenario, limits), ends_s))
    assert found["loss_ratio"].tolist() == [0.0, 0.02]
    assert found["limited_ratio"].tolist() == [1.0, 1.0]
    assert found["gone_s"].tolist() == pytest.approx([1.5, 1.5])
    assert found["after_bytes_per_s"].tolist() == pytest.approx([125_000] * 2, rel=0.8)
    assert found["fast_s"].isna().all()
    checks = r_tcp_lift.claims(found)
    assert [check.found.value for check in checks][::2] == pytest.approx([1.5, 1.5])


def test_longer_paths_are_compared_with_shorter_ones() -> None:
    part = PAPER.parts["bdp"]
    results = [result_of(one.scenario) for one in runs_of("bdp", Size(repeats=1))]
    assert part.compared is not None
    table = part.compared(Runs(results, table_of(results, conditions), len(results)))
    assert [test.check(table).found.value for test in part.comparisons] == pytest.approx([1.0] * 9)


def test_one_that_is_never_found_gone_is_late() -> None:
    table = pd.DataFrame({"algorithm": "rtcp/bbr", "loss_ratio": 0.0, "gone_s": [np.nan] * 6})
    assert r_tcp_lift.claims(table)[0].verdict == "fails"


def test_shares_are_those_of_two_flows_to_one_client() -> None:
    scenario = r_tcp_fairness.joined("joined", [1])
    found = r_tcp_fairness.shares(result_of(scenario))
    assert len(found) == len(r_tcp_fairness.ORDERS)
    assert found["share_of_first_ratio"].tolist() == pytest.approx([0.5] * len(found), abs=0.01)


@pytest.mark.parametrize("part", OWN_PARTS)
def test_every_part_makes_tables_and_figures_of_its_runs(part: str) -> None:
    size = Size(quick=True, repeats=1)
    results = []
    for one in runs_of(part, size):
        limits = limits_of(one.scenario, (1.0, "capped"), (20.5, "gone"))
        made = result_of(one.scenario, limits, connections=2 if part == "stateful" else 1)
        if part == "lift":
            made = without_limits(one.scenario, made, [flow.start_s + 20 for flow in one.scenario.flows])
        made.axes, made.repeat = one.axes, one.repeat
        results.append(made)
    found = findings(PAPER.parts[part], Runs(results, table_of(results, conditions), len(results)))
    assert isinstance(found, Findings)
    assert found.tables
    assert found.figures
    for table in found.tables:
        assert table.screen().row_count == len(table.rows) > 0


def test_names_of_flows_say_what_they_are() -> None:
    assert name_of("op1", 3, "rtcp/cubic", 1) == "op1-3-rtcp_cubic-1"
    far = dataclasses.replace(OPERATORS["op1"], name="rtt200", rtt_us=200_000)
    assert far.pair(1, [], 0.0).forward.delay_us == 100_000
