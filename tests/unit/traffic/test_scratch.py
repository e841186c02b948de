from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from experiments.netlab import Host, names
from experiments.netlab.host import Belongings
from experiments.traffic import scratch


@pytest.fixture(autouse=True)
def _own_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scratch.tempfile, "tempdir", str(tmp_path))


def host_of(owner: names.Owner) -> Host:
    return Host("web-1", names.namespace_name(owner, 1, "web-1"), Belongings())


def test_folders_of_the_dead_go_and_those_of_the_living_stay(tmp_path: Path) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    left = tmp_path / f"ccplane-traffic-{host_of(names.Owner(ended.pid, 1)).namespace}-x1_y2"
    left.mkdir()
    (left / "file").write_text("x")
    foreign = tmp_path / "ccplane-traffic-notes"
    foreign.mkdir()
    with scratch.make_folder(host_of(names.this_process())) as mine:
        assert not left.exists()
        assert Path(mine).is_dir()
        assert scratch.clean_leftovers() == []
        assert oct(os.stat(mine).st_mode & 0o777) == "0o700"
    assert [path.name for path in tmp_path.iterdir()] == [foreign.name]
