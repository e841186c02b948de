"""The site: notebooks become pages with their stored outputs, and join the navigation."""

from __future__ import annotations

import base64
from pathlib import Path

import nbformat
import pytest

from scripts import site

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Notebooks `a` and `quickstart`, the second with a text and a picture as outputs."""
    new = nbformat.v4
    picture = new.new_output("display_data", data={"image/png": base64.b64encode(PNG).decode()})
    text = new.new_output("stream", name="stdout", text="4.9 Mbit/s\n")
    cells = [
        new.new_markdown_cell("# Quickstart\n\nSee [live changes](../../docs/live.md)."),
        new.new_code_cell("plot()", outputs=[text, picture]),
    ]
    folder = tmp_path / "experiments/notebooks"
    folder.mkdir(parents=True)
    nbformat.write(new.new_notebook(cells=cells), folder / "quickstart.ipynb")
    nbformat.write(new.new_notebook(cells=[new.new_markdown_cell("# Another one")]), folder / "a.ipynb")
    monkeypatch.setattr(site, "ROOT", tmp_path)
    monkeypatch.setattr(site, "NOTEBOOKS", folder)
    return tmp_path


def test_a_notebook_becomes_a_page_with_outputs(folder: Path) -> None:
    entries = site.notebooks(folder / "pages")
    assert entries == [{"Quickstart": "notebooks/quickstart.md"}, {"Another one": "notebooks/a.md"}]
    page = (folder / "pages/quickstart.md").read_text()
    assert page.startswith("# Quickstart\n\nThis page is `experiments/notebooks/quickstart.ipynb`")
    assert "[live changes](../live.md)" in page
    assert "plot()" in page
    assert "4.9 Mbit/s" in page
    (picture,) = (folder / "pages/quickstart-files").iterdir()
    assert picture.read_bytes() == PNG
    assert f"](quickstart-files/{picture.name})" in page


def test_notebooks_join_the_navigation_and_a_placeholder_is_no_address() -> None:
    known = site.config([{"Quickstart": "notebooks/quickstart.md"}])
    (section,) = (one["Experiment"] for one in known["nav"] if "Experiment" in one)
    assert section[-1] == {"Notebooks": [{"Quickstart": "notebooks/quickstart.md"}]}
    assert "site_url" not in known


def test_the_first_page_links_to_what_exists() -> None:
    text = (site.ROOT / "docs/README.md").read_text()
    assert "(notebooks/quickstart.md)" in site.start_page(text, playground=False)
    assert "playground/" not in site.start_page(text, playground=False)
    assert '<a href="playground/">Playground</a>' in site.start_page(text, playground=True)
