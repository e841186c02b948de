"""Cards: what users choose an algorithm by."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ccp_algs import Algorithm, registry
from ccp_algs.cards import Card, card_of
from experiments.papers import claims

ROOT = Path(__file__).parents[3]
TEMPLATES = {"aimd", "aimd_vec"}
"""Algorithms to copy: a card would be copied with them."""


class Base(Algorithm):
    """A base class.

    Use it on paths
        of two lines. Really.
    Do not use it elsewhere.
    Evidence: tests only.
    More: docs/README.md
    """


class Derived(Base):
    """A derived class.

    Do not use it here.

    A later paragraph.
    """


def test_a_card_is_the_docstring_and_that_of_the_base_classes() -> None:
    assert card_of(Base) == Card(
        "A base class.", "on paths of two lines. Really.", "elsewhere.", "tests only.", "docs/README.md"
    )
    assert card_of(Derived) == card_of(Base)._replace(overview="A derived class.", avoid="here.")


def test_an_algorithm_without_entries_has_an_empty_card() -> None:
    class Plain(Algorithm):
        """Just this."""

    assert card_of(Plain) == Card("Just this.", "", "", "", "")


@pytest.mark.parametrize("name", sorted(set(registry.names()) - TEMPLATES))
def test_every_shipped_algorithm_says_when_to_use_it(name: str) -> None:
    card = card_of(registry.get(name))
    assert all(text.endswith(".") for text in card[:4])
    pages = re.findall(r"docs/\S+\.md", " ".join(card))
    assert [page for page in pages if not (ROOT / page).exists()] == []


def test_claims_are_counted_as_in_the_kept_results() -> None:
    evidence = {card_of(registry.get(name)).evidence for name in registry.names()}
    counts = re.compile(
        r"(\d+) of (\d+) claims tested on real sockets hold, (\d+) of (\d+) in the simulator"
        r" \(docs/papers/(\S+)\.md\)"
    )
    found = {one[5]: tuple(map(int, one.groups()[:4])) for one in map(counts.match, evidence) if one}
    assert len(found) == 5
    for paper, stated in found.items():
        rows = claims.judge(claims.paper_of(paper), claims.kept(paper))
        judged: list[int] = []
        for place in range(2):
            count = claims.counted(row.sides[place] for row in rows if not row.sides[place].computed)
            judged += [count["holds"], sum(count[verdict] for verdict in claims.JUDGED)]
        assert tuple(judged) == stated, paper
