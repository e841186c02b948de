from __future__ import annotations

from pathlib import Path

import pytest

from experiments.errors import ResultError
from experiments.examples_command import copied
from experiments.scenario import Scenario


def test_copied_scenarios_can_be_loaded_and_own_changes_stay(tmp_path: Path) -> None:
    files = [file for file, is_new in copied(tmp_path / "examples") if is_new]
    two_flows, notebook = (
        next(file for file in files if file.name == name) for name in ("two-flows.yaml", "quickstart.ipynb")
    )
    Scenario.load(two_flows).validate()
    assert '"cells"' in notebook.read_text()
    two_flows.write_text("mine")
    again = dict(copied(tmp_path / "examples"))
    assert set(again) == set(files)
    assert not any(again.values())
    assert two_flows.read_text() == "mine"


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ResultError) as caught:
        copied(tmp_path / "file")
    assert caught.value.slug == "result.cannot_write"
