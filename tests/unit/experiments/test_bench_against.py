"""Comparing builds: the rule and its error rates, kept results, checking out and building."""

from __future__ import annotations

import contextlib
import errno
import io
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

from experiments.bench import builds, side_by_side
from experiments.bench.against import Comparison
from experiments.bench.builds import build_of
from experiments.bench.cli import app
from experiments.bench.errors import BenchError
from experiments.bench.rounds import Plan
from experiments.bench.verdicts import FEWEST_PAIRS, PAIRS, Judgement, Rule, Verdict, judge, judge_pairs

COST = Rule(0.05)
SPEED = Rule(0.05, more_is_better=True)
HOST: dict[str, str | int] = {"kernel": "6.18.0", "cores": 2}
ABOUT = {"command": ["ccp"], "git": None, "date": "2026-01-01T00:00:00+00:00", "host": HOST}


@pytest.mark.parametrize(
    ("low", "high", "cost", "speed"),
    [
        (1.06, 1.2, "worse", "better"),
        (0.8, 0.94, "better", "worse"),
        (0.96, 1.04, "same", "same"),
        (1.04, 1.2, "undecided", "undecided"),
        (0.9, 1.0, "undecided", "undecided"),
        (0.9, 1.2, "undecided", "undecided"),
    ],
)
def test_a_verdict_needs_the_whole_interval(low: float, high: float, cost: str, speed: str) -> None:
    assert (judge(low, high, COST), judge(low, high, SPEED)) == (cost, speed)


def test_the_interval_of_eight_pairs_is_from_the_min_to_the_max() -> None:
    # Signed ranks: P(sum = 0) = 2^-8 = 0.39 %, so that a sum of 0 is all that 99 % leave out.
    found = judge_pairs([1.1, 1.3, 1.2, 1.15, 1.25, 1.12, 1.22, 1.18], COST)
    assert (found.low, found.high) == (pytest.approx(1.1), pytest.approx(1.3))
    assert (found.value, found.verdict) == (pytest.approx(1.19, rel=0.01), Verdict.WORSE)


def test_one_pair_of_ten_that_is_far_off_does_not_decide() -> None:
    # n = 10: sums up to 3 have 5 ways of 1024, 0.49 %: the interval leaves out 3 averages at either end.
    pairs = np.exp([-1.0, 0.30, 0.31, 0.32, 0.33, 0.34, 0.35, 0.36, 0.37, 0.38])
    found = judge_pairs(pairs.tolist(), COST)
    # The smallest averages are those with the outlier: -1, then half of -0.70, -0.69, -0.68.
    assert np.log(found.low) == pytest.approx(-0.34)
    assert found.verdict is Verdict.UNDECIDED
    less_far = np.exp([-0.1, 0.30, 0.31, 0.32, 0.33, 0.34, 0.35, 0.36, 0.37, 0.38])
    assert judge_pairs(less_far.tolist(), COST).verdict is Verdict.WORSE


def test_too_few_values_have_no_verdict() -> None:
    with pytest.raises(ValueError, match="7 pairs"):
        judge_pairs([1.0] * (FEWEST_PAIRS - 1), COST)


def noisy(rng: np.random.Generator, median: float, size: int) -> np.ndarray:
    """Figures as a shared machine has them: mostly close, now and then far off on either side."""
    spread = np.where(rng.random(size) < 0.2, 0.4, 0.08)
    return median * np.exp(spread * rng.standard_normal(size))


def rates(verdicts: Sequence[Verdict], which: Verdict) -> float:
    return sum(one is which for one in verdicts) / len(verdicts)


def compared(true_ratio: float, times: int) -> list[Verdict]:
    rng = np.random.default_rng(7)
    ratios = [noisy(rng, true_ratio, PAIRS) / noisy(rng, 1.0, PAIRS) for _ in range(times)]
    return [judge_pairs(one.tolist(), COST).verdict for one in ratios]


def test_mistakes_are_as_rare_as_the_rule_says() -> None:
    # Of 4,000, 0.5 % are 20, and 4 standard deviations more are 38.
    assert rates(compared(1.05, 4000), Verdict.WORSE) <= 38 / 4000
    assert rates(compared(1.0, 4000), Verdict.WORSE) <= 4 / 4000
    assert rates(compared(1 / 1.05, 4000), Verdict.BETTER) <= 38 / 4000


def test_300_ns_more_are_found_where_an_ack_costs_300() -> None:
    assert rates(compared(2.0, 500), Verdict.WORSE) > 0.95


def test_what_is_worse_is_said_in_the_table_in_json_and_by_the_exit_code() -> None:
    found = Comparison("against", Plan(), {"against": "main"}, about=ABOUT)
    found.judged["throughput.unlimited"] = Judgement(1.0, 0.99, 1.01, 0.02, Verdict.SAME)
    assert found.exit_code == 0
    found.judged["ack_ns.1gbit"] = Judgement(2.0, 1.9, 2.1, 0.05, Verdict.WORSE)
    assert found.exit_code == 1
    out = io.StringIO()
    found.print(Console(file=out, width=100))
    line = next(line for line in out.getvalue().splitlines() if "ack_ns" in line)
    assert line.split() == ["ack_ns.1gbit", "2", "1.9", "-", "2.1", "5%", "worse"]
    assert '"verdict": "worse"' in found.to_json()


def test_builds_are_compared_as_users_have_them() -> None:
    done = CliRunner().invoke(app, ["datapath", "--against", "main", "--congestion-control", "bbr"])
    assert isinstance(done.exception, BenchError)
    assert done.exception.slug == "bench.bad_options"


def test_a_kernel_that_cannot_have_two_builds_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_link: Path) -> None:
        raise OSError(errno.EOPNOTSUPP, "Operation not supported")

    monkeypatch.setattr(side_by_side, "running_agent", lambda *_, **__: contextlib.nullcontext())
    monkeypatch.setattr(side_by_side, "programs", frozenset)
    monkeypatch.setattr(side_by_side, "detach_link", refuse)
    with pytest.raises(BenchError) as caught, side_by_side.side_by_side({"a": builds.this_build()}, "cubic"):
        pass
    assert caught.value.slug == "bench.cannot_compare"


CARGO = """#!/bin/sh
echo "   Compiling ccp-native v0.1.0" >&2
{then}
"""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with one commit, tagged `old`."""
    there = tmp_path / "repository"
    (there / "native").mkdir(parents=True)
    (there / "datapath").mkdir()
    (there / "native/Cargo.toml").write_text("")
    (there / "pyproject.toml").write_text('[tool.maturin]\nmodule-name = "datapath._native"\n')
    (there / "datapath/__init__.py").write_text("")
    identity = ["-c", "user.name=x", "-c", "user.email=x@localhost"]
    for command in (["init", "-q"], ["add", "."], [*identity, "commit", "-qm", "x"], ["tag", "old"]):
        subprocess.run(["git", "-C", str(there), *command], check=True)
    return there


@pytest.fixture
def cargo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A `cargo` that fails, for now."""
    program = tmp_path / "bin/cargo"
    program.parent.mkdir()
    program.write_text(CARGO.format(then="echo 'error: no' >&2; exit 101"))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    return program


def test_an_unknown_revision_is_an_error(repository: Path) -> None:
    with pytest.raises(BenchError) as caught:
        build_of("no-such", lambda _: None, repository=repository)
    assert caught.value.slug == "bench.unknown_revision"
    assert "`no-such`" in caught.value.message


def test_a_build_that_fails_says_why_and_is_tried_again(repository: Path, cargo: Path) -> None:
    reported: list[str] = []
    with pytest.raises(BenchError) as caught:
        build_of("old", reported.append, repository=repository)
    assert caught.value.slug == "bench.build_failed"
    assert "error: no" in caught.value.why
    assert reported[-1] == "old: error: no"
    made = 'mkdir -p "$CARGO_TARGET_DIR/release" && echo built > "$CARGO_TARGET_DIR/release/lib_native.so"'
    cargo.write_text(CARGO.format(then=made))
    build = build_of("old", reported.append, repository=repository)
    assert builds.extension_of(build.packages).read_text() == "built\n"
    assert (build.packages / "datapath/__init__.py").exists()


def test_a_revision_is_built_once(repository: Path, cargo: Path) -> None:
    made = 'mkdir -p "$CARGO_TARGET_DIR/release" && echo built >> "$CARGO_TARGET_DIR/release/lib_native.so"'
    cargo.write_text(CARGO.format(then=made))
    first = build_of("old", lambda _: None, repository=repository)
    cargo.write_text(CARGO.format(then="exit 101"))
    assert build_of("HEAD", lambda _: None, repository=repository).packages == first.packages
