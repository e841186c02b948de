"""Errors of virtual machines: what happened, why, and how to fix it."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path


class VmError(SystemExit):
    """An error that ends a command with this text and status 1."""

    def __init__(self, what: str, why: str, fix: str) -> None:
        """Create the error from its three parts."""
        super().__init__(f"vm: {what}\n  why  {why}\n  fix  {fix}")


def need_programs(names: Sequence[str], script: str = "scripts/setup-vm.sh") -> None:
    """Check that programs are installed.

    Raises:
        VmError: With all missing programs.
    """
    lost = [name for name in names if shutil.which(name) is None]
    if lost:
        raise VmError(
            f"missing programs: {', '.join(lost)}",
            "building and running virtual machines needs them",
            f"run {script} as root",
        )


def run(args: Sequence[str], cwd: Path | None = None) -> str:
    """Run a program and return its output.

    Raises:
        VmError: With the end of its output, if it fails.
    """
    done = subprocess.run(args, capture_output=True, text=True, cwd=cwd, check=False)
    if done.returncode:
        said = (done.stderr or done.stdout).strip()[-1500:]
        raise VmError(
            f"`{' '.join(args)[:300]}` failed",
            said,
            "run it manually, or fetch everything again with `--update`",
        )
    return done.stdout
