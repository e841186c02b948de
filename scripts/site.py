"""Build the site of the documents into out/site: pages, notebooks, reports, and the playground if built.

The pages are those of `docs`, checked strictly. Notebooks become pages with the outputs that they store.
Reports are made from docs/results; the pages of results link to them.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any, Final

import nbformat
import yaml
from nbconvert import MarkdownExporter

from ccplane.base.site import address_in
from scripts import reports

ROOT: Final = Path(__file__).parents[1]
STAGE: Final = ROOT / "out/docs"
CONFIG: Final = ROOT / "out/site.yml"
SITE: Final = ROOT / "out/site"
NOTEBOOKS: Final = ROOT / "experiments/notebooks"

PLAYGROUND: Final = ROOT / "out/playground"


def notebooks(into: Path) -> list[dict[str, str]]:
    """Write each notebook as a page with pictures; return entries of the navigation, quickstart first."""
    exporter = MarkdownExporter()
    entries = []
    for path in sorted(NOTEBOOKS.glob("*.ipynb"), key=lambda path: (path.stem != "quickstart", path.stem)):
        notebook = nbformat.read(path, as_version=4)
        body, resources = exporter.from_notebook_node(
            notebook, resources={"output_files_dir": f"{path.stem}-files", "unique_key": path.stem}
        )
        for name, data in resources["outputs"].items():
            target = into / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
        into.mkdir(parents=True, exist_ok=True)
        source = f"This page is `{path.relative_to(ROOT)}`, with its stored outputs.\n\n"
        heading, _, rest = body.lstrip().partition("\n")
        rest = re.sub(r"\]\((?:\.\./)*docs/", "](../", rest)
        (into / f"{path.stem}.md").write_text(f"{heading}\n\n{source}{rest}")
        entries.append({heading.lstrip("# "): f"notebooks/{path.stem}.md"})
    return entries


def start_page(text: str, *, playground: bool) -> str:
    """Return the first page with links to what only the site has."""
    command = "`ccp experiment notebook`"
    text = text.replace(command, f"[{command}](notebooks/quickstart.md)")
    if playground:
        text = text.replace("Choose a door.", 'Choose a door. · <a href="playground/">Playground</a>', 1)
    return text


def config(pages: list[dict[str, str]]) -> dict[str, Any]:
    """Return mkdocs.yml for the staged pages, with the notebooks in its navigation."""
    known: dict[str, Any] = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
    known |= {"docs_dir": STAGE.name, "site_dir": SITE.name}
    urls = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]
    if address := address_in([f"{name}, {url}" for name, url in urls.items()]):
        known["site_url"] = f"{address}/"
    for plugin in known["plugins"]:
        if isinstance(plugin, dict) and "mkdocstrings" in plugin:
            plugin["mkdocstrings"]["handlers"]["python"]["paths"] = [str(ROOT)]
    for section in known["nav"]:
        if "Experiment" in section:
            section["Experiment"].append({"Notebooks": pages})
    return known


def main() -> int:
    """Build the site; return Zensical's exit code."""
    shutil.rmtree(STAGE, ignore_errors=True)
    shutil.rmtree(SITE, ignore_errors=True)
    shutil.copytree(ROOT / "docs", STAGE)
    playground = PLAYGROUND.is_dir()
    first = STAGE / "README.md"
    first.write_text(start_page(first.read_text(), playground=playground))
    CONFIG.write_text(
        yaml.safe_dump(config(notebooks(STAGE / "notebooks")), sort_keys=False, allow_unicode=True)
    )
    zensical = [
        str(Path(sys.executable).with_name("zensical")),
        "build",
        "--strict",
        "--config-file",
        str(CONFIG),
    ]
    if code := subprocess.run(zensical, cwd=ROOT, check=False).returncode:
        return code
    reports.written(SITE / "reports")
    if playground:
        shutil.copytree(PLAYGROUND, SITE / "playground")
    else:
        print("site: without playground: `make playground` builds it")
    print(f"site: {SITE.relative_to(ROOT)}/index.html")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
