"""Cards of algorithms (`ccp_algs.cards`) for README.md and the pages; `make commands` writes them.

`<!-- cards: table -->` begins the table of all algorithms, `<!-- cards: small -->` the cards of algorithms
without a page of their own, `<!-- cards: NAME -->` the entries of one card. `<!-- end of ... -->` ends each.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from ccp_algs import registry
from ccp_algs.cards import Card, card_of
from scripts.marks import filled

ROOT: Final = Path(__file__).parents[1]
PAGE: Final = "docs/algorithms.md"
BLOCK: Final = re.compile(r"(<!-- cards: (\w+) -->\n).*?(<!-- end of \2 -->)", re.DOTALL)
_BETWEEN: Final = re.compile(r"(?<=\.) (?=[A-Z])")
"""Between two sentences."""
_CITED: Final = re.compile(r"(.+) \(docs/(\S+\.md)\)(\.?)")


def cards() -> dict[str, Card]:
    """Return the cards of the shipped algorithms that have one."""
    found = {name: card_of(registry.get(name)) for name in registry.names()}
    return {name: card for name, card in found.items() if card.use}


def table(docs: str = "") -> str:
    """Return the table of all algorithms; `docs` is the path to docs, as links need it."""
    rows: dict[Card, list[str]] = {}
    for name, card in cards().items():
        page = card.more.removeprefix("docs/") or f"{Path(PAGE).name}#{name}"
        rows.setdefault(card._replace(overview=""), []).append(f"[`{name}`]({docs}{page})")
    lines = ["| algorithm | use it | do not | evidence |", "| --- | --- | --- | --- |"]
    for card, names in rows.items():
        first = (_linked(text, docs, only_first=True) for text in (card.use, card.avoid, card.evidence))
        lines.append(f"| {', '.join(names)} | {' | '.join(first)} |")
    return "\n".join(lines)


def entries(name: str) -> str:
    """Return the entries of a card as a list."""
    card = cards()[name]
    return "\n".join(
        [
            f"- **Use it** {_linked(card.use)}",
            f"- **Do not use it** {_linked(card.avoid)}",
            f"- **Evidence**: {_linked(card.evidence)}",
        ]
    )


def small() -> str:
    """Return the cards of the algorithms without a page."""
    parts = (
        f"### {name}\n\n{card.overview}\n\n{entries(name)}" for name, card in cards().items() if not card.more
    )
    return "\n\n".join(parts)


def _linked(text: str, docs: str = "", *, only_first: bool = False) -> str:
    """Return sentences in which pages in parentheses are links; `only_first`: one, without its full stop."""
    found = [_CITED.sub(rf"[\1]({docs}\2)\3", sentence) for sentence in _BETWEEN.split(text)]
    return found[0].rstrip(".") if only_first else " ".join(found)


def written() -> Iterator[tuple[Path, str]]:
    """Yield each page that has cards, with its text."""
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))):
        text, docs = path.read_text(), "docs/" if path.parent == ROOT else ""
        for begin, block, end in BLOCK.findall(text):
            text = filled(text, begin, end, _made(block, docs))
        if BLOCK.search(text):
            yield path, text


def _made(block: str, docs: str) -> str:
    if block == "table":
        return table(docs)
    return small() if block == "small" else entries(block)
