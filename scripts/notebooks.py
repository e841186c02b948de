"""Executes the notebooks and stores their outputs in them (`make notebooks`; NAME...: only these).

The metadata of a notebook has a hash of its code cells when they were executed: a test compares it, so that
stored outputs are never older than the code.
"""

from __future__ import annotations

import hashlib
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

import nbformat
from nbclient import NotebookClient

FOLDER: Final = Path(__file__).parents[1] / "experiments/notebooks"
MAX_BYTES: Final = 300_000
"""Maximum size of a notebook with its outputs."""
TIMEOUT_S: Final = 600
HASH: Final = "executed_code_sha256"


def code_hash(notebook: Any) -> str:
    """Return the hash of a notebook's code cells."""
    code = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    return hashlib.sha256("\0".join(code).encode()).hexdigest()


def execute(notebook: Any) -> None:
    """Execute a notebook in an empty directory, and keep only what a reader sees.

    Raises:
        CellExecutionError: If a cell raises.
    """
    with tempfile.TemporaryDirectory() as folder:
        resources = {"metadata": {"path": folder}}
        client = NotebookClient(notebook, timeout=TIMEOUT_S, resources=resources, store_widget_state=False)
        client.execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if _is_shown(output)]
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
        HASH: code_hash(notebook),
    }


def _is_shown(output: Any) -> bool:
    """Return whether an output is seen without a kernel: no progress bars, no widgets."""
    if output.get("name") == "stderr":
        return False
    return not any("widget" in kind for kind in output.get("data", ()))


def main() -> None:
    """Execute the notebooks."""
    for path in sorted(FOLDER.glob("*.ipynb")):
        if sys.argv[1:] and path.stem not in sys.argv[1:]:
            continue
        notebook = nbformat.read(path, as_version=4)
        execute(notebook)
        nbformat.write(notebook, path)
        print(f"{path}: {path.stat().st_size} bytes", flush=True)


if __name__ == "__main__":
    main()
