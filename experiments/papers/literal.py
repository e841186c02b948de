"""The paper's rule where ccplane has another: the same claim, with the paper's parameters.

A claim that ccplane's rule may change is two rows. If a few points of its part need the paper's parameters,
one part has both kinds of runs (`in_one_part`). If all do, the part is two parts (`literal`, `in_two_parts`);
the one with the paper's parameters has `LITERAL` after its name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from experiments.events import ParamValue
from experiments.papers.comparisons import LITERAL, Claim, Comparison
from experiments.papers.paper import Part, Size
from experiments.scenario import FlowSpec
from experiments.sweep import Grid

Params = Mapping[str, Mapping[str, ParamValue]]
"""Algorithm -> the paper's parameters."""


def in_one_part(claim: Claim, rule: str, why: str, literal: Sequence[Comparison]) -> tuple[Claim, Claim]:
    """Return the claim with the paper's rule, and with ccplane's, of runs of one part.

    Args:
        claim: The claim with the tests of ccplane's rule.
        rule: That rule.
        why: What the paper's rule is, if that explains the verdict.
        literal: Tests of the paper's rule.
    """
    paper = replace(
        claim, tests=literal, checks=(), how="", why=why, bars={}, measures="", readings=False, tuned=None
    )
    return paper, replace(claim, rule=rule)


def in_two_parts(rule: str, *claims: Claim) -> list[Claim]:
    """Return each claim with the paper's rule, of the part with `LITERAL`, and with ccplane's.

    Args:
        rule: ccplane's rule.
        claims: The claims with the tests of that rule.
    """
    return [
        row
        for claim in claims
        for row in (
            replace(claim, part=f"{claim.part}{LITERAL}", why="", tuned=None),
            replace(claim, rule=rule),
        )
    ]


def literal(part: Part, rule: str, params: Params) -> Part:
    """Return the part by the paper's rule.

    Args:
        part: The part.
        rule: That rule, for the line about the part.
        params: Its parameters, for all flows of these algorithms.
    """

    def grids(size: Size) -> Sequence[Grid]:
        return [with_params(one, params) for one in part.grids(size)]

    return replace(part, name=f"{part.name}{LITERAL}", about=f"{part.about}; {rule}", grids=grids)


def with_params(grid: Grid, params: Params) -> Grid:
    """Return the grid with these parameters in all flows of these algorithms; the grid's own take precedence.

    A point that sets a flow's algorithm must also set its parameters, as `variants.steered` does.
    """

    def flow(one: FlowSpec) -> FlowSpec:
        return msgspec.structs.replace(one, params={**params.get(one.algorithm, {}), **one.params})

    def fields(point: Mapping[str, Any]) -> dict[str, Any]:
        found = dict(point)
        for name, algorithm in point.items():
            if name.startswith("flows.") and name.endswith(".algorithm") and algorithm in params:
                at = f"{name.removesuffix('.algorithm')}.params"
                found[at] = {**params[algorithm], **point[at]}
        return found

    axes = {
        name: {point: fields(sets) for point, sets in points.items()}
        if isinstance(points, Mapping)
        else points
        for name, points in grid.axes.items()
    }
    base = grid.base.replace(flows=tuple(flow(one) for one in grid.base.flows))
    return replace(grid, base=base, axes=axes)
