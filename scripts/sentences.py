"""The sentences that users read, and a random draw of them: `python -m scripts.sentences --seed 1`.

Four kinds: sentences of documents, of the help of `ccp`, of errors and log lines, and of public docstrings.
A draw takes 40, 25, 15 and 20 % of each. In errors and log lines `{name}` stands for a value.
"""

from __future__ import annotations

import argparse
import ast
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

ROOT = Path(__file__).parents[1]
PACKAGES: Final = ("broker", "ccp_algs", "ccplane", "experiments", "telemetry")
SHARES: Final = {"document": 0.40, "help": 0.25, "error": 0.15, "docstring": 0.20}
SAYS: Final = frozenset({"debug", "info", "warning", "error", "exception", "critical", "echo", "secho"})
"""Functions and methods whose first string is a log line, or is printed."""
ITEM: Final = re.compile(r"\n\s*\n|\n(?=[A-Z]\w*: | {4}\*{0,2}\w+(?:, \w+)*: |\s*(?:[-*]|\d\.) )")
"""Where paragraphs, entries of sections and list items of a docstring begin."""
PROSELESS: Final = re.compile(
    r"^```.*?^```$|^(?:Args|Attributes|Examples?|Raises|Returns|Yields):\n", re.MULTILINE | re.DOTALL
)
"""Code and the headings of sections in docstrings."""
ABBREVIATION: Final = re.compile(
    r"(?:\b(?:e\.g|i\.e|et al|cf|vs|Fig|Sec)|(?:^|[,;:(] ?|\b(?:and|by|from|of) |\. )[A-Z](?:\.-[A-Z])?)\.$"
)
"""An abbreviation or an initial at the end of a text: a sentence does not end here."""


class Sentence(NamedTuple):
    """A sentence, and where it stands."""

    kind: str
    place: str
    text: str


def documents(root: Path = ROOT) -> Iterator[Sentence]:
    """Yield sentences of the documents: paragraphs, list items, and cells of tables with five words."""
    pages = [root / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")]
    for page in (*pages, *sorted((root / "docs").rglob("*.md"))):
        place = str(page.relative_to(root))
        for paragraph in paragraphs(page.read_text(encoding="utf-8")):
            for text in split(paragraph):
                yield Sentence("document", place, text)


def paragraphs(text: str) -> Iterator[str]:
    """Yield the paragraphs of a Markdown text, without code, comments and link targets."""
    text = re.sub(r"^ *```.*?^ *```$|<!--.*?-->|^::: .*?$", "", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    for block in re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )", text):
        if block.lstrip().startswith("|"):
            cells = [cell.strip() for line in block.splitlines() for cell in re.split(r"(?<!\\)\|", line)]
            yield from (cell for cell in cells if len(re.findall(r"[A-Za-z]{2,}", cell)) > 4)
        elif not block.lstrip().startswith("#"):
            yield re.sub(r"^\s*(?:[-*>]|\d+\.) ", "", " ".join(block.split()))


def help_texts() -> Iterator[Sentence]:
    """Yield the sentences of the help of all commands, options and arguments."""
    from scripts import commands  # only this kind imports all of ccplane

    for command in commands.commands():
        place = f"ccp {command.path}"
        for text in command.help:
            yield from (Sentence("help", place, one) for one in split(" ".join(text.split())))
        for option in command.options:
            text = re.sub(r"\s*\[(?:default|required)[^]]*\]$", "", option.help)
            yield from (Sentence("help", f"{place} {option.names}", one) for one in split(text))


def sources(root: Path = ROOT) -> Iterator[tuple[str, ast.Module]]:
    """Yield the place and the tree of each module of the packages."""
    for package in PACKAGES:
        for file in sorted((root / package).rglob("*.py")):
            yield str(file.relative_to(root)), ast.parse(file.read_text(encoding="utf-8"))


def errors(root: Path = ROOT) -> Iterator[Sentence]:
    """Yield the sentences of errors, log lines and what is printed, of Python and of Rust."""
    for place, tree in sources(root):
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                for text in _said(node):
                    yield from (Sentence("error", f"{place}:{node.lineno}", one) for one in split(text))
    for file in sorted((root / "native").rglob("src/**/*.rs")):
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1):
            if line.strip().startswith("#[cfg(test)]"):
                break
            for text in re.findall(
                r'(?:\.(?:why|fix)\(|Error::new\("[\w.]+", )(?:format!\()?"([^"]{20,})"', line
            ):
                place = f"{file.relative_to(root)}:{number}"
                yield from (Sentence("error", place, one) for one in split(text))


def _said(call: ast.Call) -> Iterator[str]:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if name.endswith("Error") or name in ("error", "refuse", "refused"):
        given = [
            *call.args[1:],
            *(one.value for one in call.keywords if one.arg in ("why", "fix", "message")),
        ]
    elif name in SAYS:
        given = call.args[:1]
    else:
        return
    for argument in given:
        text = rendered(argument)
        if len(text.split()) > 2:
            yield text


def rendered(node: ast.expr) -> str:
    """Return a string as people read it, with `{name}` for values; empty if it is not known."""
    if isinstance(node, ast.Constant):
        return re.sub(r"%[-.\d]*[sdfrg]", "{value}", node.value) if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        parts = (
            one.value if isinstance(one, ast.Constant) else "{" + _name(one.value) + "}"
            for one in node.values
            if isinstance(one, (ast.Constant, ast.FormattedValue))
        )
        return "".join(str(part) for part in parts)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return rendered(node.left) + rendered(node.right)
    return rendered(node.body) if isinstance(node, ast.IfExp) else ""


def _name(node: ast.expr) -> str:
    names = [
        one.id if isinstance(one, ast.Name) else one.attr
        for one in ast.walk(node)
        if isinstance(one, (ast.Name, ast.Attribute))
    ]
    return names[0] if names else "value"


def docstrings(root: Path = ROOT) -> Iterator[Sentence]:
    """Yield the sentences of docstrings of public modules, classes, functions, methods and constants."""
    for place, tree in sources(root):
        if not any(part.startswith("_") and part != "__init__.py" for part in place.split("/")):
            for where, text in _documented(tree, place):
                for paragraph in ITEM.split(PROSELESS.sub("", text)):
                    if not paragraph.startswith("    ") and "::" not in paragraph:
                        yield from (
                            Sentence("docstring", where, one) for one in split(" ".join(paragraph.split()))
                        )


def _documented(node: Any, place: str) -> Iterator[tuple[str, str]]:
    if text := ast.get_docstring(node):
        yield place, text
    before: ast.stmt | None = None
    for child in node.body:
        if isinstance(child, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            if not child.name.startswith("_"):
                yield from (
                    _documented(child, f"{place}: {child.name}")
                    if isinstance(child, ast.ClassDef)
                    else ([(f"{place}: {child.name}", text)] if (text := ast.get_docstring(child)) else [])
                )
        elif (
            isinstance(child, ast.Expr)
            and isinstance(child.value, ast.Constant)
            and isinstance(before, (ast.AnnAssign, ast.Assign))
        ):
            target = before.target if isinstance(before, ast.AnnAssign) else before.targets[0]
            if not getattr(target, "id", "_").startswith("_"):
                yield f"{place}: {getattr(target, 'id', '')}", str(child.value.value)
        before = child


def split(text: str) -> Iterator[str]:
    """Yield the sentences of a paragraph; what has fewer than three words is none."""
    begun = ""
    for part in re.split(r"(?<=[.!?])\s+(?=[A-Z`*])", text.strip()):
        begun = f"{begun} {part}" if begun else part
        if ABBREVIATION.search(begun):
            continue
        one, begun = begun.strip(" \n\b"), ""
        if len(one.split()) >= 3:
            yield one


def draw(seed: int, count: int, root: Path = ROOT) -> list[Sentence]:
    """Return a random draw; the same seed draws the same from the same tree."""
    rng = random.Random(seed)
    found: list[Sentence] = []
    kinds = {
        "document": documents(root),
        "help": help_texts(),
        "error": errors(root),
        "docstring": docstrings(root),
    }
    for kind, share in SHARES.items():
        unique = sorted({one.text: one for one in kinds[kind]}.values())
        found += rng.sample(unique, round(count * share))
    rng.shuffle(found)
    return found


def main() -> None:
    """Print a draw, numbered."""
    parser = argparse.ArgumentParser(prog="python -m scripts.sentences", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--places", action="store_true", help="print also where each sentence stands")
    options = parser.parse_args()
    for number, one in enumerate(draw(options.seed, options.count), start=1):
        print(f"{number:3} [{one.kind}] {one.text}" + (f"  ({one.place})" if options.places else ""))


if __name__ == "__main__":
    main()
