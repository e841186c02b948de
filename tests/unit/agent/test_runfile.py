from __future__ import annotations

import multiprocessing
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.runfile import RunFile, RunInfo, run_file, running
from ccp_base.errors import LoadError

PIN_DIR = "/sys/fs/bpf/test"


def test_run_file_tells_what_the_agent_runs_while_it_lives(tmp_path: Path) -> None:
    assert running(PIN_DIR, tmp_path) is None
    with RunFile(PIN_DIR, tmp_path) as file:
        assert running(PIN_DIR, tmp_path) == RunInfo(pid=os.getpid(), pin_dir=PIN_DIR)
        info = RunInfo(
            pid=os.getpid(),
            pin_dir=PIN_DIR,
            default="cubic",
            algorithms={"ccp.cubic": "cubic"},
            programs={1: "cubic/default"},
            rules=["dport=1 -> cubic"],
        )
        file.write(info)
        assert running(PIN_DIR, tmp_path) == info
        file.write(RunInfo(pid=1, pin_dir=PIN_DIR))  # shorter than what was there
        assert running(PIN_DIR, tmp_path) == RunInfo(pid=1, pin_dir=PIN_DIR)
    assert running(PIN_DIR, tmp_path) is None


def test_second_agent_is_refused_and_told_who_holds_the_datapath(tmp_path: Path) -> None:
    with RunFile(PIN_DIR, tmp_path):
        with pytest.raises(LoadError) as caught:
            RunFile(PIN_DIR, tmp_path)
        assert caught.value.slug == "load.already_running"
        assert f"pid {os.getpid()}" in caught.value.message
        assert PIN_DIR in caught.value.message
        assert "--pin-dir" in caught.value.fix
        with RunFile(PIN_DIR + "2", tmp_path):
            pass
    RunFile(PIN_DIR, tmp_path).close()


def _hold_and_die(run_dir: Path, held: object) -> None:
    RunFile(PIN_DIR, run_dir)
    held.set()  # type: ignore[attr-defined]
    os.kill(os.getpid(), 9)


def test_killed_agent_leaves_no_lock(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    held = context.Event()
    agent = context.Process(target=_hold_and_die, args=(tmp_path, held))
    agent.start()
    agent.join(60)
    assert held.is_set()
    assert agent.exitcode == -9
    assert running(PIN_DIR, tmp_path) is None
    with RunFile(PIN_DIR, tmp_path):
        pass


def test_run_directory_that_cannot_be_made_is_a_load_error(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.touch()
    with pytest.raises(LoadError) as caught:
        RunFile(PIN_DIR, blocked / "run")
    assert caught.value.slug == "load.no_run_dir"
    assert caught.value.fix == "run as root"


def test_garbage_in_the_run_file_is_nobody_we_know(tmp_path: Path) -> None:
    with RunFile(PIN_DIR, tmp_path) as file:
        file.path.write_text("no json")
        assert running(PIN_DIR, tmp_path) is None
        with pytest.raises(LoadError) as caught:
            RunFile(PIN_DIR, tmp_path)
        assert "unknown" in caught.value.message


@given(
    st.lists(
        st.text(st.characters(exclude_characters="\0", codec="utf-8"), min_size=1, max_size=20),
        min_size=2,
        max_size=2,
        unique_by=lambda text: str(Path("/sys/fs/bpf", text.lstrip("/"))),
    )
)
def test_different_directories_have_different_run_files(names: list[str]) -> None:
    first, second = (str(Path("/sys/fs/bpf", name.lstrip("/"))) for name in names)
    assert run_file(first) != run_file(second)
    assert run_file(first).parent == Path("/run/ccplane")
