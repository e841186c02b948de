"""What holds for the experiments of every paper."""

from __future__ import annotations

import pytest

from experiments.papers.flex_cubic import paper as flex_cubic
from experiments.papers.hyvar import paper as hyvar
from experiments.papers.int_adaptive import paper as int_adaptive
from experiments.papers.paper import Part, Size, nothing_to_run
from experiments.papers.r_hybrid import paper as r_hybrid
from experiments.sweep import planned

PARTS = {
    f"{paper.name} {part.name}": part
    for paper in (flex_cubic.PAPER, hyvar.PAPER, int_adaptive.PAPER, r_hybrid.PAPER)
    for part in paper.parts.values()
}


@pytest.mark.parametrize("size", [Size(repeats=1), Size(quick=True)], ids=["full", "quick"])
@pytest.mark.parametrize("part", PARTS.values(), ids=PARTS)
def test_no_run_is_planned_twice(part: Part, size: Size) -> None:
    runs = [one for grid in part.grids(size) for one in planned(grid)]
    assert len({run.key for run in runs}) == len(runs)
    assert bool(runs) == (part.grids is not nothing_to_run)
    names = [grid.title for grid in part.grids(size)]
    assert len(set(names)) == len(names)
