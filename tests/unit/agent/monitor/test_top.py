from __future__ import annotations

import sys

import pytest
from typer.testing import CliRunner

from ccplane.agent.cli import app
from ccplane.agent.monitor.app import Monitor
from ccplane.base.errors import LoadError
from ccplane.datapath import ebpf
from tests.unit.agent.monitor.test_loop_source import FakeView

runner = CliRunner()


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:

    class Screen:
        def isatty(self) -> bool:
            return True

    class Standard:
        stdin = stdout = Screen()

    monkeypatch.setattr("ccplane.agent.commands.top.sys", Standard)
    assert sys is not Standard


def test_pipe_is_refused_with_the_command_that_fits() -> None:
    done = runner.invoke(app, ["top"])
    assert done.exit_code == 1
    assert "command.no_terminal" in done.stderr
    assert "ccp flows --json" in done.stderr


@pytest.mark.usefixtures("terminal")
def test_datapath_that_is_not_loaded_is_one_line_before_any_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    def observe(pin_dir: str) -> None:
        raise LoadError("load.not_loaded", "nothing is loaded", where=pin_dir, fix="start `ccp run`")

    monkeypatch.setattr(ebpf, "observe", observe)
    done = runner.invoke(app, ["top", "--pin-dir", "/x"])
    assert done.exit_code == 2
    assert done.stderr == "load.not_loaded: nothing is loaded at /x; start `ccp run`\n"
    assert done.stdout == ""


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize(("code", "exit_code"), [(None, 0), (0, 0), (1, 1)])
def test_screen_runs_with_the_interval_and_its_exit_code_is_own(
    monkeypatch: pytest.MonkeyPatch, code: int | None, exit_code: int
) -> None:
    ran = []

    def run(self: Monitor) -> None:
        ran.append(self._interval_s)
        self._return_code = code

    monkeypatch.setattr(ebpf, "observe", lambda pin_dir: FakeView())
    monkeypatch.setattr(Monitor, "run", run)
    done = runner.invoke(app, ["top", "--interval", "0.25"])
    assert done.exit_code == exit_code
    assert ran == [0.25]
