"""`python -m scripts.vm.wifi`: in-band telemetry over simulated radios and hostapd, in a virtual machine.

Runs the tests that need radios, `wifi_inside`, which checks what telemetry says, and one figure of `ccp demo
wifi`. With --mininet-wifi another machine does the check in Mininet-WiFi. With --figure only these figures
are made.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from pathlib import Path

from experiments.mininet_wifi.show import FINDINGS, read_findings, table
from scripts.vm.machine import Run
from scripts.vm.parts import Parts, add_options, gather
from scripts.vm.places import OUT
from scripts.vm.problem import VmError

KERNEL = "6.12"
PACKAGES = ["ethtool", "hostapd", "iw", "mosquitto", "tcpdump"]
MININET_PACKAGES = ["net-tools", "openvswitch-switch", "psmisc", "rfkill", "wireless-tools", "wpasupplicant"]
"""Packages that Mininet-WiFi needs."""
FIGURES = (4, 5, 6, 7)
"""Figures of `ccp demo wifi --figure`."""
USUAL = 4
"""Default figure: one flow without an agent."""
TESTED = "python -m pytest -p no:cacheprovider --timeout 600 tests/kernel/test_air.py"
"""Tests that need radios: the kernel's queues for them."""
TIMEOUT_S = 900
"""Timeout of a machine: several times the usual time [s]."""


def main() -> int:
    """Run the command line; return the exit status."""
    arguments = _arguments()
    _check_mininet(arguments.mininet_wifi)
    packages = [*PACKAGES, *(MININET_PACKAGES if arguments.mininet_wifi else [])]
    parts = gather(arguments, packages)
    shares = {"mininet": arguments.mininet_wifi} if arguments.mininet_wifi else {}
    judged = "python -m scripts.vm.wifi_inside /mnt/out"
    figures = [demo(number) for number in arguments.figure or [USUAL]]
    commands = figures if arguments.figure else [TESTED, judged, *figures]
    runs = [_run(parts, "wifi", " && ".join(commands), shares)]
    if not arguments.mininet_wifi:
        parts.console.print("Mininet-WiFi: skipped without --mininet-wifi FOLDER (docs/mininet-wifi.md)")
    elif not arguments.command:
        judged += " --mininet-wifi"
        figures = [demo(number, "--mininet-wifi") for number in arguments.figure or []]
        inside = shlex.join(figures or [judged])
        runs.append(_run(parts, "mininet-wifi", f"sh scripts/vm/mininet-wifi.sh {inside}", shares))
    return 0 if all(run.status == 0 for run in runs) else 1


def demo(figure: int, *options: str) -> str:
    """Return the command that makes a figure in a machine, as a picture and as JSON."""
    words = [
        "ccp",
        "demo",
        "wifi",
        "--figure",
        str(figure),
        *options,
        "--out",
        f"/mnt/out/figure-{figure}.png",
    ]
    return f"{' '.join(words)} --json > /mnt/out/figure-{figure}.json"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m scripts.vm.wifi", description=__doc__)
    parser.add_argument(
        "--mininet-wifi",
        type=Path,
        metavar="FOLDER",
        help="folder with Mininet-WiFi: Python packages in python, mnexec and hwsim_mgmt in bin",
    )
    parser.add_argument(
        "--figure",
        type=int,
        action="append",
        choices=FIGURES,
        help="only make this figure of the paper, with `ccp demo wifi`; may be repeated",
    )
    add_options(parser, timeout_s=TIMEOUT_S)
    return parser.parse_args()


def _check_mininet(folder: Path | None) -> None:
    if folder is None:
        return
    needed = ("python/mininet", "python/mn_wifi", "bin/mnexec", "bin/hwsim_mgmt")
    lost = [name for name in needed if not (folder / name).exists()]
    if lost:
        raise VmError(
            f"cannot find Mininet-WiFi in {folder}",
            f"missing: {', '.join(lost)}",
            "see docs/mininet-wifi.md",
        )


def _run(parts: Parts, name: str, command: str, shares: dict[str, Path]) -> Run:
    run = parts.run(KERNEL, command, OUT / f"out-{name}", shares=shares)
    ended = "the machine ended early" if run.status is None else f"status {run.status}"
    parts.console.print(f"{name}: Linux {run.kernel.version}, {run.wall_s:.0f} s, {ended}")
    if run.status == 0 and (run.out / FINDINGS).exists():  # else the console was shown
        parts.console.print(table(read_findings(run.out)))
    for picture in sorted(run.out.glob("figure-*.png")):
        parts.console.print(f"picture: {os.path.relpath(picture)}")
    return run


if __name__ == "__main__":
    sys.exit(main())
