"""The services under systemd, in a machine."""

from __future__ import annotations

import os
import subprocess

import pytest

from scripts.vm.connections import opened


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to end connections of another process")
def test_connections_that_end_are_counted_as_lost() -> None:
    with opened("reno", 0, ([], 20, 2)) as connections:
        assert len(connections) == 22
        assert connections.talk() == 0
        rows = subprocess.run(["ss", "-tnHp", "state", "established"], capture_output=True, text=True).stdout
        mine = next(row for row in rows.splitlines() if f"pid={connections.pids[0]}," in row).split()
        subprocess.run(["ss", "-K", "-tnH", "src", mine[2], "dst", mine[3]], check=True, capture_output=True)
        assert connections.talk() == 1
