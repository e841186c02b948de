"""What `ccp bench` promises: all benchmarks run and are documented; errors say what is wrong."""

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

ROOT = Path(__file__).parents[3]


def test_every_benchmark_is_among_all_and_in_the_document() -> None:
    commands = {one.name for one in app.registered_commands} - {"all", "show"}
    assert commands == {*BENCHMARKS}
    text = (ROOT / "docs/benchmarks.md").read_text()
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
    files = [file for name in ("bench", "validation") for file in (ROOT / "experiments" / name).glob("*.py")]
    sources = [file for file in files if file.name != "errors.py"]
    raised = set(re.findall(r'"(bench\.[a-z_]+)"', "".join(file.read_text() for file in sources)))
    assert raised == set(SLUGS)
    folder = ROOT / "tests/unit/experiments"
    tests = "".join(
        file.read_text() for name in ("bench", "validation") for file in folder.glob(f"test_{name}_*.py")
    )
    assert [slug for slug in SLUGS if f'"{slug}"' not in tests] == []
