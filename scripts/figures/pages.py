"""Writes figures, lists and numbers of the result pages (`python -m scripts.tables`)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Final

from scripts.figures import (
    benchmarks,
    evaluate,
    flex_cubic,
    hyvar,
    int_adaptive,
    published,
    r_hybrid,
    r_tcp,
    validation,
    verdicts,
)
from scripts.figures.drawing import DOCS, IMAGES, Figure, svg

PAPERS: Final[Mapping[str, ModuleType]] = {
    module.NAME: module for module in (flex_cubic, int_adaptive, hyvar, r_hybrid, r_tcp, published)
}
OTHERS: Final[Mapping[str, ModuleType]] = {
    module.NAME: module for module in (benchmarks, validation, evaluate)
}
_BLOCK: Final = re.compile(
    r"(?P<begin><!-- begin (?P<name>[\w-]+): made by `make docs-tables` -->\n).*?"
    r"(?P<end><!-- end (?P=name) -->)",
    re.DOTALL,
)


def figures() -> dict[str, Callable[[], Figure]]:
    """Return all figures by the name of their file, without the suffix."""
    found: dict[str, Callable[[], Figure]] = {"claims": verdicts.scoreboard}
    for name, module in PAPERS.items():
        found[f"{name}-verdicts"] = lambda name=name: verdicts.bar(name)  # type: ignore[misc]
        found |= module.FIGURES
    for module in OTHERS.values():
        found |= module.FIGURES
    return found


@cache
def drawn(name: str) -> Figure:
    """Return a figure, which is drawn once."""
    return figures()[name]()


def image(name: str) -> str:
    """Return the text of a figure's file."""
    figure = drawn(name)
    return svg(figure.plot, figure.alt)


def place(name: str) -> Path:
    """Return the file of a figure."""
    return IMAGES / f"{name}.svg"


def blocks(page: Path) -> dict[str, Callable[[], str]]:
    """Return what can stand between the marks of a page, by the name of the marks."""
    up = "../" * (len(page.relative_to(DOCS).parts) - 1)

    def shown(name: str) -> Callable[[], str]:
        def made() -> str:
            figure = drawn(name)
            alt = figure.alt.partition(": ")[0]  # the file has all of it
            return f"![{alt}]({up}images/figures/{name}.svg)\n\n{figure.caption}".rstrip()

        return made

    found = {name: shown(name) for name in figures()}
    if page.stem in PAPERS:
        paper = page.stem
        found |= {
            "verdicts": lambda: f"{shown(f'{paper}-verdicts')()}\n\n{verdicts.summary(paper)}",
            "failed": lambda: verdicts.failed(paper),
            "undecided": lambda: verdicts.undecided(paper),
            "untested": lambda: verdicts.untested(paper),
        }
    return found | {
        "numbers": benchmarks.numbers,
        "gallery": evaluate.gallery,
        "agreement": evaluate.agreement,
        "exactness": validation.headline,
        "within": validation.table,
        "by-group": validation.by_group,
        "worst": validation.worst,
        "scoreboard": shown("claims"),
        "r-tcp-harder": r_tcp.harder,
    }


def written(page: Path, text: str) -> str:
    """Return a page with what is generated between its marks.

    Raises:
        KeyError: If marks have an unknown name.
    """
    known = blocks(page)
    return _BLOCK.sub(lambda found: f"{found['begin']}\n{known[found['name']]()}\n\n{found['end']}", text)


def all_pages() -> list[Path]:
    """Return the result pages that are there."""
    pages = [DOCS / "papers" / f"{name}.md" for name in PAPERS] + [DOCS / f"{name}.md" for name in OTHERS]
    return [page for page in pages if page.exists()]


def draw() -> None:
    """Write the files of all figures, and delete those of figures that are gone."""
    IMAGES.mkdir(parents=True, exist_ok=True)
    for name in figures():
        place(name).write_text(image(name))
    for file in IMAGES.glob("*.svg"):
        if file.stem not in figures():
            file.unlink()
