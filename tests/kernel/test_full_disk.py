"""A full disk takes nothing from flows: an agent that runs goes on, and so does who asks it for something."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ccplane.agent.client import Client
from ccplane.agent.control import control_socket
from ccplane.agent.runfile import RUN_DIR
from ccplane.base.errors import CcpError
from experiments.agent_process import PIN_DIR, AgentProcess, running_agent
from experiments.soak.algorithms import NAME, good
from experiments.soak.disk import full, small


@pytest.fixture
def run_dir() -> Iterator[Path]:
    """A small file system where run files stand."""
    with small(RUN_DIR, 64) as place:
        yield place


def test_an_upgrade_that_cannot_write_its_run_file_leaves_the_old_agent(run_dir: Path) -> None:
    with running_agent("reno") as old:
        with full([run_dir]), pytest.raises(CcpError, match=r"load\.no_run_dir"):
            AgentProcess(["cubic", "--take-over"])
        assert old.running
        with Client(control_socket(PIN_DIR)) as client:
            assert client.algorithms() == ["reno"]


def test_an_upgrade_that_cannot_open_its_audit_log_leaves_the_old_agent(tmp_path: Path) -> None:
    with running_agent("reno") as old:
        with pytest.raises(CcpError, match=r"audit\.cannot_open"):
            AgentProcess(["cubic", "--take-over", "--audit", str(tmp_path / "not there" / "log")])
        assert old.running


def test_a_reload_is_done_though_the_run_file_cannot_be_written(run_dir: Path, tmp_path: Path) -> None:
    file = tmp_path / f"{NAME}.py"
    file.write_text(good(0))
    with running_agent(str(file)) as agent:
        with full([run_dir]), Client(control_socket(PIN_DIR)) as client:
            done = client.load(good(1), NAME)
            assert done["old_sha256"] != done["new_sha256"]
        assert str(RUN_DIR) in agent.log()
