"""R-TCP: subscribers behind one address, simulated."""

from __future__ import annotations

import pandas as pd
import pytest

from experiments.papers.paper import Size
from experiments.papers.r_tcp.paper import PAPER
from experiments.papers.r_tcp.shared_address import (
    KEPT,
    LIMITED,
    SUBSCRIBERS,
    checks,
    kept,
    subscribers,
)
from experiments.run import run
from experiments.sweep import planned


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    return kept(run(subscribers("cubic", 8.0, "sim", True, [1])))


def test_limits_of_each_are_found_and_the_others_keep_what_they_have(rows: pd.DataFrame) -> None:
    assert rows["kind"].value_counts().to_dict() == {"limited": LIMITED, "bulk": 5, "objects": 5}
    limited, free = rows[rows["kind"] == "limited"], rows[rows["kind"] != "limited"]
    assert limited["found_ratio"].mean() >= 0.8
    assert limited["rate_error_pct"].abs().max() < 5
    assert (limited["retrans_pct"].mean(), free["found_ratio"].max()) < (
        limited["retrans_without_pct"].mean(),
        0.1,
    )
    assert free["kept_ratio"].min() > KEPT


def test_all_must_keep_it_also_who_keeps_least(rows: pd.DataFrame) -> None:
    several = pd.concat([rows.assign(in_run=n) for n in range(6)])
    assert [check.verdict for check in checks(several)] == ["holds", "holds"]
    one = several.assign(kept_ratio=several["kept_ratio"].where(several.index != SUBSCRIBERS - 1, 0.5))
    mean, least = checks(one)
    assert mean.found.value < 1
    assert least.verdict == "fails"


def test_both_ways_are_planned_on_either_datapath() -> None:
    for datapath, names in (("ebpf", {"kernel/cubic", "kernel/bbr"}), ("sim", {"cubic", "bbr3"})):
        size = Size(quick=True, repeats=1, datapath=datapath)
        runs = [one for grid in PAPER.parts["shared-address"].grids(size) for one in planned(grid)]
        assert len(runs) == 4
        for one in runs:
            one.scenario.validate()
        assert {one.scenario.flows[0].algorithm for one in runs} == names
