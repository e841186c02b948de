"""The paper's rule as a part and a row of its own."""

from __future__ import annotations

import pytest

from experiments.papers.comparisons import LITERAL
from experiments.papers.hyvar.paper import PAPER as HYVAR
from experiments.papers.hyvar.runs import CLAIMED, SLIDES_PARAMS
from experiments.papers.literal import with_params
from experiments.papers.paper import Paper, Size, grids_of
from experiments.papers.r_tcp.claims import LIMITED_BY
from experiments.papers.r_tcp.paper import PAPER as R_TCP
from experiments.papers.variants import KERNEL, steered
from experiments.runs.shapes import Dumbbell
from experiments.scenario import FlowSpec, Scenario
from experiments.sweep import Grid, planned

ADDED = {"hyvar": {"trains": False, "loss_price": 0.0}}


def flows_of(paper: Paper, part: str) -> list[FlowSpec]:
    size = Size(quick=True, repeats=1)
    grids = grids_of(paper.parts[part], size)
    return [flow for grid in grids for one in planned(grid) for flow in one.scenario.flows]


def test_flows_and_points_of_an_algorithm_have_the_parameters() -> None:
    flows = tuple(FlowSpec(name, "s1", "r1", name) for name in ("hyvar", "cubic"))
    base = Scenario(name="two", topology=Dumbbell(pairs=1, bottleneck=CLAIMED), flows=flows, duration_s=1.0)
    points = {
        "as it is": {"duration_s": 2.0},
        "hyvar": steered("hyvar", mtp_ms=10.0),
        "own": steered("hyvar", "cubic", trains=True),
        "kernel": steered(KERNEL),
    }
    grid = with_params(Grid(base, {"variant": points, "seed": [1]}), ADDED)
    of = {
        one.axes["variant"]: {flow.name: (flow.algorithm, flow.params) for flow in one.scenario.flows}
        for one in planned(grid)
    }
    assert of == {
        "as it is": {"hyvar": ("hyvar", ADDED["hyvar"]), "cubic": ("cubic", {})},
        "hyvar": dict.fromkeys(("hyvar", "cubic"), ("hyvar", {**ADDED["hyvar"], "mtp_ms": 10.0})),
        "own": {
            "hyvar": ("hyvar", ADDED["hyvar"]),
            "cubic": ("hyvar", {**ADDED["hyvar"], "trains": True}),
        },
        "kernel": dict.fromkeys(("hyvar", "cubic"), (KERNEL, {})),
    }


@pytest.mark.parametrize("paper", [HYVAR, R_TCP], ids=lambda paper: paper.name)
def test_both_parts_run_the_same_flows_but_for_the_parameters(paper: Paper) -> None:
    params = (
        SLIDES_PARAMS if paper is HYVAR else {one: {"probe_every_pkts": 0} for one in LIMITED_BY.values()}
    )
    parts = [name for name in paper.parts if name.endswith(LITERAL)]
    assert parts
    for name in parts:
        for own, papers in zip(
            flows_of(paper, name.removesuffix(LITERAL)), flows_of(paper, name), strict=True
        ):
            assert (own.name, own.algorithm) == (papers.name, papers.algorithm)
            assert papers.params == {**params.get(own.algorithm, {}), **own.params}


@pytest.mark.parametrize("paper", [HYVAR, R_TCP], ids=lambda paper: paper.name)
def test_each_literal_row_has_a_row_by_ccplanes_rule_and_a_part(paper: Paper) -> None:
    literal = [claim for claim in paper.claims if (claim.part or "").endswith(LITERAL)]
    assert literal
    for claim in literal:
        (own,) = [
            one
            for one in paper.claims
            if one.rule and (one.source, one.says, one.names) == (claim.source, claim.says, claim.names)
        ]
        assert not claim.rule
        assert claim.part == f"{own.part}{LITERAL}"
        assert claim.part in paper.parts
        assert claim.bars == own.bars
