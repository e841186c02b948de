from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import Future
from pathlib import Path

import pytest

from ccplane.agent import upgrade
from ccplane.base.errors import LoadError, UsageError
from ccplane.base.notify import Manager
from tests.service_manager import ServiceManager
from tests.waiting import wait_until

STUCK = """
import os, sys, time
if not os.fork():
    os.write(int(os.environ[upgrade]), str(os.getpid()).encode())
    open(sys.argv[1], "w").write(str(os.getpid()))
    time.sleep(600)
"""


def test_a_successor_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upgrade, "START_S", 2.0)
    program = STUCK.replace("upgrade", repr(upgrade._PIPE))
    outcome: Future[int] = Future()
    upgrade.Upgrade(None)._run(outcome, [sys.executable, "-c", program, str(tmp_path / "pid")], {})
    with pytest.raises(LoadError, match="did not start within 2 s") as caught:
        outcome.result(0)
    assert caught.value.slug == "upgrade.failed"
    pid = int((tmp_path / "pid").read_text())
    wait_until(lambda: not Path(f"/proc/{pid}/exe").exists())


def test_a_successor_that_has_taken_over_is_not_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upgrade, "START_S", 2.0)
    program = STUCK.replace("upgrade", repr(upgrade._PIPE))
    outcome: Future[int] = Future()
    outcome.set_result(1)
    upgrade.Upgrade(None)._run(outcome, [sys.executable, "-c", program, str(tmp_path / "pid")], {})
    pid = int((tmp_path / "pid").read_text())
    assert Path(f"/proc/{pid}/exe").exists()
    os.kill(pid, 9)


def test_a_new_version_that_hangs_before_it_detaches_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upgrade, "START_S", 0.5)
    outcome: Future[int] = Future()
    descriptors = len(os.listdir("/proc/self/fd"))
    upgrade.Upgrade(None)._run(outcome, ["sleep", "600"], {})
    with pytest.raises(LoadError, match=r"did not start within 0\.5 s"):
        outcome.result(0)
    assert len(os.listdir("/proc/self/fd")) == descriptors


def test_only_the_successor_that_was_started_here_continues_the_service() -> None:
    made = upgrade.Upgrade(None)
    made._running, made._pid = Future(), 7
    made.succeeded(8)
    assert not made.taken_over
    made.succeeded(7)
    assert made.taken_over
    assert made._running.result(0) == 7


def test_an_agent_without_a_service_manager_starts_no_successor() -> None:
    answers: list[Future[int]] = []
    made = upgrade.Upgrade(None)
    made.start(None, answers.append)
    with pytest.raises(UsageError) as caught:
        answers[0].result(0)
    assert caught.value.slug == "upgrade.refused"
    made.succeeded(1)  # another agent takes over, which the service does not continue with
    assert not made.taken_over


def test_a_service_does_not_continue_with_a_successor_that_ended(tmp_path: Path) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    with ServiceManager(tmp_path / "notify") as systemd:
        manager = Manager.from_environment(systemd.environment.copy())
        assert manager is not None
        with pytest.raises(LoadError) as caught:
            upgrade.continue_service(manager, ended.pid, "/sys/fs/bpf/none", tmp_path)
        manager.close()
        assert caught.value.slug == "upgrade.failed"
        assert "MAINPID" not in str(systemd.listen())
