"""`ccp doctor` loads what it speaks of, and takes it away again."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from typing import Any

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
