"""`python -m scripts.vm`: kernel tests on Debian's kernels, in virtual machines."""

from __future__ import annotations

import argparse
import shlex
import sys

from rich.table import Table

from scripts.vm import kernels, machine, results
from scripts.vm.parts import add_options, gather
from scripts.vm.places import OUT

TESTS = tuple(
    f"tests/kernel/test_{name}.py"
    for name in (
        "agent",
        "arrivals",
        "datapath",
        "ecn_modes",
        "extensions",
        "fallback",
        "inband",
        "measurement",
        "probe",
        "regime_host",
        "regime_sockets",
        "rtcp_rules",
        "tcp_info",
        "trace",
        "upgrade",
    )
)
"""Tests that depend on the kernel. Others compare rates and times, for which emulation is too slow."""
PACKAGES = ["clang", "libbpf-dev", "python3-bpfcc"]
REPORT = "tests.xml"
SLOWER = 10
"""Factor on timeouts of tests on an emulated processor."""


def main() -> int:
    """Run the command line; return the exit status."""
    arguments = _arguments()
    parts = gather(arguments, PACKAGES, needs_headers=True)
    tested = results.revision()
    names = arguments.kernel or list(kernels.KERNELS)
    runs = []
    for name in names:
        ended = parts.run(name, _command(arguments.pytest), OUT / f"out-{name}")
        runs.append(ended)
        if arguments.keep:
            results.keep(name, ended.kernel.version, ended.out / REPORT, ended.wall_s, tested)
    parts.console.print(_table(runs))
    return 0 if all(run.status == 0 for run in runs) else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m scripts.vm", description=__doc__)
    parser.add_argument(
        "--kernel", action="append", choices=kernels.KERNELS, help="run only this kernel; may be repeated"
    )
    add_options(parser, timeout_s=2700)
    parser.add_argument("--keep", action="store_true", help="keep the results for docs/kernels.md")
    parser.add_argument(
        "pytest", nargs="*", help="arguments for pytest, after --; default: the tests of the datapath"
    )
    arguments = parser.parse_args()
    if arguments.keep and (arguments.pytest or arguments.command):
        parser.error("--keep needs all tests: leave out --command and arguments for pytest")
    return arguments


def _command(tests: list[str]) -> str:
    times = ["--timeout", str(120 * SLOWER), "-o", f"faulthandler_timeout={300 * SLOWER}"]
    options = ["-p", "no:cacheprovider", *times, f"--junitxml=/mnt/out/{REPORT}"]
    return ". scripts/vm/bcc.sh\n" + shlex.join(
        ["python", "-m", "pytest", *options, *(tests or [*TESTS, "-m", "not long"])]
    )


def _table(runs: list[machine.Run]) -> Table:
    table = Table("kernel", "passed", "failed", "skipped", "seconds", "")
    for run in runs:
        found = results.read_report(run.out / REPORT)
        counts = ["-"] * 3
        if found is not None:
            numbers = found["passed"], len(found["failed"]), sum(found["skipped"].values())
            counts = [str(number) for number in numbers]
        ended = {0: "ok", None: "the machine ended early"}.get(run.status, f"status {run.status}")
        table.add_row(run.kernel.version, *counts, f"{run.wall_s:.0f}", ended)
    return table


if __name__ == "__main__":
    sys.exit(main())
