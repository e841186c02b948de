"""`python -m scripts.vm`: kernel tests on Debian's kernels, in virtual machines."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

from rich.console import Console
from rich.table import Table

from scripts.vm import kernels, machine, userland
from scripts.vm.debian import find_mirrors
from scripts.vm.places import CACHE
from scripts.vm.problem import VmError, need_programs

PROGRAMS = {
    "qemu-system-x86_64": "qemu-system-x86",
    "mmdebstrap": "mmdebstrap",
    "genext2fs": "genext2fs",
    "depmod": "kmod",
    "dpkg-deb": "dpkg",
}
TESTS = tuple(
    f"tests/kernel/test_{name}.py"
    for name in ("agent", "arrivals", "datapath", "law", "measurement", "netem", "tcp_info", "trace")
)
"""What depends on the kernel. Others compare rates and times, for which an emulated processor is too slow."""
SLOWER = 10
"""How many times as long a test may take in a machine whose processor is emulated."""


def main() -> int:
    """Run what the command line asks for; return the exit status."""
    arguments = _arguments()
    console = Console(highlight=False)
    try:
        need_programs(PROGRAMS)
        CACHE.mkdir(parents=True, exist_ok=True)
        mirrors = find_mirrors(arguments.mirror)
        release = userland.choose_userland()
        with console.status(f"a small Debian {release.suite}"):
            disk = userland.make_disk(release, mirrors, update=arguments.update)
            busybox = userland.make_busybox(release, mirrors)
        with console.status("Python packages"):
            venv = userland.make_venv(release)
        runs = []
        for name in arguments.kernel or kernels.KERNELS:
            with console.status(f"kernel {name}"):
                kernel = kernels.make_kernel(name, mirrors, busybox, update=arguments.update)
            log = CACHE / f"out-{name}" / "console.log"
            with console.status(f"running on Linux {kernel.version}; see {os.path.relpath(log)}"):
                run = machine.boot(
                    kernel,
                    disk,
                    venv,
                    _command(arguments),
                    timeout_s=arguments.timeout,
                    cpus=arguments.cpus,
                    memory_mb=arguments.memory,
                )
            runs.append(run)
            if run.status != 0 or arguments.command:
                console.print((run.out / "console.log").read_text(errors="replace")[-20000:], markup=False)
    except VmError as problem:
        print(f"vm: {problem}", file=sys.stderr)
        return 1
    console.print(_table(runs))
    return 0 if all(run.status == 0 for run in runs) else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m scripts.vm", description=__doc__)
    parser.add_argument(
        "--kernel", action="append", choices=kernels.KERNELS, help="only this one; may be repeated"
    )
    parser.add_argument("--command", help="run this shell command instead of the tests, and show its output")
    parser.add_argument("--update", action="store_true", help="fetch userland and kernels anew")
    parser.add_argument("--mirror", help="address of a Debian archive, where this machine is not Debian")
    parser.add_argument("--timeout", type=float, default=1800, metavar="S", help="for each machine [s]")
    parser.add_argument("--cpus", type=int, default=min(4, os.cpu_count() or 1), help="of each machine")
    parser.add_argument("--memory", type=int, default=3072, metavar="MB", help="of each machine")
    parser.add_argument(
        "pytest", nargs="*", help="arguments for pytest, after --; default: those of the datapath"
    )
    return parser.parse_args()


def _command(arguments: argparse.Namespace) -> str:
    if arguments.command:
        return str(arguments.command)
    times = ["--timeout", str(120 * SLOWER), "-o", f"faulthandler_timeout={300 * SLOWER}"]
    options = ["-p", "no:cacheprovider", *times, "--junitxml=/mnt/out/tests.xml"]
    return shlex.join(["python", "-m", "pytest", *options, *(arguments.pytest or TESTS)])


def _table(runs: list[machine.Run]) -> Table:
    table = Table("kernel", "passed", "failed", "skipped", "seconds", "")
    for run in runs:
        counts = _counts(run.out / "tests.xml")
        ended = {0: "ok", None: "the machine ended early"}.get(run.status, f"status {run.status}")
        table.add_row(run.kernel.version, *counts, f"{run.wall_s:.0f}", ended)
    return table


def _counts(report: Path) -> tuple[str, str, str]:
    """Return how many tests passed, failed and were skipped, as pytest reports it; dashes if it does not."""
    if not report.exists():
        return "-", "-", "-"
    suites = list(ElementTree.parse(report).getroot().iter("testsuite"))
    tests, errors, failures, skipped = (
        sum(int(suite.get(key, 0)) for suite in suites) for key in ("tests", "errors", "failures", "skipped")
    )
    failed = errors + failures
    return str(tests - failed - skipped), str(failed), str(skipped)


if __name__ == "__main__":
    sys.exit(main())
