from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from experiments.runs import metadata


def test_asking_for_the_revision_writes_nothing_into_the_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process killed while git refreshes its index leaves a lock that blocks the user's next commit."""
    file, index = tmp_path / "file", tmp_path / ".git" / "index"
    file.write_text("one\n")
    who = ["-c", "user.name=somebody", "-c", "user.email=somebody@example.org"]
    for command in (["init", "-q"], ["add", "."], [*who, "commit", "-q", "-m", "first"]):
        subprocess.run(["git", "-C", str(tmp_path), *command], check=True)
    os.utime(file, (1, 1))  # unchanged, but git must check the file, and would then update its index
    before = index.stat().st_mtime_ns, index.read_bytes()
    monkeypatch.setattr(metadata, "_ROOT", tmp_path)
    reported = metadata.git_revision()
    assert reported is not None
    assert reported["dirty"] is False
    assert (index.stat().st_mtime_ns, index.read_bytes()) == before
