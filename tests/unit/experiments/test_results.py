from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from experiments import run as runs
from experiments.errors import ResultError
from experiments.results import FORMAT, Result, ResultSet, is_complete
from experiments.run import run
from experiments.runs import tables
from tests.unit.experiments.recorded import record
from tests.unit.experiments.test_run import SCENARIO

KEPT = Path(__file__).parent / "data"


@pytest.fixture
def stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setitem(runs.DATAPATHS, "ebpf", record)
    run(SCENARIO, tmp_path / "result")
    return tmp_path / "result"


def change(directory: Path, **changes: Any) -> None:
    file = directory / "metadata.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


def test_a_newer_format_is_refused_with_a_hint(stored: Path) -> None:
    change(stored, format=FORMAT + 1)
    with pytest.raises(ResultError) as caught:
        Result.load(stored)
    assert caught.value.slug == "result.newer"
    assert "upgrade" in caught.value.fix
    assert not is_complete(stored)


def test_what_is_not_there_is_reported(tmp_path: Path) -> None:
    for load in (Result.load, ResultSet.load):
        with pytest.raises(ResultError) as caught:
            load(tmp_path)
        assert caught.value.slug == "result.not_found"


@pytest.mark.parametrize("text", ["{", "[1]", "3", '{"form": 1}', '{"format": "x"}'])
def test_metadata_that_cannot_be_read_are_reported(stored: Path, text: str) -> None:
    (stored / "metadata.json").write_text(text)
    with pytest.raises(ResultError) as caught:
        Result.load(stored)
    assert caught.value.slug == "result.broken"
    assert not is_complete(stored)


def test_a_table_that_cannot_be_read_is_reported_when_it_is_asked_for(stored: Path) -> None:
    (stored / "flows.parquet").write_bytes(b"no Parquet")
    (stored / "events.parquet").unlink()
    result = Result.load(stored)
    for name in ("flows", "events"):
        with pytest.raises(ResultError) as caught:
            result.table(name)
        assert caught.value.slug == "result.broken"
    assert len(result.flow_samples) == 21


def test_a_scenario_that_is_missing_is_reported(stored: Path) -> None:
    (stored / "scenario.yaml").unlink()
    with pytest.raises(ResultError) as caught:
        Result.load(stored)
    assert caught.value.slug == "result.broken"


@pytest.mark.parametrize("kept", sorted(KEPT.glob("result-format-*")), ids=lambda path: path.name)
def test_results_of_every_format_so_far_can_be_read(kept: Path) -> None:
    result = Result.load(kept)
    assert result.complete
    assert result.scenario.flows[0].name == "flow"
    (goodput,) = result.flows["goodput_bytes_per_s"]
    assert goodput == pytest.approx(1e6)
    for name, columns in tables.COLUMNS.items():
        assert list(result.table(name).columns) == list(columns)


def test_a_sample_of_every_format_is_kept() -> None:
    assert [path.name for path in sorted(KEPT.glob("result-format-*"))] == [
        f"result-format-{number}" for number in range(1, FORMAT + 1)
    ]


def test_a_sweep_counts_what_is_there(stored: Path, tmp_path: Path) -> None:
    plan = [
        {"key": f"run{n}", "axes": {"flow": "x", "queue": {"kind": "codel"}}, "repeat": n, "seed": 1}
        for n in range(3)
    ]
    sweep = {"format": FORMAT, "name": "a sweep", "axes": ["flow", "queue"], "runs": plan}
    (tmp_path / "sweep.json").write_text(json.dumps(sweep))
    shutil.copytree(stored, tmp_path / "run0")
    shutil.copytree(stored, tmp_path / "run1.incomplete")
    change(tmp_path / "run1.incomplete", complete=False, error={"slug": "lab.timeout"})
    results = ResultSet.load(tmp_path)
    assert (len(results), len(results.planned), len(results.missing)) == (1, 3, 2)
    assert [one["error"] for one in results.failed] == [{"slug": "lab.timeout"}]
    (row,) = results.table().to_dict("records")
    assert (row["axis.flow"], row["flow"], row["queue"]) == ("x", "flow", '{"kind": "codel"}')
    assert repr(results) == "ResultSet('a sweep', 1 of 3 runs)"


def test_a_sweep_without_finished_runs_has_an_empty_table(tmp_path: Path) -> None:
    (tmp_path / "sweep.json").write_text(json.dumps({"format": 1, "name": "x", "axes": ["a"], "runs": []}))
    table = ResultSet.load(tmp_path).table()
    assert isinstance(table, pd.DataFrame)
    assert table.empty
