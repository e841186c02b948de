from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ccp_algs.hyvar.policy import load_policy
from ccplane.agent.cli import app as ccp
from experiments.learning import training
from experiments.learning.commands import _run, app
from tests.train.short import SHORT


def ran(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_a_policy_is_trained_continued_exported_and_evaluated(tmp_path: Path) -> None:
    directory, first, second = tmp_path / "training", tmp_path / "a.safetensors", tmp_path / "b.safetensors"
    reported = ran("hyvar", "--out", str(directory), "--environments", "2", "--steps", "1")
    ran("export", str(directory), "-o", str(first))
    assert "128 steps" in reported
    assert json.loads(load_policy(first).about["trained"]) == {"steps": 128, "seed": 1}
    assert "256 steps" in ran("hyvar", "--resume", str(directory), "--steps", "200")
    assert "sha256" in ran("export", str(directory), "-o", str(second))
    assert json.loads(load_policy(second).about["trained"])["steps"] == 256
    rows = json.loads(ran("evaluate", str(second), "--training", str(directory), "--paths", "2", "--json"))
    assert {row["contender"] for row in rows} == {"hybrid", "policy", "initial", "cubic", "reno", "bbr"}
    assert all(0 < row["utilisation"] < 1.1 for row in rows)
    table = ran("evaluate", str(second), "--paths", "2")
    assert "throughput / CUBIC" in table
    assert "[ms]" in table
    assert "hybrid" in table
    both = ran("evaluate", str(first), str(second), "--paths", "2")
    assert "median of 2" in both
    assert "hybrid" not in both


def test_domain_and_reward_are_files(tmp_path: Path) -> None:
    domain, reward, directory = tmp_path / "mine.yaml", tmp_path / "mine.py", tmp_path / "training"
    domain.write_text(ran("domain").replace("traces: 24", "traces: 2"))
    reward.write_text(ran("reward", "slides"))
    given = ("--domain", str(domain), "--reward", str(reward))
    ran("hyvar", "--out", str(directory), "--environments", "2", "--steps", "1", *given)
    config = json.loads((directory / "config.json").read_text())
    assert config["domain"]["traces"] == 2
    assert (directory / "reward.py").read_text() == reward.read_text()
    reward.unlink()
    assert "256 steps" in ran("hyvar", "--resume", str(directory), "--steps", "200")
    result = CliRunner().invoke(app, ["hyvar", "--resume", str(directory), *given])
    assert result.exception is not None
    assert "keeps its domain and reward" in str(result.exception)


def test_ctrl_c_keeps_what_was_learned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = training.start(SHORT, tmp_path)
    save = trainer.model.train

    def interrupted() -> None:
        save()
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(trainer.model, "train", interrupted)
    before = signal.getsignal(signal.SIGINT)
    _run(trainer, 1_000_000)
    assert signal.getsignal(signal.SIGINT) is before
    assert trainer.steps <= 2 * SHORT.worlds * SHORT.steps_per_update
    assert training.resume(tmp_path).steps == trainer.steps


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (
        "experiments.learning.export",
        "experiments.learning.training",
        "experiments.learning.sb3_env",
    ):
        monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.setitem(sys.modules, "stable_baselines3", None)
    import experiments.learning

    for name in ("export", "training"):
        monkeypatch.delattr(experiments.learning, name, raising=False)
    result = CliRunner().invoke(ccp, ["train", "hyvar"])
    assert result.exit_code != 0
    assert "load.no_extra" in result.output
    assert "ccplane[train]" in result.output
