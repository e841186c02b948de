"""`python -m scripts.vm.services`: the units of `ccp service install` under a real systemd, in a machine.

`services_inside` runs in it. Results are kept in docs/results.
"""

from __future__ import annotations

import argparse
import sys
from typing import Final

from scripts.vm import kernels
from scripts.vm.parts import add_options, gather
from scripts.vm.places import OUT, ROOT
from scripts.vm.results import keep_run, revision
from scripts.vm.services_inside import RESULT

PACKAGES: Final = ["dbus", "mosquitto", "openssl", "systemd-sysv"]

KEPT: Final = ROOT / "docs/results" / RESULT
TIMEOUT_S: Final = 1800
COMMAND: Final = """modprobe -a overlay tcp_bbr tcp_dctcp
mkdir -p /mnt/changed && mount -t tmpfs changed /mnt/changed && cd /mnt/changed && mkdir upper work
mount -t overlay -o lowerdir=/mnt/checkout,upperdir=upper,workdir=work overlay /mnt/checkout
cd /mnt/checkout && python -m scripts.vm.services_inside"""
"""Another version of ccplane is installed over this one during the test."""


def main() -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m scripts.vm.services", description=__doc__)
    parser.add_argument("--kernel", default="6.12", choices=kernels.KERNELS, help="kernel to boot")
    parser.add_argument("--keep", action="store_true", help="keep the result in docs/results")
    add_options(parser, timeout_s=TIMEOUT_S)
    arguments = parser.parse_args()
    tested = revision()
    parts = gather(arguments, PACKAGES, with_tests=False)
    ended = parts.run(
        arguments.kernel, COMMAND, OUT / f"out-services-{arguments.kernel}", init="systemd-init.sh"
    )
    result = ended.out / RESULT
    if result.exists():
        parts.console.print_json(result.read_text())
        if arguments.keep and ended.status == 0:
            keep_run(ended, RESULT, "python -m scripts.vm.services", tested, KEPT)
    return 0 if ended.status == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
