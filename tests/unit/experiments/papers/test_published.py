"""Published results of others: plans and results."""

from __future__ import annotations

from functools import cache

import pytest

from experiments.papers.claims import OTHERS, PAPERS, paper_of
from experiments.papers.paper import Size
from experiments.papers.published import paper as published
from experiments.papers.published.claims import BBR, BUFFERS_BDP, RENO
from experiments.papers.published.paper import PAPER
from experiments.papers.two_flows import PAYLOAD_SHARE
from experiments.papers.variants import KERNEL
from experiments.sweep import PlannedRun, planned
from experiments.theory import bbr_share, mathis_pkts, padhye_pkts_per_s
from tests.unit.experiments.papers.fakes import result_of

LOSS = "topology.bottleneck.loss.ratio"
LINK = 12.5e6 * PAYLOAD_SHARE


@cache
def runs_of(part: str) -> list[PlannedRun]:
    return [one for grid in PAPER.parts[part].grids(Size(repeats=1)) for one in planned(grid)]


def test_they_are_none_of_the_papers_and_have_claims_like_them() -> None:
    assert not set(OTHERS) & set(PAPERS)
    assert paper_of("published") is PAPER
    for claim in PAPER.claims:
        assert claim.part in PAPER.parts
        assert claim.tests


def test_conditions_are_those_that_were_published() -> None:
    for run in runs_of("loss"):
        link = run.scenario.topology.bottleneck
        assert (link.rate_bytes_per_s * 8, 2 * link.delay_us) == (100e6, 100_000)
        assert run.scenario.duration_s == 60
    (converge,) = runs_of("converge")
    assert [flow.start_s for flow in converge.scenario.flows] == [0, 2, 4, 6, 8]
    assert {flow.algorithm for flow in converge.scenario.flows} == {BBR}
    shares = runs_of("share")
    alone = [run.scenario.topology.bottleneck.buffer.bdp for run in shares if len(run.scenario.flows) == 2]
    assert alone == list(BUFFERS_BDP)
    for run in shares:
        first, *others = run.scenario.flows
        assert (first.algorithm, {flow.algorithm for flow in others}) == (BBR, {KERNEL})


def test_what_the_link_delivers_is_what_is_not_lost() -> None:
    run = next(one for one in runs_of("loss") if one.axes[LOSS] == 0.1)
    result = result_of(run.scenario, {"flow1": 0.45 * LINK})
    result.axes = run.axes
    row = published._loss_row(result)
    assert row["share_of_link_ratio"] == pytest.approx(0.45)
    assert row["share_of_delivered_ratio"] == pytest.approx(0.5)


@pytest.mark.parametrize(("variant", "ratios"), [(RENO, 2), (KERNEL, 1)])
def test_goodput_is_compared_with_what_formulas_leave_of_what_is_sent(variant: str, ratios: int) -> None:
    run = next(one for one in runs_of("formulas") if one.axes == {LOSS: 0.01, "variant": variant})
    result = result_of(run.scenario, {"flow1": 1448 * 0.99 * mathis_pkts(0.01) / 0.05})
    result.axes = run.axes
    row = PAPER.parts["formulas"].row(result)
    assert len([name for name in row if name.startswith("by_")]) == ratios
    assert row.get("by_mathis_ratio", 1) == pytest.approx(1)


def test_timeouts_make_the_formula_of_padhye_slower() -> None:
    assert padhye_pkts_per_s(1e-6, 0.1, 0.3) == pytest.approx((1.5e6) ** 0.5 / 0.1, rel=2e-3)
    # 0.1 s sqrt(0.02 / 3) + 0.3 s * 3 sqrt(0.03 / 8) * 0.01 * 1.0032
    assert padhye_pkts_per_s(0.01, 0.1, 0.3) == pytest.approx(1 / (0.0081650 + 0.00055288), rel=1e-3)


def test_a_share_is_compared_with_the_models() -> None:
    run = next(one for one in runs_of("share") if len(one.scenario.flows) == 5)
    result = result_of(run.scenario, {"flow1": 4e5} | {f"flow{n}": 1.5e5 for n in range(2, 6)})
    result.axes = run.axes
    row = published._share_row(result)
    assert (row["others"], row["buffer.bdp"]) == (4, 8)
    assert row["share_of_link_ratio"] == pytest.approx(0.4)
    assert row["by_model_ratio"] == pytest.approx(0.4 / bbr_share(8, 33.3, 0.04), rel=1e-3)


@pytest.mark.parametrize(
    ("bdp", "n_bbr", "share"),
    [
        (1, 1, 0.972),  # the others' share would be negative
        (2, 1, 0.7841),  # 1/2 - 1/4 - 4/67 = 0.19, and 3.2 % of the time is spent probing
        (32, 1, 0.4404),
        (32, 8, 0.4626),
    ],
)  # fmt: skip
def test_the_model_is_that_of_the_equations(bdp: float, n_bbr: int, share: float) -> None:
    assert bbr_share(bdp, 33.33, 0.04, n_bbr) == pytest.approx(share, rel=2e-3)
