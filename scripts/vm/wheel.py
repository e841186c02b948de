"""`python -m scripts.vm.wheel`: the wheel in dist, installed and used on Debian's kernels.

Each machine has a bare Debian without a compiler or a network; wheels of dependencies are fetched beforehand.
`wheel_inside` runs in the machine. Results are kept in docs/results/wheel.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path
from typing import Final

from scripts.vm import kernels, userland
from scripts.vm.machine import Run
from scripts.vm.parts import Parts, add_options, gather
from scripts.vm.places import OUT, ROOT
from scripts.vm.problem import VmError
from scripts.vm.results import keep_run, revision
from scripts.vm.wheel_inside import RESULT

DIST: Final = ROOT / "dist"
KEPT: Final = ROOT / "docs/results/wheel"
PACKAGES: Final = ["python3-venv"]
TIMEOUT_S: Final = 1800
"""Timeout of a machine: several times the usual time [s]."""
COMMAND: Final = """modprobe -a tun tcp_dctcp # where systemd runs, the first use of /dev/net/tun does
mkdir /mnt/wheels
mount -t 9p -o ro,cache=loose,trans=virtio,version=9p2000.L,msize=262144 wheels /mnt/wheels
mount -o remount,size=80% /root
/usr/bin/python3 scripts/vm/wheel_inside.py"""


def main() -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m scripts.vm.wheel", description=__doc__)
    parser.add_argument(
        "--kernel", action="append", choices=kernels.KERNELS, help="run only this kernel; may be repeated"
    )
    parser.add_argument("--keep", action="store_true", help="keep the results in docs/results")
    add_options(parser, timeout_s=TIMEOUT_S)
    arguments = parser.parse_args()
    try:
        wheels = _fetch(OUT / "wheels")
        parts = gather(arguments, PACKAGES)
        tested = revision()
        runs = []
        for name in arguments.kernel or kernels.KERNELS:
            runs.append(_run(parts, name, wheels))
            if arguments.keep and runs[-1].status == 0:
                keep(runs[-1], tested)
    except VmError as problem:
        print(f"vm: {problem}", file=sys.stderr)
        return 1
    return 0 if all(run.status == 0 for run in runs) else 1


def _fetch(into: Path) -> Path:
    found = list(DIST.glob("ccplane-*_x86_64.whl"))
    if len(found) != 1:
        raise VmError(f"{DIST} must have exactly one wheel", f"found: {len(found)}", "run `make wheel`")
    shutil.rmtree(into, ignore_errors=True)
    userland.download(userland.choose_userland(), f"{found[0]}[lab]", into)
    return into


def _run(parts: Parts, name: str, wheels: Path) -> Run:
    run = parts.run(name, COMMAND, OUT / f"out-wheel-{name}", shares={"wheels": wheels})
    ended = {0: "ok", None: "the machine ended early"}.get(run.status, f"status {run.status}")
    parts.console.print(f"Linux {run.kernel.version}: {ended}, {run.wall_s:.0f} s")
    if run.status == 0:
        parts.console.print_json((run.out / RESULT).read_text())
    return run


def keep(run: Run, tested: str) -> None:
    """Keep the result of a successful run, replacing that of its kernel, with the wheel's revision."""
    name = run.kernel.name
    keep_run(run, RESULT, f"python -m scripts.vm.wheel --kernel {name}", tested, KEPT / f"{name}.json")


if __name__ == "__main__":
    sys.exit(main())
