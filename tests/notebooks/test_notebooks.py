"""Every notebook runs, with short runs; its stored outputs are those of its code."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

from scripts.notebooks import HASH, MAX_BYTES, code_hash

NOTEBOOKS = sorted((Path(__file__).parents[2] / "experiments/notebooks").glob("*.ipynb"))
PARAMETERS = {
    "quickstart": "DURATION_S = 2\nREPEATS = 2\nOUT = Path({out!r})",
    "flex_cubic": "DURATION_S = 2\nREPEATS = 1\nOUT = Path({out!r})",
    "hyvar": "DURATION_S = 2\nOUT = Path({out!r})",
    "int_adaptive": "DURATION_S = 2\nREPEATS = 1\nOUT = Path({out!r})",
    "r_hybrid": "DURATION_S = 4\nREPEATS = 1\nOUT = Path({out!r})",
    "r_tcp": "SIZE_BYTES = 1_000_000\nREPEATS = 1\nOUT = Path({out!r})",
}
"""Notebook -> what its cell of parameters is followed by in a test; `out` is a directory."""
CELL_TIMEOUT_S = 120
FIGURES = {
    "quickstart": 2,
    "flex_cubic": 3,
    "hyvar": 3,
    "int_adaptive": 3,
    "r_hybrid": 5,
    "r_tcp": 1,
}
"""How many figures each shows."""


OWN_PACKAGES = {"broker", "ccp_algs", "ccplane", "experiments", "telemetry"}
PUBLIC = {"ccplane", "ccplane.fold", "ccplane.lab", "ccplane.papers"}


def read(path: Path) -> Any:
    return nbformat.read(path, as_version=4)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
@pytest.mark.timeout(300)
def test_it_runs(path: Path, tmp_path: Path) -> None:
    notebook = read(path)
    at = next(i for i, cell in enumerate(notebook.cells) if "parameters" in cell.metadata.get("tags", []))
    shorter = nbformat.v4.new_code_cell(PARAMETERS[path.stem].format(out=str(tmp_path / "out")))
    notebook.cells.insert(at + 1, shorter)
    NotebookClient(notebook, timeout=CELL_TIMEOUT_S, resources={"metadata": {"path": tmp_path}}).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert sum("image/png" in output.get("data", {}) for output in outputs) == FIGURES[path.stem]
    assert [output["text"] for output in outputs if output.get("name") == "stderr"] == []


def test_a_notebook_next_to_files_named_as_ccplanes_packages_works_or_says_so(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text("class Policy: ...")
    (tmp_path / "experiments").mkdir()
    (tmp_path / "telemetry.py").write_text("")
    notebook = nbformat.v4.new_notebook()
    works = "import agent, ccplane\nprint(agent.Policy, ccplane.Param, ccplane.fold.every)"
    notebook.cells = [nbformat.v4.new_code_cell(cell) for cell in (works, "ccplane.connect()")]
    with pytest.raises(CellExecutionError, match=rf"load\.shadowed: .*{tmp_path}/telemetry\.py") as caught:
        NotebookClient(notebook, timeout=CELL_TIMEOUT_S, resources={"metadata": {"path": tmp_path}}).execute()
    assert "rename" in str(caught.value)
    assert "class 'agent.Policy'" in notebook.cells[0].outputs[0].text


def test_all_notebooks_are_run_with_short_parameters() -> None:
    assert {path.stem for path in NOTEBOOKS} == set(PARAMETERS)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_its_stored_outputs_are_those_of_its_code(path: Path) -> None:
    notebook = read(path)
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert path.stat().st_size <= MAX_BYTES
    assert notebook.metadata[HASH] == code_hash(notebook), "code was changed: `make notebooks`"
    assert sum("image/png" in output.get("data", {}) for output in outputs) == FIGURES[path.stem]
    assert [
        output for output in outputs if output.output_type == "error" or output.get("name") == "stderr"
    ] == []


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_imports_only_public_names(path: Path) -> None:
    imported = set()
    for cell in read(path).cells:
        if cell.cell_type == "code":
            for node in ast.walk(ast.parse(cell.source)):
                if isinstance(node, ast.ImportFrom):
                    imported.add(node.module)
                elif isinstance(node, ast.Import):
                    imported |= {alias.name for alias in node.names}
    own = {name for name in imported if name.partition(".")[0] in OWN_PACKAGES}
    assert own <= PUBLIC


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_is_simulated_by_default(path: Path) -> None:
    parameters = next(cell for cell in read(path).cells if "parameters" in cell.metadata.get("tags", []))
    assert 'DATAPATH = "sim"' in parameters.source


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_says_nothing_of_the_machine_that_wrote_it(path: Path) -> None:
    metadata = json.loads(path.read_text())["metadata"]
    assert set(metadata) - {HASH} == {"kernelspec", "language_info"}
    assert metadata["language_info"] == {"name": "python"}
    assert str(Path.home()) not in path.read_text()
    assert "/tmp/" not in path.read_text()
