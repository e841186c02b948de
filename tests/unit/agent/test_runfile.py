from __future__ import annotations

import errno
import fcntl
import multiprocessing
import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ccplane.agent.runfile import RunFile, RunInfo, check_room, run_file, running
from ccplane.agent.stored import replace_file
from ccplane.base.errors import LoadError

PIN_DIR = "/sys/fs/bpf/test"


def test_run_file_reports_what_the_agent_runs_while_it_lives(tmp_path: Path) -> None:
    assert running(PIN_DIR, tmp_path) is None
    with RunFile(PIN_DIR, tmp_path) as file:
        assert running(PIN_DIR, tmp_path) is None
        file.write(RunInfo(pid=os.getpid(), pin_dir=PIN_DIR))
        seen = running(PIN_DIR, tmp_path)
        assert seen is not None
        assert (seen.pid, seen.pin_dir) == (os.getpid(), PIN_DIR)
        info = RunInfo(
            pid=os.getpid(),
            pin_dir=PIN_DIR,
            default="cubic",
            algorithms={"ccp.cubic": "cubic"},
            programs={1: "cubic/default"},
            rules=["dport=1 -> cubic"],
            started_ticks=seen.started_ticks,
            pid_namespace=seen.pid_namespace,
        )
        file.write(info)
        assert running(PIN_DIR, tmp_path) == info
        assert [one.name for one in tmp_path.iterdir()] == [file.path.name]
        assert file.path.stat().st_mode & 0o777 == 0o644
    assert running(PIN_DIR, tmp_path) is None


def test_a_successors_file_stays(tmp_path: Path) -> None:
    with RunFile(PIN_DIR, tmp_path) as file:
        file.write(RunInfo(pid=os.getpid(), pin_dir=PIN_DIR))
        file.leave()
    assert run_file(PIN_DIR, tmp_path).exists()


def _write_and_die(run_dir: Path) -> None:
    RunFile(PIN_DIR, run_dir).write(RunInfo(pid=os.getpid(), pin_dir=PIN_DIR))
    os.kill(os.getpid(), 9)


def test_file_of_a_killed_agent_is_nobodys(tmp_path: Path) -> None:
    agent = multiprocessing.get_context("spawn").Process(target=_write_and_die, args=(tmp_path,))
    agent.start()
    agent.join(60)
    assert agent.exitcode == -9
    assert run_file(PIN_DIR, tmp_path).exists()
    assert running(PIN_DIR, tmp_path) is None


IN_CONTAINER = """
import os, sys
from pathlib import Path
from ccplane.agent.runfile import RunFile, RunInfo, running
with RunFile(sys.argv[1], Path(sys.argv[2])) as file:
    file.write(RunInfo(pid=os.getpid(), pin_dir=sys.argv[1]))
    print(running(sys.argv[1], Path(sys.argv[2])).pid, flush=True)
    sys.stdin.read(1)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a PID namespace")
def test_agent_of_a_container_is_found_from_outside(tmp_path: Path) -> None:
    command = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", sys.executable]
    container = subprocess.Popen(
        [*command, "-c", IN_CONTAINER, PIN_DIR, str(tmp_path)], stdin=-1, stdout=-1, text=True
    )
    with container:
        assert container.stdout is not None
        assert container.stdin is not None
        assert container.stdout.readline() == "1\n"
        seen = running(PIN_DIR, tmp_path)
        assert seen is not None
        assert f"NSpid:\t{seen.pid}\t1\n" in Path(f"/proc/{seen.pid}/status").read_text()
        os.kill(seen.pid, signal.SIGKILL)
        container.wait(60)
    assert run_file(PIN_DIR, tmp_path).exists()
    assert running(PIN_DIR, tmp_path) is None


def test_another_process_with_the_number_of_a_killed_agent_is_none(tmp_path: Path) -> None:
    with RunFile(PIN_DIR, tmp_path) as file:
        file.write(RunInfo(pid=os.getpid(), pin_dir=PIN_DIR))
        info = running(PIN_DIR, tmp_path)
        assert info is not None
        other = msgspec.structs.replace(info, started_ticks=(info.started_ticks or 0) - 1)
        file.path.write_bytes(msgspec.json.encode(other))
        assert running(PIN_DIR, tmp_path) is None


def test_others_may_lock_the_run_file_as_they_like(tmp_path: Path) -> None:
    with RunFile(PIN_DIR, tmp_path) as file:
        file.write(RunInfo(pid=os.getpid(), pin_dir=PIN_DIR))
        rival = file.path.open()
        fcntl.flock(rival, fcntl.LOCK_EX)
        file.write(RunInfo(pid=os.getpid(), pin_dir=PIN_DIR, default="reno"))
        info = running(PIN_DIR, tmp_path)
        assert info is not None
        assert info.default == "reno"
        with RunFile(PIN_DIR, tmp_path):
            pass
        rival.close()


def test_the_file_of_the_next_agent_stays(tmp_path: Path) -> None:
    with RunFile(PIN_DIR, tmp_path) as file:
        file.write(RunInfo(pid=os.getpid(), pin_dir=PIN_DIR))
        replace_file(file.path, msgspec.json.encode(RunInfo(pid=1, pin_dir=PIN_DIR)))
    assert file.path.exists()


def test_run_directory_that_cannot_be_made_is_a_load_error(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.touch()
    with pytest.raises(LoadError) as caught:
        RunFile(PIN_DIR, blocked / "run")
    assert caught.value.slug == "load.no_run_dir"
    assert caught.value.fix == "run as root, and check that the disk is not full"


def test_garbage_in_the_run_file_is_none_we_know(tmp_path: Path) -> None:
    with RunFile(PIN_DIR, tmp_path) as file:
        file.path.write_text("no json")
        assert running(PIN_DIR, tmp_path) is None


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


def test_what_cannot_be_written_later_is_reported_and_stops_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(before: str, after: Path) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with RunFile(PIN_DIR, tmp_path) as file:
        file.write(RunInfo(pid=os.getpid(), pin_dir=PIN_DIR))
        before = file.path.read_bytes()
        with monkeypatch.context() as patched:
            patched.setattr(os, "replace", full)
            for _ in range(2):
                file.write(RunInfo(pid=os.getpid(), pin_dir=PIN_DIR, default="cubic"))
        assert [record.levelname for record in caplog.records] == ["ERROR"]
        assert [one.read_bytes() for one in tmp_path.iterdir()] == [before], "nor does a part stay"


def test_room_is_seen_to_before_anything_is_written(tmp_path: Path) -> None:
    check_room(tmp_path / "new")
    assert list((tmp_path / "new").iterdir()) == []
    (tmp_path / "file").touch()
    with pytest.raises(LoadError) as caught:
        check_room(tmp_path / "file" / "run")
    assert caught.value.slug == "load.no_run_dir"
