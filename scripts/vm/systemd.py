"""Commands and systemd in a machine: what units show, and what they log."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from typing import Final

PATIENCE_S: Final = 600.0
"""Timeout of waits; an emulated processor is slow [s]."""


def said(*command: str, given: str | None = None, fails: bool = False) -> str:
    """Run a command and return its output."""
    done = subprocess.run(command, input=given, text=True, capture_output=True, check=False)
    if (done.returncode != 0) != fails:
        raise RuntimeError(f"{' '.join(command)}: {done.returncode}: {done.stdout}{done.stderr}\n{journal()}")
    return (done.stdout + done.stderr).strip()


def journal(lines: int = 60) -> str:
    """Return the end of the journal."""
    return subprocess.run(["journalctl", "--no-pager", f"-n{lines}"], capture_output=True, text=True).stdout


def logged(unit: str, since: float) -> list[str]:
    """Return a unit's lines in the journal since a time [s since 1970]."""
    words = ("journalctl", "--no-pager", "--output=cat", "-u", unit, f"--since=@{since:.3f}")
    return said(*words).splitlines()


def shown(unit: str, name: str) -> str:
    """Return a property of a unit."""
    return said("systemctl", "show", "--property", name, "--value", unit)


def wait_until(what: Callable[[], object]) -> None:
    """Wait until a condition is true."""
    end_s = time.monotonic() + PATIENCE_S
    while not what():
        if time.monotonic() > end_s:
            raise RuntimeError(f"timeout waiting for {what}\n{journal()}")
        time.sleep(0.2)
