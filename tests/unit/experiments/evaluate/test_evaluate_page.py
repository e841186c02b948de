from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[4]
MINE = (ROOT / "ccplane/templates/mine.py").read_text()
SMALL = "--quick --only alone-tenth --repeats 6 --jobs 1"
IDENTITY = {f"GIT_{who}_{what}": "test@test" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}


def steps() -> Iterator[dict[str, Any]]:
    """Yield the steps of the workflow on the page that are commands, without the installation."""
    text = (ROOT / "docs/evaluate.md").read_text()
    (found,) = re.findall(r"^```yaml\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    workflow = yaml.safe_load(found)
    yield from (
        one
        for one in workflow["jobs"]["evaluate"]["steps"]
        if "run" in one and not one["run"].startswith("pip install")
    )


@pytest.fixture
def pull_request(tmp_path: Path) -> Path:
    """Return a clone of a repository with `mine.py`, on a branch of its own."""
    origin, clone = tmp_path / "origin", tmp_path / "clone"
    origin.mkdir()
    (origin / "mine.py").write_text(MINE)
    for command in ("init -q -b main", "add mine.py", "commit -q -m first"):
        git(origin, command)
    git(tmp_path, "clone -q origin clone")
    git(clone, "switch -q -c change")
    return clone


def git(where: Path, command: str) -> None:
    subprocess.run(["git", *command.split()], cwd=where, env=os.environ | IDENTITY, check=True)


def status(clone: Path) -> int:
    """Do the steps of the workflow, and return the exit code of the first that fails."""
    summary = clone / "summary.md"
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    env = os.environ | {"GITHUB_BASE_REF": "main", "GITHUB_STEP_SUMMARY": str(summary), "PATH": path}
    failed = 0
    for step in steps():
        if failed and step.get("if") != "always()":
            continue
        command = step["run"].replace("--quick", SMALL)
        done = subprocess.run(["bash", "-ec", command], cwd=clone, env=env, capture_output=True, text=True)
        failed = failed or done.returncode
        if done.returncode:
            assert "Worse than in the baseline\n  alone-tenth: goodput" in done.stdout, done.stderr
    assert "# Evaluation of mine" in summary.read_text()
    assert (clone / "mine.html").exists()
    return failed


def test_the_workflow_passes_without_a_change_and_fails_with_a_worse_one(pull_request: Path) -> None:
    assert status(pull_request) == 0
    git(pull_request, "worktree remove --force base")
    (pull_request / "mine.py").write_text(MINE.replace("0.6 if", "0.2 if"))
    assert status(pull_request) == 1
