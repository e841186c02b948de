"""`ccp doctor` loads what it speaks of, and takes it away again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from ccplane.agent.commands.doctor import ALLOWED
from experiments.agent_process import PIN_DIR, ccp, running_agent
from experiments.netlab.sockets import available_congestion_controls

PARTS = (
    "datapath",
    "extension rate_limits",
    "rtcp for sockets",
    "socket switch",
    "socket tracing",
    "in-band node",
)
WITHOUT_BPF = ("setpriv", "--inh-caps=-all", "--bounding-set=-bpf,-sys_admin")


def doctor(enter: Sequence[str] = ()) -> tuple[int, dict[str, Any], dict[str, dict[str, Any]]]:
    """Return its exit status, what it says, and of that the parts by name."""
    done = subprocess.run([*enter, *ccp("doctor", "--json")], capture_output=True, text=True, timeout=100)
    assert done.stdout, done.stderr
    said = json.loads(done.stdout)
    return done.returncode, said, {one["name"]: one for one in said["capabilities"]}


def left() -> tuple[list[str], list[str]]:
    """What a process could leave in the kernel."""
    return sorted(os.listdir("/sys/fs/bpf")), available_congestion_controls()


def test_every_part_loads_and_nothing_is_left() -> None:
    before = left()
    status, said, parts = doctor()
    assert {name: parts[name]["detail"] for name in PARTS} == dict.fromkeys(PARTS, "loads")
    assert (status, said["can_load"]) == (0, True)
    assert left() == before


def test_an_agent_that_runs_is_left_alone() -> None:
    with running_agent("reno") as agent:
        before = left(), sorted(os.listdir(PIN_DIR))
        assert doctor()[0] == 0
        assert (left(), sorted(os.listdir(PIN_DIR))) == before
        assert agent.running


def test_it_fails_with_the_cause_where_nothing_loads() -> None:
    before = left()
    status, said, parts = doctor(WITHOUT_BPF)
    assert (status, said["can_load"]) == (1, False)
    for name in ("datapath", "rtcp for sockets", "socket switch", "socket tracing", "in-band node"):
        assert not parts[name]["ok"], name
        assert "not permitted" in parts[name]["detail"].lower(), name
        assert "root" in parts[name]["fix"], name
    assert left() == before


def chosen_by_user(name: str) -> str:
    """Choose a congestion control as an unprivileged process; return the error, or ``."""
    code = (
        "import os, socket; os.setgroups([]); os.setresgid(9, 9, 9); os.setresuid(9, 9, 9); "
        f"socket.socket().setsockopt(6, socket.TCP_CONGESTION, {name.encode()!r})"
    )
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100).stderr


def test_names_that_only_root_may_choose_are_listed() -> None:
    before = ALLOWED.read_text()
    others = [name for name in before.split() if not name.startswith("ccp")]
    try:
        with running_agent("reno"):
            assert doctor()[1]["root_only"] == []
            assert chosen_by_user("ccp.reno") == ""
            ALLOWED.write_text(" ".join([*others, "ccp"]))
            assert "PermissionError" in chosen_by_user("ccp.reno")
            assert doctor()[1]["root_only"] == ["ccp.reno"]
            text = subprocess.run(ccp("doctor"), capture_output=True, text=True, timeout=100).stdout
            line = text[text.index("only root may choose: ccp.reno") :]
            subprocess.run(line.partition("fix: ")[2], shell=True, check=True, stdout=subprocess.DEVNULL)
            assert doctor()[1]["root_only"] == []
            assert chosen_by_user("ccp.reno") == ""
    finally:
        ALLOWED.write_text(" ".join(others))
