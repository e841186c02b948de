"""R-TCP's detector and the baselines on recorded ACKs: plans and results."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from experiments.netlab.spec import Bernoulli
from experiments.papers.estimates import IN_RUN
from experiments.papers.paper import Runs, Size, findings
from experiments.papers.r_tcp import false as r_tcp_false
from experiments.papers.r_tcp import grid as r_tcp_grid
from experiments.papers.r_tcp import patterns as r_tcp_patterns
from experiments.papers.r_tcp import traces as r_tcp_traces
from experiments.papers.r_tcp.acks import DETECTORS, R_TCP, connections, together
from experiments.papers.r_tcp.baselines import Ack
from experiments.papers.r_tcp.sensitivity import GREEK, VALUES, errors_by_option, figure_18
from experiments.results import Result
from experiments.run import run
from experiments.scenario import Scenario
from experiments.units import MBIT


def played(scenario: Scenario, directory: Path) -> Result:
    return run(scenario.replace(datapath="sim"), directory / "run")


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """Transfers in operators 1 and 5, over both congestion controls."""
    scenario = r_tcp_traces.transfers(("op1", "op5"), range(1), 8)
    result = played(scenario, tmp_path_factory.mktemp("traces"))
    return Runs([result], pd.DataFrame(), 1)


def test_every_detector_judges_every_transfer(limited: Runs) -> None:
    found = limited.rows(r_tcp_traces.verdicts)
    assert len(found) == 4 * len(DETECTORS)
    own = found[found["detector"] == R_TCP].set_index("flow")
    assert (own["wrong_ratio"] == 0).all()
    assert own.loc["op1-bbr-0", "rate_error_ratio"] < 0.02
    assert own["rate_error_ratio"].isna().tolist() == [False, False, True, True]
    checks = r_tcp_traces.claims(found)
    assert [check.found.value for check in checks][:2] == [0, 0]
    assert [check.verdict for check in checks] == ["undecided"] * 3, "one run"


def test_the_traces_come_to_the_papers_tables_and_figure(limited: Runs) -> None:
    found = findings(r_tcp_traces.TRACES, limited)
    assert [table.title[:8] for table in found.tables] == ["Table 8:", "Table 9:", "Figure 1"]
    assert {"table-8", "fig18-alpha", "fig18-omega-bucket"} <= set(found.figures)


def test_what_is_recorded_is_read_in_order(limited: Runs) -> None:
    (acks,) = connections(limited.results[0], "op1-cubic-0")
    assert acks[0].start
    assert acks[0].delivered_pkts == 0
    assert acks[-1].delivered_pkts > 1000
    assert [one.time_us for one in acks] == sorted(one.time_us for one in acks)
    assert 36_000 <= acks[-1].min_rtt_us < 40_000


def test_each_parameter_is_tried_with_the_papers_values(limited: Runs) -> None:
    found = limited.rows(errors_by_option)
    assert len(found) == 4 * sum(len(values) for values in VALUES.values())
    theta = found[(found["option"] == "theta") & (found["value"] == 0.6)]
    assert theta["wrong_ratio"].mean() == 0
    assert set(figure_18(found)) == {*(f"fig18-{name}" for name in GREEK.values()), "fig18-omega-bucket"}


def test_the_grid_has_a_limiter_for_each_size_and_rate(tmp_path: Path) -> None:
    scenario = r_tcp_grid.transfers((4, 1000), (1.0, 20.0), "bbr", 8, seed=1)
    found = r_tcp_grid.estimates(played(scenario, tmp_path)).assign(**{IN_RUN: 0})
    found = found.set_index(["bucket_bytes", "rate_bytes_per_s"])
    assert found.loc[(4_000, 20.0 * MBIT), "wrong_ratio"] == 1
    assert found.loc[(1_000_000, 1.0 * MBIT), "wrong_ratio"] == 0
    found = found.loc[[1_000_000]]
    missed, worst = r_tcp_grid.claims(found.reset_index())
    assert missed.found.value == 0
    assert worst.found.value == found.loc[(1_000_000, 1.0 * MBIT), "rate_error_ratio"]


def test_the_grid_of_the_paper_is_planned() -> None:
    grids = r_tcp_grid.GRID.grids(Size())
    assert len(grids) == 10 * len(r_tcp_grid.VARIANTS)
    capped = [all("observe" not in flow.params for flow in grid.base.flows) for grid in grids]
    assert capped == [grid.title.removeprefix("full-").count("capped") == 1 for grid in grids]
    limiters = {one.forward.token_bucket for grid in grids for one in grid.base.network.links} - {None}
    assert len(limiters) == len(r_tcp_grid.BUCKETS_KB) * len(r_tcp_grid.RATES_MBIT)


def test_the_same_transfers_are_run_with_r_tcp_acting_on_what_it_finds() -> None:
    watching, acting = (
        [flow for grid in part.grids(Size()) for flow in grid.base.flows]
        for part in (r_tcp_false.FALSE_POSITIVES, r_tcp_false.CLOSED_LOOP)
    )
    assert [flow.name for flow in acting] == [flow.name for flow in watching]
    assert {flow.params.get("observe") for flow in watching} == {True}
    assert {tuple(flow.params) for flow in acting} == {()}


def test_two_hundred_transfers_are_planned_and_none_is_limited(tmp_path: Path) -> None:
    grids = r_tcp_false.FALSE_POSITIVES.grids(Size())
    flows = [flow for grid in grids for flow in grid.base.flows]
    links = [one for grid in grids for one in grid.base.network.links]
    assert len({flow.name for flow in flows}) == r_tcp_false.TRANSFERS
    assert all(one.forward.token_bucket is None for one in links)
    lossy = {one.forward.loss.ratio for one in links if isinstance(one.forward.loss, Bernoulli)}
    assert max(lossy) == 0.02
    found = r_tcp_false.verdicts(played(r_tcp_false.transfers(range(4), 4), tmp_path))
    assert len(found) == 4 * len(DETECTORS)
    assert {"cubic", "bbr"} == set(found["cca"])
    (claim,) = r_tcp_false.claims(found)
    assert claim.found.value == 0


def test_rtcp_is_judged_by_clients_and_others_by_connections(tmp_path: Path) -> None:
    scenario = r_tcp_patterns.clients(r_tcp_patterns.CONCURRENT, ("op1",), range(1)).replace(duration_s=8)
    found = r_tcp_patterns.verdicts(played(scenario, tmp_path))
    assert found["detector"].value_counts().to_dict() == {R_TCP: 2, **dict.fromkeys(DETECTORS[1:], 6)}
    own = found[found["detector"] == R_TCP]
    assert own["found_ratio"].tolist() == [1, 1]
    assert own["rate_error_ratio"].tolist() == pytest.approx([0, 0], abs=0.05)
    assert own["reported_ratio"].tolist() == [1, 1]
    claims = {check.claim: check.found.value for check in r_tcp_patterns.claims(found)}
    assert claims["concurrent: share of limits that r-tcp reported during the run"] == 1
    assert claims["concurrent: share of limits that r-tcp found with a rate within 10 %"] == 1


def test_a_connection_is_idle_from_the_ack_before_a_start_on() -> None:
    def transfer(at_us: int, delivered_pkts: int) -> list[Ack]:
        first = Ack(True, at_us, delivered_pkts, 0, 100, 100, False, 0)
        return [first, first._replace(start=False, time_us=at_us + 1000, delivered_pkts=delivered_pkts + 1)]

    lone = together([transfer(0, 0) + transfer(5000, 1)])
    assert lone.started_at_us == 5000
    # The other connection is still busy when the first one starts again.
    both = together([transfer(0, 0) + transfer(5000, 1), [transfer(500, 0)[0], transfer(5500, 9)[1]]])
    assert both.started_at_us == 0
