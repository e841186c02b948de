"""Versions on trial on real sockets that come and go: a bad one is undone, a good one takes over."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ccplane.agent.client import Client
from ccplane.agent.control import control_socket
from ccplane.datapath import ebpf
from experiments.agent_process import PIN_DIR, running_agent
from experiments.netlab.emulated import emulated
from tests.kernel.churning import NETWORK, RIGHT, WRONG, churning
from tests.kernel.driving import ccp, wait_until

RAISES = RIGHT.replace(
    "        cwnd, mss =",
    "        if self.flow.info.netns_inum > 1:  # the check's flows are in none\n"
    "            raise OSError('a bad day')\n"
    "        cwnd, mss =",
)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[Path, list[dict[str, Any]]]]:
    """A file that an agent runs, and what arrives of connections that come and go."""
    file = tmp_path / "example_aimd.py"
    file.write_text(RIGHT)
    with (
        running_agent(str(file), "--known-good", str(tmp_path / "kept")),
        emulated(NETWORK) as net,
        churning(net.hosts["sender"], net.hosts["receiver"], seed=1) as came,
    ):
        yield file, came


def ended(client: Client) -> dict[str, Any]:
    rows: list[dict[str, Any]] = []

    def look() -> bool:
        rows[:] = client.status()["canaries"]
        return rows[0]["outcome"] is not None

    wait_until(look)
    return rows[0]


def test_a_wrong_unit_and_an_exception_are_undone_and_a_good_version_takes_over(
    served: tuple[Path, list[dict[str, Any]]],
) -> None:
    file, came = served
    view = ebpf.observe(PIN_DIR)
    with Client(control_socket(PIN_DIR)) as client:
        for source, why in ((WRONG, "goodput"), (RAISES, "raised OSError")):
            file.write_text(source)
            client.reload("aimd", canary="20%")
            row = ended(client)
            assert (row["outcome"], why in row["why"]) == ("taken back", True), row["why"]
            assert client.source("aimd")["text"] == RIGHT
            assert [one["name"] for one in client.status()["algorithms"]] == ["aimd"]
        good = f"{RIGHT}# another\n"
        file.write_text(good)
        said = ccp("reload", "aimd", "--canary", "50%", "--for", "4")
        assert "aimd: widened after" in said
        assert client.source("aimd")["text"] == good
        assert "aimd: " in ccp("rollback", "aimd")
        assert client.source("aimd")["text"] == RIGHT
        time.sleep(1.5)
        assert not [one for one in view.all_stats() if one.law and one.law_cause != "new"]
    assert came[-1]["failed"] == 0


def test_a_restart_keeps_the_version_that_was_good(tmp_path: Path) -> None:
    file, kept = tmp_path / "example_aimd.py", str(tmp_path / "kept")
    file.write_text(RIGHT)
    with running_agent(str(file), "--known-good", kept) as agent, Client(control_socket(PIN_DIR)) as client:
        file.write_text(WRONG)
        client.reload("aimd")
        client.rollback("aimd")
        agent.kill()
    assert file.read_text() == WRONG
    with (
        running_agent(str(file), "--known-good", kept) as agent,
        Client(control_socket(PIN_DIR)) as client,
    ):
        assert client.source("aimd")["text"] == RIGHT
        assert "this version was taken back" in agent.log()
