"""R-Hybrid next to kernel CUBIC on links that mark, in the simulator."""

from __future__ import annotations

from functools import cache

import pytest

from experiments.papers.paper import Runs, Size, findings, table_of
from experiments.papers.r_hybrid.next_to_cubic import CASES, LINKS, NEXT_TO_CUBIC, VARIANTS
from experiments.papers.r_hybrid.paper import PAPER
from experiments.results import Result
from experiments.run import run
from experiments.sweep import planned

SLOW_LINK = "RTT 20 ms, marks at 5 ms"


@cache
def results() -> list[Result]:
    """The part's runs of one round, on the simulator."""
    (grid,) = NEXT_TO_CUBIC.grids(Size(duration_s=6.0, repeats=1))
    made = []
    for one in planned(grid):
        result = run(one.scenario, datapath="sim")
        result.axes = one.axes
        made.append(result)
    return made


def test_flows_next_to_cubic_are_decided_shared_and_leave_cubic_its_part() -> None:
    """With windows of 100 ms alone, two thirds of the decisions were SINGLE_OWNER, and DCTCP had 80 %."""
    table = table_of(results(), NEXT_TO_CUBIC.row).set_index(["link", "ours"])
    assert len(table) == len(CASES) == len(LINKS) * len(VARIANTS)
    found = table.loc[(SLOW_LINK, "r_hybrid, loss")]
    assert found["shared_ratio"] > 0.8
    assert found["own_goodput_ratio"] < 0.7


def test_claims_read_the_shares_of_the_runs() -> None:
    table = table_of(results(), NEXT_TO_CUBIC.row)
    found = findings(PAPER.parts["next-to-cubic"], Runs(results(), table, len(table)))
    shares = table.set_index(["link", "ours"])["own_goodput_ratio"]
    for link in LINKS:
        for rule in ("abe", "loss"):
            (check,) = (one for one in found.checks if one.name == f"{rule}, {link}")
            assert check.found.value == pytest.approx(shares[link, f"r_hybrid, {rule}"])
    assert set(found.figures) == {"next-to-cubic"}
