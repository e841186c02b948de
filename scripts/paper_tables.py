"""Writes papers' results and claims into docs/papers, from docs/results/papers (`make docs-tables`).

`ccp paper NAME --part PART --keep docs/results/papers` makes them. A page shows those of a part between

    <!-- begin PART: made by `make docs-tables` -->
    <!-- end PART -->

and its claims with their verdicts, as `ccp paper NAME --claims`, where PART is `claims`; a part does not tell
again what those tell. A test finds what was changed by hand.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from experiments.papers import claims
from experiments.papers.kept import Kept

CLAIMS: Final = "claims"
"""Name of the block with a paper's claims."""

ROOT: Final = Path(__file__).parents[1]
PAGES: Final = ROOT / "docs/papers"
RESULTS: Final = ROOT / "docs/results/papers"
BLOCK: Final = re.compile(
    r"(?P<begin><!-- begin (?P<part>[\w-]+): made by `make docs-tables` -->\n).*?"
    r"(?P<end><!-- end (?P=part) -->)",
    re.DOTALL,
)


def written(text: str, paper: str, folder: Path = RESULTS) -> str:
    """Return a page with the kept results of its parts between their markers.

    Args:
        text: The page.
        paper: Name of the paper.
        folder: Where results are kept.

    Raises:
        ResultError: `result.broken`, if those of a part are missing.
    """
    judged = []
    if f" {CLAIMS}: " in text:
        judged = claims.judge(claims.paper_of(paper), claims.kept(paper, folder))
    told = {str(check) for row in judged for check in row.checks}

    def made(block: re.Match[str]) -> str:
        if block["part"] == CLAIMS:
            return f"{block['begin']}\n{claims.markdown(judged)}\n\n{block['end']}"
        kept = Kept.read(Kept.place(folder, paper, block["part"]))
        return f"{block['begin']}\n{kept.markdown(told)}\n\n{block['end']}"

    return BLOCK.sub(made, text)


def shown(text: str) -> list[str]:
    """Return the names of the parts that a page shows results of."""
    return [block["part"] for block in BLOCK.finditer(text) if block["part"] != CLAIMS]


if __name__ == "__main__":
    for page in sorted(PAGES.glob("*.md")):
        page.write_text(written(page.read_text(), page.stem))
