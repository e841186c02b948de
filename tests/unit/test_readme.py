"""README shows the demonstration's algorithm and edit, and counts claims as `ccp paper claims` does."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from experiments.demo.picture import edit
from experiments.demo.runs import MINE
from experiments.papers import claims
from scripts import scoreboard

README = (Path(__file__).parents[2] / "README.md").read_text()


def fence(kind: str) -> str:
    (text,) = re.findall(rf"^```{kind}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    return text


def code(source: str) -> str:
    """Return a source without docstrings, comments, annotations and `__future__`."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node):
            del node.body[0]
        if isinstance(node, ast.FunctionDef):
            node.returns = None
        if isinstance(node, ast.arg):
            node.annotation = None
    tree.body = [
        one for one in tree.body if not (isinstance(one, ast.ImportFrom) and one.module == "__future__")
    ]
    return ast.unparse(tree)


def test_the_algorithm_is_that_of_the_demonstration() -> None:
    assert code(fence("python")) == code(MINE.read_text())


def test_the_edit_is_that_of_the_demonstration() -> None:
    assert [f"{line[0]} {line[1:].strip()}" for line in fence("diff").splitlines()] == edit()


@pytest.mark.parametrize("name", [*claims.PAPERS, *claims.OTHERS])
def test_claims_are_counted_as_they_are_judged(name: str) -> None:
    n, sockets, simulated, without = scoreboard.counts(name)
    rows = claims.of_paper(claims.judge(claims.paper_of(name), claims.kept(name)))
    assert n == len(rows)
    assert sockets == [sum(row.kernel.verdict == one for row in rows) for one in claims.JUDGED]
    assert simulated == [sum(row.simulated.verdict == one for row in rows) for one in claims.JUDGED]
    assert sum(sockets) <= n - without
    assert without == sum(
        {row.kernel.verdict, row.simulated.verdict}.isdisjoint(claims.JUDGED) for row in rows
    )
