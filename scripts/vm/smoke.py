"""`python -m scripts.vm.smoke`: check required kernel features on the oldest and the newest kernel."""

from __future__ import annotations

import argparse
import sys

from rich.table import Table

from scripts.vm import kernels
from scripts.vm.machine import Run
from scripts.vm.parts import add_options, gather
from scripts.vm.places import OUT

EDGES = ("6.1", "7")
TIMEOUT_S = 300
"""Timeout of a machine: several times the usual time [s]."""
COMMAND = "modprobe -a tcp_bbr tcp_dctcp; python -m scripts.vm.smoke_inside"


def main() -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m scripts.vm.smoke", description=__doc__)
    parser.add_argument(
        "--kernel", action="append", choices=kernels.KERNELS, help="run only this kernel; may be repeated"
    )
    add_options(parser, timeout_s=TIMEOUT_S)
    arguments = parser.parse_args()
    parts = gather(arguments, [])
    runs = [parts.run(name, COMMAND, OUT / f"out-smoke-{name}") for name in arguments.kernel or EDGES]
    parts.console.print(_table(runs))
    return 0 if all(run.status == 0 for run in runs) else 1


def _table(runs: list[Run]) -> Table:
    table = Table("kernel", "smoke", "seconds")
    for run in runs:
        ended = {0: "ok", None: "the machine ended early"}.get(run.status, "failed")
        table.add_row(run.kernel.version, ended, f"{run.wall_s:.0f}")
    return table


if __name__ == "__main__":
    sys.exit(main())
