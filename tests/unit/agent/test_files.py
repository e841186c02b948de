from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ccplane.agent.files import Files, ReadingThread

SCRIPT = """
import re, sys
from pathlib import Path
from ccplane.agent.files import Files, ReadingThread
from ccplane.datapath import ebpf

home, elsewhere = Path(sys.argv[1]), Path(sys.argv[2])
thread = ReadingThread([home])
ebpf.drop_capabilities(["CAP_NET_ADMIN"])  # what a running agent keeps does not matter here
tasks = [task.joinpath("status").read_text() for task in Path("/proc/self/task").iterdir()]
print(sorted(int(re.search(r"CapEff:\\s*(.*)", status)[1], 16) for status in tasks))
print(Files().read(home / "mine.py"), thread.read(home / "mine.py"), thread.read(home / "sub" / "deep.py"))
print(thread.read(elsewhere / "other.py"), thread.read(home / ".." / elsewhere.name / "other.py"))
print(thread.read(home / "secret"))
stamps = thread.stamps([f"{home}/mine.py", f"{elsewhere}/other.py", f"{home}/none.py"])
print(list(stamps.values()).count(None))
thread.close()
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has the right that is to be kept")
@pytest.mark.kernel_part
def test_one_thread_reads_what_the_agent_may_not_and_only_there(tmp_path: Path) -> None:
    for name, file in (
        ("home", "mine.py"),
        ("home", "secret"),
        ("home/sub", "deep.py"),
        ("other", "other.py"),
    ):
        directory = tmp_path / name
        directory.mkdir(exist_ok=True)
        (directory / file).write_text(f"{file}'s text")
        (directory / file).chmod(0o600)
        os.chown(directory / file, 12345, 12345)
        directory.chmod(0o700)
        os.chown(directory, 12345, 12345)
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path / "home"), str(tmp_path / "other")],
        capture_output=True, text=True, timeout=60, env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        str([1 << 2, 1 << 12]),
        "None mine.py's text deep.py's text",
        "None None",
        "None",
        "1",
    ]


@pytest.mark.kernel_part
def test_errors_of_reading_come_back_to_who_asked(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_bytes(b"# coding: nonsense\n")
    (tmp_path / "directory.py").mkdir()
    thread = ReadingThread([tmp_path])
    try:
        with pytest.raises(SyntaxError):
            thread.read(tmp_path / "bad.py")
        with pytest.raises(IsADirectoryError):
            thread.read(tmp_path / "directory.py")
        assert thread.read(tmp_path / "none.py") is None
    finally:
        thread.close()
    assert thread.read(tmp_path / "none.py") is None, "who asks later does not wait for ever"


def test_a_file_that_is_saved_has_another_stamp(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    seen = []
    for text in (None, "1", "22"):
        if text is not None:
            file.write_text(text)
        seen.append(Files().stamps([str(file)])[str(file)])
    file.with_name("new").write_text("22")
    os.replace(file.with_name("new"), file)
    seen.append(Files().stamps([str(file)])[str(file)])
    assert seen[0] is None
    assert len(set(seen)) == 4
