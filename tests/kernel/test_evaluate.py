from __future__ import annotations

from pathlib import Path

from experiments.evaluate import words
from experiments.evaluate.evaluating import Order, evaluated
from experiments.evaluate.running import SIMULATOR, SOCKETS
from experiments.runs.reports import RunReport


def test_the_same_scenario_is_measured_on_real_sockets_and_in_the_simulator(tmp_path: Path) -> None:
    order = Order(("kernel/reno",), (), quick=False, repeats=1, only=("incast",), out=tmp_path, jobs=1)
    found = evaluated(order, RunReport())
    assert found.complete
    assert found.sides == (SOCKETS, SIMULATOR)
    (case,) = found.cases
    assert found.deciding(case, "kernel/reno") == SOCKETS
    for what in case.measures:
        for side in found.sides:
            for controller in (*found.subjects, *found.against):
                (value_ms,) = found.values(case, what, side, controller.algorithm)
                assert 64_000 / 25e6 * 1e3 < value_ms < 8_000  # longer than at the path's rate; it ended
    said = words.sentence(found, case, SOCKETS, found.subject, found.against[0])
    assert said.startswith("Undecided (more seeds): median time of an answer")
