"""The services under systemd, in a machine."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from scripts.vm import services
from scripts.vm.connections import opened
from scripts.vm.kernels import Kernel
from scripts.vm.machine import Run
from scripts.vm.services_inside import RESULT

SERVED = {"connections": 1055, "lost": 0, "fallback_ms": 0}
LEFT = {
    "systemd": "systemd 252",
    "steps": {
        "start": {"what": "Start", "came_out": "four users", "units": {}, "seconds": 42.0},
        "upgrade": {"what": "Reload", "came_out": "the unit stayed active", **SERVED, "seconds": 40.5},
    },
}


def test_what_a_machine_leaves_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "KEPT", tmp_path / "kept.json")
    (tmp_path / RESULT).write_text(json.dumps(LEFT))
    services.keep(Run(Kernel("6.12", "6.12.0-1", tmp_path, tmp_path), 0, 9.0, tmp_path), "0123456")
    found = json.loads(services.KEPT.read_text())
    assert (found["revision"], found["kernel"], found["systemd"]) == ("0123456", "6.12.0-1", "systemd 252")
    assert found["steps"] == LEFT["steps"]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to end connections of another process")
def test_connections_that_end_are_counted_as_lost() -> None:
    with opened("reno", 0, ([], 20, 2)) as connections:
        assert len(connections) == 22
        assert connections.talk() == 0
        rows = subprocess.run(["ss", "-tnHp", "state", "established"], capture_output=True, text=True).stdout
        mine = next(row for row in rows.splitlines() if f"pid={connections.pids[0]}," in row).split()
        subprocess.run(["ss", "-K", "-tnH", "src", mine[2], "dst", mine[3]], check=True, capture_output=True)
        assert connections.talk() == 1
