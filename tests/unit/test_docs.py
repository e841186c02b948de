"""The documents say what the code does: tables, examples and commands are compared with the sources."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main
from rich.text import Text

from ccp_algs import check_algorithm
from ccp_algs.example_aimd import AimdFold
from ccplane.agent import cli, front
from ccplane.agent.algorithms import find
from ccplane.agent.commands.first import text_for
from ccplane.base.errors import LangError
from ccplane.datapath import ebpf
from scripts import cards, facts, scenario_page
from scripts import commands as reference

ROOT = Path(__file__).parents[2]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
GUIDE = ROOT / "docs/writing-an-algorithm.md"
FOLDS = ROOT / "docs/fold-programs.md"
LANGUAGE = ROOT / "native/ccp-lang/src"
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def fences(document: Path, kind: str) -> list[str]:
    found = re.findall(r"^```(\w*)\n(.*?)^```$", document.read_text(), re.MULTILINE | re.DOTALL)
    return [text for its_kind, text in found if its_kind == kind]


def rows(document: Path, heading: str) -> list[list[str]]:
    """Cells of all tables whose first column has this heading; a `\\|` is no border."""
    found: list[list[str]] = []
    inside = False
    for line in document.read_text().splitlines():
        cells = [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if cells and cells[0] == heading:
            inside = True
        elif not cells:
            inside = False
        elif inside and not set(cells[0]) <= {"-"}:
            found.append(cells)
    return found


# --- the language ---


def test_what_the_header_describes_is_so_in_python_and_the_guide() -> None:
    assert facts.stale() == [], "`make facts`"


def test_the_guide_has_every_operator_with_its_operands() -> None:
    text = (LANGUAGE / "ast.rs").read_text()
    kinds = dict(re.findall(r'^    \("([^"]+)", Operator::(\w+), Op::\w+\),$', text, re.MULTILINE))
    assert len(kinds) > 20
    operands = {
        "Arithmetic": {"numbers"},
        "Compare": {"numbers"},
        "Logic": {"flags"},
        "Bind": {"a register, anything"},
        "Stateful": {"a flag, a value", "a weight, a value"},
    }
    reported = {
        spelling: row[1] for row in rows(FOLDS, "operator") for spelling in re.findall(r"`([^`]+)`", row[0])
    }
    assert set(reported) == set(kinds)
    assert {spelling for spelling, kind in kinds.items() if reported[spelling] not in operands[kind]} == set()


def test_the_limits_are_those_of_the_compiler() -> None:
    sources = "".join(path.read_text() for path in LANGUAGE.glob("*.rs"))
    limits = re.search(r"^## Limits$(.*)", FOLDS.read_text(), re.MULTILINE | re.DOTALL)
    assert limits is not None
    reported = {int(number.replace(",", "")) for number in re.findall(r"\d[\d,]*", limits[1])}
    names = ["MAX_REGISTERS", "MAX_INSTRS", "MAX_LIVE_TMPS", "MAX_TMPS", "MAX_DEPTH"]
    known = {int(re.search(rf"const {name}: usize = (\d+);", sources)[1]) for name in names}
    header = (ROOT / "native/ccp-bpf/src/bpf/intf.h").read_text()
    programs = int(re.search(r"CCP_MAX_PROGRAMS = (\d+)", header)[1]) - 1  # 0 stands for none
    assert reported == {*known, programs}


# --- examples ---


def test_the_smallest_algorithm_is_shown_as_it_is() -> None:
    assert fences(GUIDE, "python") == [text_for("mine")]


def test_the_program_as_text_is_the_one_of_the_builder() -> None:
    (text,) = (one for one in fences(FOLDS, "") if "Report.limited" in one)
    by_hand, built = ebpf.compile_program(text), ebpf.compile_program(AimdFold.source)
    assert by_hand.report_fields == built.report_fields
    assert by_hand.primitives == built.primitives


def test_the_error_that_is_shown_is_the_one_that_comes() -> None:
    (shown,) = (one for one in fences(FOLDS, "") if one.startswith("lang."))
    text = "(def (Report (acked 0)))\n(when true\n\n    (:= Report.acked (+ Report.acked Ack.bytes_ackd)))"
    with pytest.raises(LangError) as caught:
        ebpf.compile_program(text, origin="mine.py", first_line=6)
    place = re.compile(r"mine\.py:\d+:\d+")
    assert place.sub("HERE", str(caught.value)) == place.sub("HERE", shown.rstrip())


def test_the_readmes_algorithm_keeps_the_contract(tmp_path: Path) -> None:
    (text,) = fences(ROOT / "README.md", "python")
    file = tmp_path / "mine.py"
    file.write_text(text)
    algorithm: Any = find(str(file))
    assert algorithm.name == "mine"
    check_algorithm(algorithm, lambda source, name: ebpf.compile_program(source, name))


# --- commands ---


def programs() -> dict[str, Any]:
    """Every command of `ccp` as click has it; the first is `ccp` itself."""
    group: Any = typer.main.get_command(cli.app)
    return dict(front.tree(group, group.make_context("ccp", [], resilient_parsing=True)))


def commands() -> dict[str, set[str]]:
    """Every command of `ccp` with its options."""
    return {
        name: {
            option for parameter in command.params for option in [*parameter.opts, *parameter.secondary_opts]
        }
        | {"--help"}
        for name, command in programs().items()
    }


def test_help_says_all_of_what_is_written() -> None:
    """In brackets and in lower case it would be taken for a style, and vanish."""
    texts = [
        (name, text)
        for name, command in programs().items()
        for text in [command.help, *(getattr(parameter, "help", None) for parameter in command.params)]
    ]
    assert [(name, text) for name, text in texts if text and Text.from_markup(text).plain != text] == []


def mentions(document: Path) -> Iterator[tuple[str, list[str]]]:
    """Commands in shell examples and in backticks: what stands behind `ccp`, and the options."""
    text = document.read_text()
    lines = [line.partition("#")[0] for fence in fences(document, "sh") for line in fence.splitlines()]
    lines += re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL))
    for line in lines:
        if found := re.match(r"(?:sudo )?ccp(?= |$)(.*)", line.strip()):
            words = re.findall(r"'[^']*'|\S+", found[1])
            yield " ".join(words[:3]), [word for word in words if word.startswith("-")]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_commands_and_options_that_documents_name_exist(document: Path) -> None:
    known = commands()
    for words, options in mentions(document):
        parts = words.split()
        name = next((" ".join(parts[:n]) for n in (3, 2, 1) if " ".join(parts[:n]) in known), "")
        assert name or not parts or parts[0].startswith("-") or parts[0] in ("help", "COMMAND"), words
        if parts[1:2] != ["NAME"]:
            assert set(options) <= known[name] | known[""] | {"--all"}, f"ccp {words}: {options}"


def test_the_search_for_commands_finds_them() -> None:
    found = list(mentions(ROOT / "docs/live.md"))
    assert any(words.startswith("run mine.py") for words, _ in found)
    assert any("--control-keys" in options for _, options in found)
    assert len(found) > 20


def test_the_reference_page_and_the_man_page_are_those_of_the_commands() -> None:
    texts = reference.written()
    pages = (reference.PAGE, reference.MAN, reference.ERRORS, scenario_page.PAGE, *dict(cards.written()))
    for path in pages:
        assert path.read_text() == texts[path], "`make commands`"
    assert ROOT / cards.PAGE in pages
    assert all(path.read_text().strip() for path in reference.COMPLETION.values())
    assert PYPROJECT["tool"]["maturin"]["data"] == "wheel"
