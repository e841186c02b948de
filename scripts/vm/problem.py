"""What stops the virtual machines, in the shape of all errors here: what, why, and what to do."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path


class VmError(SystemExit):
    """Something is missing or went wrong: a command ends with this text and status 1."""

    def __init__(self, what: str, why: str, fix: str) -> None:
        """Make the error from its three parts."""
        super().__init__(f"vm: {what}\n  why  {why}\n  fix  {fix}")


def need_programs(names: Sequence[str], script: str = "scripts/setup-vm.sh") -> None:
    """Check that programs are installed.

    Args:
        names: Of the programs.
        script: What installs them.

    Raises:
        VmError: Names all that are missing.
    """
    lost = [name for name in names if shutil.which(name) is None]
    if lost:
        raise VmError(
            f"missing programs: {', '.join(lost)}",
            "virtual machines are built and run with them",
            f"{script} installs them, as root",
        )


def run(args: Sequence[str], cwd: Path | None = None) -> str:
    """Run a program and return what it wrote.

    Raises:
        VmError: With the end of its complaint, if it fails.
    """
    done = subprocess.run(args, capture_output=True, text=True, cwd=cwd, check=False)
    if done.returncode:
        said = (done.stderr or done.stdout).strip()[-1500:]
        raise VmError(
            f"`{' '.join(args)[:300]}` failed", said, "run it by hand; `--update` fetches everything anew"
        )
    return done.stdout
