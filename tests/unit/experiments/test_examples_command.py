from __future__ import annotations

import os
import sys
from pathlib import Path
from types import ModuleType

import pytest

from ccplane.base.errors import LoadError
from experiments.errors import ResultError
from experiments.examples_command import copied, notebook, notebook_file
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


def test_a_notebook_is_found_by_name_next_to_the_scenarios_it_uses(tmp_path: Path) -> None:
    file = notebook_file("quickstart", tmp_path)
    assert file == notebook_file("quickstart.ipynb", tmp_path) == tmp_path / "notebooks/quickstart.ipynb"
    assert (tmp_path / "scenarios/two-flows.yaml").exists()


def test_an_unknown_notebook_is_refused_with_the_names_that_there_are(tmp_path: Path) -> None:
    with pytest.raises(ResultError) as caught:
        notebook_file("quickstrat", tmp_path)
    assert caught.value.slug == "result.no_notebook"
    assert "quickstart" in str(caught.value)


def test_jupyterlab_gets_the_copy_and_its_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[list[str]] = []
    monkeypatch.setattr(os, "execv", lambda _program, arguments: called.append(arguments))
    monkeypatch.setitem(sys.modules, "jupyterlab", ModuleType("jupyterlab"))
    notebook("quickstart", ["--no-browser"], tmp_path)
    assert called == [
        [sys.executable, "-m", "jupyterlab", str(tmp_path / "notebooks/quickstart.ipynb"), "--no-browser"]
    ]


def test_without_jupyterlab_nothing_is_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jupyterlab", None)
    with pytest.raises(LoadError) as caught:
        notebook("quickstart", None, tmp_path / "examples")
    assert caught.value.slug == "load.no_extra"
    assert not (tmp_path / "examples").exists()
