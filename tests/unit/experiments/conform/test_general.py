"""The suite `general` finds each planted defect, and raises no alarm for sound algorithms."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from experiments.conform import run_suite
from experiments.conform.command import app
from experiments.conform.known import KNOWN
from experiments.conform.running import cases
from experiments.demo.runs import MINE

DEFECTS = Path(__file__).parent / "defects"
FOUND_BY = {
    "bbr_without_loss_response": ["slows-down-under-heavy-loss", "keeps-losses-low-among-several"],
    "endless_slow_start": ["leaves-slow-start"],
    "grows_while_app_limited": ["does-not-grow-while-the-application-limits-it"],
    "no_reaction_to_ecn": ["reacts-to-ecn"],
    "rate_in_bits": ["paces-at-a-rate-that-fits-the-path", "leaves-slow-start"],
    "rtt_in_ms": ["fills-an-empty-path"],
    "truncated_cube_root": ["stays-slower-after-a-loss"],
    "unpaced": ["sends-no-burst-after-idle", "keeps-losses-low-in-a-shallow-buffer"],
    "window_pinned_after_idle": ["grows-again-after-idle"],
    "window_restored_after_idle": ["sends-no-burst-after-idle"],
}
SOUND = {
    "bbr_without_loss_response": "bbr3",
    "no_reaction_to_ecn": "reno",
    "rate_in_bits": str(DEFECTS / "paced.py"),
    "rtt_in_ms": str(DEFECTS / "paced.py"),
    "truncated_cube_root": "cubic",
    "unpaced": str(DEFECTS / "paced.py"),
}
"""Defect -> the algorithm without it; kernel/reno where that is the closest."""


def failing(algorithm: str, *only: str, seeds: range = range(1, 2)) -> list[str]:
    results = run_suite("general", algorithm, seeds=seeds, only=only)
    return [f"{one.case} {one.seed}: {one.said}" for one in results if one.outcome == "fails"]


def test_each_defect_is_listed() -> None:
    assert {file.stem for file in DEFECTS.glob("*.py")} == {*FOUND_BY, "paced"}


@pytest.mark.parametrize("defect", FOUND_BY)
def test_a_planted_defect_is_found_and_its_absence_is_not(defect: str) -> None:
    wanted = FOUND_BY[defect]
    found = failing(str(DEFECTS / f"{defect}.py"), *wanted)
    assert [one.partition(" ")[0] for one in found] == [
        one.name for one in cases("general") if one.name in wanted
    ], found
    assert failing(SOUND.get(defect, "kernel/reno"), *wanted) == []


@pytest.mark.parametrize(
    "algorithm", ["kernel/reno", "kernel/cubic", "cubic", str(DEFECTS / "paced.py"), str(MINE)]
)
def test_sound_algorithms_raise_no_alarm(algorithm: str) -> None:
    assert failing(algorithm) == []


@pytest.mark.long
@pytest.mark.parametrize("algorithm", ["kernel/reno", "kernel/cubic", "cubic"])
def test_sound_algorithms_raise_no_alarm_on_ten_seeds(algorithm: str) -> None:
    assert failing(algorithm, seeds=range(1, 11)) == []


@pytest.mark.parametrize(
    ("algorithm", "case"),
    [
        ("kernel/bbr", "keeps-losses-low-among-several"),  # RFC 9743 section 5.1.3 says so of version 1
        ("flex_cubic", "keeps-losses-low-in-a-shallow-buffer"),  # docs/flex-cubic.md
        ("aimd", "reacts-to-ecn"),  # it reads losses alone
    ],
)
def test_what_is_known_of_algorithms_is_found(algorithm: str, case: str) -> None:
    assert failing(algorithm, case) != []


def test_a_known_alarm_is_explained(tmp_path: Path) -> None:
    args = ["general", "aimd", "--case", "reacts-to-ecn", "-o", str(tmp_path)]
    assert f"known  {KNOWN['aimd']['reacts-to-ecn']}" in CliRunner().invoke(app, args).output


@pytest.mark.long
@pytest.mark.parametrize("algorithm", [*KNOWN, "bbr3", "lt_cubic", "r_hybrid"])
def test_the_alarms_are_the_known_ones(algorithm: str) -> None:
    found = {one.partition(" ")[0] for one in failing(algorithm, seeds=range(1, 4))}
    assert found == set(KNOWN.get(algorithm, {}))
