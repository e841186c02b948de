"""`python -m scripts.vm.wheel`: the wheel in dist, installed and used on Debian's kernels.

Each machine has a bare Debian without a compiler or a network; wheels of dependencies are fetched beforehand.
`wheel_inside` runs in the machine. Results are kept in docs/results/wheel and shown in docs/releases.md;
`--write` only rewrites that table.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from experiments import records
from scripts.marks import filled
from scripts.vm import kernels, userland
from scripts.vm.machine import Run
from scripts.vm.parts import Parts, add_options, gather
from scripts.vm.places import OUT, ROOT
from scripts.vm.problem import VmError
from scripts.vm.results import revision
from scripts.vm.wheel_inside import DEMO_S, RESULT

DIST: Final = ROOT / "dist"
KEPT: Final = ROOT / "docs/results/wheel"
PAGE: Final = ROOT / "docs/releases.md"
BEGIN: Final = "<!-- python -m scripts.vm.wheel --write writes what follows -->\n"
END: Final = "<!-- until here -->\n"
PACKAGES: Final = ["python3-venv"]
TIMEOUT_S: Final = 1800
"""Timeout of a machine: several times the usual time [s]."""
COMMAND: Final = """modprobe -a tun tcp_dctcp # where systemd runs, the first use of /dev/net/tun does
mkdir /mnt/wheels
mount -t 9p -o ro,cache=loose,trans=virtio,version=9p2000.L,msize=262144 wheels /mnt/wheels
mount -o remount,size=80% /root
/usr/bin/python3 scripts/vm/wheel_inside.py"""
STEPS: Final = {
    "venv": "`python3 -m venv` [s]",
    "install": "`pip install ccplane.whl` [s]",
    "install [lab]": "then `pip install 'ccplane.whl[lab]'` [s]",
    "doctor": "`ccp doctor` [s]",
    "demo, simulated": f"`ccp demo --seconds {DEMO_S}` as a user, simulated [s]",
    "demo, sockets": f"`ccp demo --seconds {DEMO_S}` as root, on sockets [s]",
    "agent": "`ccp run mine.py` until it answers [s]",
}
"""Step -> its row."""
SIZES: Final = {
    "wheel": "the wheel",
    "install": "installed",
    "install [lab]": "installed, with `[lab]`",
}
"""Size -> its row."""

Result = dict[str, Any]
"""The result of `wheel_inside`, with kernel, revision, date."""


def main() -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m scripts.vm.wheel", description=__doc__)
    parser.add_argument(
        "--kernel", action="append", choices=kernels.KERNELS, help="run only this kernel; may be repeated"
    )
    parser.add_argument(
        "--keep", action="store_true", help="keep the results, and show them in docs/releases.md"
    )
    parser.add_argument("--write", action="store_true", help="only rewrite the table in docs/releases.md")
    add_options(parser, timeout_s=TIMEOUT_S)
    arguments = parser.parse_args()
    if arguments.write:
        write_page()
        return 0
    try:
        wheels = _fetch(OUT / "wheels")
        parts = gather(arguments, PACKAGES)
        tested = revision()
        runs = []
        for name in arguments.kernel or kernels.KERNELS:
            runs.append(_run(parts, name, wheels))
            if arguments.keep and runs[-1].status == 0:
                keep(runs[-1], tested)
                write_page()
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
    found: Result = {
        "command": f"python -m scripts.vm.wheel --kernel {run.kernel.name}",
        "kernel": run.kernel.version,
        "revision": tested,
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        **json.loads((run.out / RESULT).read_text()),
    }
    KEPT.mkdir(parents=True, exist_ok=True)
    (KEPT / f"{run.kernel.name}.json").write_text(records.dumped(found))


def kept() -> list[Result]:
    """Return the kept results, oldest kernel first."""
    files = sorted(KEPT.glob("*.json"), key=lambda file: [int(part) for part in file.stem.split(".")])
    return [json.loads(file.read_text()) for file in files]


def table(found: list[Result]) -> str:
    """Return results as Markdown, one column per kernel."""
    if not found:
        return "No results are kept yet."
    cells: dict[str, Callable[[Result], Any]] = {
        "Linux": lambda one: one["kernel"],
        "---": lambda one: "---:",
        **{label: lambda one, step=step: one["seconds"][step] for step, label in STEPS.items()},
        **{
            f"{label} [MB]": lambda one, name=name: round(one["bytes"][name] / 1e6, 1)
            for name, label in SIZES.items()
        },
        "goodput in the demo, simulated [Mbit/s]": lambda one: _goodputs(one["simulated"]),
        "goodput in the demo, sockets [Mbit/s]": lambda one: _goodputs(one["sockets"]),
        "`iperf3` over loopback by `mine.py` [Mbit/s]": lambda one: one["iperf3_bits_per_s"] // 10**6,
        "revision": lambda one: one["revision"],
        "date": lambda one: one["date"],
    }
    rows = [[label, *map(cell, found)] for label, cell in cells.items()]
    libraries = dict.fromkeys(f"`{name}`" for one in found for name in one["ldd"])
    reported = ["", f"`ldd` of the extension: {', '.join(libraries)}."]
    return "\n".join([*(f"| {' | '.join(map(str, row))} |" for row in rows), *reported])


def _goodputs(demo: dict[str, Any]) -> str:
    return ", ".join(f"{one['goodput_bytes_per_s'] / 125e3:.1f}" for one in demo["transfers"])


def page(text: str, found: list[Result]) -> str:
    """Return a page with the table of results between its marks."""
    return filled(text, BEGIN, END, table(found))


def write_page() -> None:
    """Write the table of kept results into the page."""
    PAGE.write_text(page(PAGE.read_text(), kept()))


if __name__ == "__main__":
    sys.exit(main())
