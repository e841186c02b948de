"""Evaluations whose runs are done by a Dask cluster."""

from __future__ import annotations

from pathlib import Path

from experiments.evaluate.evaluating import Order, evaluated
from experiments.runs.reports import RunReport
from tests.unit.experiments.dask_here import ROOT, scheduler

ONLY = ("alone-tenth", "cellular")
MINE = ROOT / "ccplane/templates/mine.py"


def test_an_evaluation_on_a_cluster_has_the_values_of_one_here(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(MINE.read_text())
    near = evaluated(Order((str(file),), (), True, 1, ONLY, tmp_path / "near", jobs=1), RunReport())
    with scheduler(tmp_path) as here:
        here.workers(1, cwd=tmp_path)
        order = Order((str(file),), (), True, 1, ONLY, tmp_path / "away", on=here.place)
        away = evaluated(order, RunReport())
    assert (away.complete, away.spent[0].runs, away.spent[0].now) == (True, 4, 4)
    for case in near.cases:
        for what in case.measures:
            for one in (*near.subjects, *near.against):
                values = near.values(case, what, "sim", one.algorithm)
                assert away.values(case, what, "sim", one.algorithm) == values
                assert values[0] == values[0]
