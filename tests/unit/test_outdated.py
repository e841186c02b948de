"""Kept results that are older than what they are about, in real repositories."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from scripts import outdated
from scripts.outdated import RESULTS, ROOT, Result

KEPT = "results/kept.json"
TABLE = (Result("results/*.json", ("src", "one.py"), "make again"),)
MEASURED_ONCE = {
    "docs/results/brokers/brokers.json",
    "docs/results/evaluate-agreement.json",
    "docs/results/evaluate.json",
    *(
        f"docs/results/bench/{name}.json"
        for name in ("canary", "echo", "int", "ioam", "quic", "reload", "signal")
    ),
    "docs/results/bench/rtcp-8000-free.json",
    *(
        f"docs/results/oracles/{name}.json"
        for name in (
            "bbr3-google",
            "cubic-next-to-linux",
            "flex-cubic-program",
            "hyvar-learned",
            "r-tcp-module",
        )
    ),
}
"""No command of this version measures them."""

Commit = Callable[..., str]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "repository"
    root.mkdir()
    for command in (["init", "-q"], ["config", "user.name", "t"], ["config", "user.email", "t@example"]):
        subprocess.run(["git", *command], cwd=root, check=True)
    return root


@pytest.fixture
def commit(repository: Path) -> Commit:
    def make(**files: str) -> str:
        """Commit files, `__` for `/` in their names, and return the commit."""
        for name, text in files.items():
            file = repository / name.replace("__", "/")
            file.parent.mkdir(exist_ok=True)
            file.write_text(text)
        for command in (["add", "-A"], ["commit", "-q", "--allow-empty", "-m", "x"]):
            subprocess.run(["git", *command], cwd=repository, check=True)
        return subprocess.check_output(["git", "rev-parse", "HEAD"], cwd=repository, text=True).strip()

    return make


def keep(repository: Path, content: object) -> None:
    (repository / "results").mkdir(exist_ok=True)
    (repository / KEPT).write_text(json.dumps(content))


def found(repository: Path) -> list[str]:
    return list(outdated.outdated(repository, TABLE))


def test_a_result_is_outdated_once_an_input_changed_after_its_commit(
    repository: Path, commit: Commit
) -> None:
    measured = commit(src__a="1")
    keep(repository, {"git": {"commit": measured, "dirty": False}})
    commit()
    commit(other="1")
    assert found(repository) == []
    changed = commit(src__a="2")
    commit(other="2")
    (line,) = found(repository)
    today = subprocess.check_output(["git", "log", "-1", "--format=%cs"], cwd=repository, text=True).strip()
    assert line.startswith(f"outdated: {KEPT}: of {measured[:7]}")
    assert f"({today}), but {changed[:7]}" in line
    assert line.endswith("changed its inputs; renew with `make again`")


def test_a_removed_input_and_a_merged_one_are_changes(repository: Path, commit: Commit) -> None:
    commit(src__a="1")
    subprocess.run(["git", "checkout", "-q", "-b", "side"], cwd=repository, check=True)
    commit(one="1")
    (repository / "src/a").unlink()
    commit()
    subprocess.run(["git", "checkout", "-q", "-"], cwd=repository, check=True)
    keep(repository, {"6.1": {"revision": commit(other="1")[:7]}})
    commit()
    assert found(repository) == []
    # The merged commit is older than the measurement, which did not have it.
    subprocess.run(["git", "merge", "-q", "-m", "x", "side"], cwd=repository, check=True)
    assert len(found(repository)) == 1


def test_each_commit_of_a_result_counts_and_equal_ones_are_one_line(repository: Path, commit: Commit) -> None:
    first = commit(src__a="1")
    second = commit(src__a="2")
    keep(repository, {"6.1": {"revision": first[:7] + "+"}, "7": {"revision": second[:7]}})
    (repository / "results/other.json").write_text(json.dumps({"revision": first[:7]}))
    (line,) = found(repository)
    assert line.startswith(f"outdated: {KEPT}, results/other.json: of {first[:7]}")


@pytest.mark.parametrize(
    ("content", "why"),
    [({"verdict": 1}, "it records no commit"), ({"revision": "0123456"}, "commit 0123456 is unknown here")],
)
def test_without_a_known_commit_the_last_change_of_the_file_counts(
    repository: Path, commit: Commit, content: object, why: str
) -> None:
    commit(src__a="1")
    keep(repository, content)
    assert found(repository) == []  # not committed yet
    kept = commit()
    assert found(repository) == []
    commit(src__a="2")
    (line,) = found(repository)
    assert f"of {kept[:7]}" in line
    assert f"(the last change of the file: {why})" in line


def test_strict_fails_and_the_default_warns(
    repository: Path, commit: Commit, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (repository / "docs").mkdir()
    (repository / "docs/kernels.json").write_text(json.dumps({"7": {"revision": commit()}}))
    assert outdated.main(["--strict"], repository) == 0
    (repository / "tests/kernel").mkdir(parents=True)
    (repository / "tests/kernel/test_a.py").touch()
    commit()
    assert outdated.main([], repository) == 0
    assert outdated.main(["--strict"], repository) == 1
    assert capsys.readouterr().out.count("outdated: docs/kernels.json: of ") == 2


@pytest.mark.parametrize("lack", ["history", "repository", "git"])
def test_without_history_one_line_says_why_nothing_was_checked(
    lack: str,
    repository: Path,
    commit: Commit,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    commit()
    commit()
    place = tmp_path / "place"
    if lack == "history":
        subprocess.run(["git", "clone", "-q", "--depth", "1", repository.as_uri(), place], check=True)
    else:
        place.mkdir()
    if lack == "git":
        monkeypatch.setenv("PATH", str(tmp_path))
    assert outdated.main([], place) == 0
    assert outdated.main(["--strict"], place) == 1
    line, again = capsys.readouterr().out.splitlines()
    assert line == again
    assert line.startswith("kept results: cannot tell whether they are outdated: ")


def test_each_kept_result_and_each_input_is_there() -> None:
    of_table = {str(file.relative_to(ROOT)) for result in RESULTS for file in ROOT.glob(result.files)}
    kept = {str(file.relative_to(ROOT)) for file in (ROOT / "docs/results").rglob("*.json")}
    # Papers and the simulator's validation are results of the code of their time.
    of_their_time = {
        name for name in kept if name.startswith(("docs/results/papers/", "docs/results/validation/"))
    }
    assert kept - of_their_time - MEASURED_ONCE == of_table - {"docs/kernels.json"}
    for result in RESULTS:
        for name in result.inputs:
            assert any(ROOT.glob(name)), f"{result.files}: no file is named {name}"


def test_make_quick_warns_and_the_release_is_strict() -> None:
    assert "-m scripts.outdated" in (ROOT / "Makefile").read_text()
    assert "python -m scripts.outdated --strict" in (ROOT / "docs/releases.md").read_text()
