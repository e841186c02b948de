"""The tables of benchmarks in the documents are those of the kept results; what `ccp bench` promises."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from experiments.bench import every
from experiments.bench.cli import app
from experiments.bench.datapath import need_congestion_controls
from experiments.bench.errors import SLUGS, BenchError
from experiments.bench.every import BENCHMARKS
from experiments.bench.result import BenchResult
from experiments.bench.rounds import Plan, Tally
from scripts.marks import filled
from scripts.tables import BEGIN, DOCS, END, WRITERS, benchmarks, kept_benchmarks

ROOT = Path(__file__).parents[3]


def kept(name: str = "flows") -> BenchResult:
    about = {
        "command": ["ccp", "bench", name, "--keep", "/somewhere/else", "--rounds", "6"],
        "git": {"commit": "0123456789abcdef", "dirty": False},
        "date": "2026-11-23T00:00:00+00:00",
        "host": {"kernel": "6.18.0", "cpu": "a processor", "cores": 2},
    }
    result = BenchResult(name, Plan(), {}, {name: Tally(6, 1, {"steal": 1})}, about=about)
    result.add("cpu_ratio", [1.0, 1.0, 1.01, 1.0, 1.0, 1.0], "ratio", "<= 1.02")
    return result


@pytest.mark.parametrize("page", WRITERS, ids=lambda page: page.stem)
def test_pages_have_the_tables_of_the_kept_results(page: Path) -> None:
    text = page.read_text()
    assert WRITERS[page](text) == text, "run `make docs-tables`"
    if page.name == "benchmarks.md":
        assert text.count(BEGIN) == text.count(END) == 1


def test_a_table_says_what_was_measured_where_and_how_sure_it_is() -> None:
    text = benchmarks([kept()])
    assert "### `ccp bench flows --rounds 6`\n" in text
    assert "2026-11-23, `0123456789ab`, Linux 6.18.0, a processor, 2 processors.\n" in text
    assert "flows: 6 rounds, 1 disturbed (steal 1)" in text
    assert "| `cpu_ratio` | 1 | 1 - 1.01 | ratio | <= 1.02 | met |" in text


def test_what_was_changed_by_hand_is_found(tmp_path: Path) -> None:
    def written(text: str) -> str:
        return filled(text, f"{BEGIN}\n", END, benchmarks(found))

    for name in ("latency", "sim"):
        kept(name).keep(tmp_path)
    found = kept_benchmarks(tmp_path)
    assert [one.name for one in found] == ["sim", "latency"], "in the order of the benchmarks"
    text = written(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "old" not in text
    assert written(text) == text
    assert written(text.replace("| 1 |", "| 2 |")) == text != text.replace("| 1 |", "| 2 |")


def test_every_benchmark_is_among_all_and_in_the_document() -> None:
    commands = {one.name for one in app.registered_commands} - {"all", "show"}
    assert commands == {*BENCHMARKS}
    text = (DOCS / "benchmarks.md").read_text().partition(BEGIN)[0]
    assert set(re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)) == commands


def test_all_are_run_even_if_one_fails(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    # Real processes: the interpreter is replaced by a program that fails for one of them.
    program = tmp_path / "program"
    program.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/calls\ncase "$*" in *latency*) exit 1;; esac\n')
    program.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(program))
    with Console().capture() as _:
        console = Console(record=True, width=200)
        assert every.run(console, tmp_path / "kept") == ["latency"]
    calls = (tmp_path / "calls").read_text().splitlines()
    assert [line.split()[-3] for line in calls] == list(BENCHMARKS)
    assert all(line.endswith(f"--keep {tmp_path}/kept") for line in calls)
    said = console.export_text()
    assert f"datapath: {BENCHMARKS['datapath'].minutes_text}" in said
    assert re.search(r"all: \d+ to \d+ minutes", said)
    assert said.index("all:") < said.index("sim took")


def test_bad_options_and_unknown_names_are_errors(any_load: None) -> None:
    ran = CliRunner().invoke(app, ["sim", "--rounds", "9", "--max-rounds", "5"])
    assert isinstance(ran.exception, BenchError)
    assert ran.exception.slug == "bench.bad_options"
    with pytest.raises(BenchError) as caught:
        need_congestion_controls(["cubik"])
    assert caught.value.slug == "bench.unknown_name"


def test_every_error_is_raised_and_has_a_test() -> None:
    sources = [file for file in (ROOT / "experiments/bench").glob("*.py") if file.name != "errors.py"]
    raised = set(re.findall(r'"(bench\.[a-z_]+)"', "".join(file.read_text() for file in sources)))
    assert raised == set(SLUGS)
    tests = "".join(file.read_text() for file in (ROOT / "tests/unit/experiments").glob("test_bench_*.py"))
    assert [slug for slug in SLUGS if f'"{slug}"' not in tests] == []
