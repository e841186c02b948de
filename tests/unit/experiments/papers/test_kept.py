"""Results of parts are kept completely, and can be shown again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from ccplane.base.errors import UsageError
from experiments.errors import ResultError
from experiments.papers.commands import app
from experiments.papers.kept import Kept, _command, reported_left_out
from experiments.papers.tables import Check, Table
from experiments.statistics import Estimate

ROWS = pd.DataFrame(
    {
        "algorithm": ["cubic"] * 6 + ["hyvar"],
        "goodput_bytes_per_s": [1e6, 1e6, 1.05e6, 1.05e6, 1.1e6, 1.1e6, 2e6],
        "rtt_p50_us": [10_000.0, 12_000.0] * 3 + [float("nan")],
    }
)


def kept() -> Kept:
    table = Table.of(ROWS, "two algorithms", ["algorithm"], ["goodput_bytes_per_s", "rtt_p50_us"])
    nothing = Estimate(float("nan"), float("nan"), float("nan"), 0)
    checks = (
        Check("speed of hyvar", Estimate(2.0, 1.5, 2.5, 6), low=1.2, name="faster"),
        Check("delay of hyvar", Estimate(2.0, 1.5, 2.5, 6), high=1.0),
        Check("not measured", nothing, low=0),
    )
    about = {
        "command": ["ccp", "paper", "hyvar", "--part", "paths"],
        "git": {"commit": "0123456789abcdef", "dirty": False},
        "date": "2026-11-24T01:00:00+00:00",
        "host": {"kernel": "6.18.0", "cpu": "a processor", "cores": 2},
    }
    return Kept("hyvar", "paths", 9, 9, {"the emulator was late": 2}, (table,), checks, about)


def test_what_is_kept_is_read_as_it_was(tmp_path: Path) -> None:
    before = kept()
    file = before.keep(tmp_path)
    assert file == tmp_path / "hyvar/paths.json"
    after = Kept.read(file)
    assert after.source == before.source
    assert [one.cells() for one in after.tables] == [one.cells() for one in before.tables]
    assert [str(one) for one in after.checks] == [str(one) for one in before.checks]
    after.keep(tmp_path / "again")
    assert (tmp_path / "again/hyvar/paths.json").read_text() == file.read_text()


def test_runs_that_do_not_count_are_reported_with_their_reasons() -> None:
    assert reported_left_out({}) == ""
    reported = reported_left_out({"the emulator was late": 2, "other work used the processors": 1})
    assert reported == ", 3 of them not counted (the emulator was late: 2; other work used the processors: 1)"


def test_results_are_shown_with_source_units_and_intervals() -> None:
    assert kept().source == (
        "`ccp paper hyvar --part paths`: 9 of 9 runs, 2 of them not counted (the emulator was late: 2); "
        "2026-11-24, `0123456789ab`, Linux 6.18.0, a processor, 2 processors."
    )
    assert [str(one) for one in kept().checks] == [
        "holds: speed of hyvar is at least 1.2: 2.000 [1.500, 2.500], 6 runs",
        "FAILS: delay of hyvar is at most 1: 2.000 [1.500, 2.500], 6 runs",
        "open: not measured is at least 0: not measured",
    ]
    first, second = kept().tables[0].cells()
    assert first[:2] == ["ccplane CUBIC", "8.40 [8.00, 8.80]"]
    assert second == ["hyvar", "16.0", "?", "1"]


def test_saved_results_are_printed_by_part(tmp_path: Path) -> None:
    replace(kept(), part="paths-sim").keep(tmp_path)
    kept().keep(tmp_path)

    def said(*options: str) -> str:
        done = CliRunner().invoke(app, ["show", "hyvar", "--results", str(tmp_path), *options])
        assert done.exception is None
        return done.output

    assert "paths-sim: `ccp paper" in said("--part", "paths-sim")
    assert "paths: `ccp paper" not in said("--part", "paths-sim")
    assert said("--part", "paths") == said()
    assert all(words in said() for words in ("paths: `ccp paper", "paths-sim: `ccp paper", "two algorithms"))
    with pytest.raises(UsageError, match="no saved results of a part `tables`"):
        CliRunner().invoke(
            app, ["show", "hyvar", "--results", str(tmp_path), "--part", "tables"], catch_exceptions=False
        )


def test_what_is_no_result_is_reported(tmp_path: Path) -> None:
    file = tmp_path / "paths.json"
    file.write_text("{}")
    with pytest.raises(ResultError) as caught:
        Kept.read(file)
    assert caught.value.slug == "result.broken"
    assert str(file) in caught.value.where


def test_a_command_says_what_was_run_and_not_where_it_went() -> None:
    said = ["ccp", "paper", "hyvar", "--quick", "--part", "mtp", "--keep", "x", "--no-run", "--out=y"]
    assert _command(said, "paths") == ["ccp", "paper", "hyvar", "--quick", "--part", "paths"]
