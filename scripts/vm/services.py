"""`python -m scripts.vm.services`: the units of `ccp service install` under a real systemd, in a machine."""

from __future__ import annotations

import argparse
import json
import sys

from experiments import records
from scripts.vm import kernels
from scripts.vm.parts import add_options, gather
from scripts.vm.places import OUT, ROOT
from scripts.vm.results import revision

PACKAGES = ["dbus", "mosquitto", "openssl", "systemd-sysv"]
RESULT = "services.json"
KEPT = ROOT / "docs/results" / RESULT
TIMEOUT_S = 900
COMMAND = "modprobe -a tcp_bbr tcp_dctcp; python -m scripts.vm.services_inside"


def main() -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m scripts.vm.services", description=__doc__)
    parser.add_argument("--kernel", default="6.12", choices=kernels.KERNELS, help="kernel to boot")
    parser.add_argument("--keep", action="store_true", help="keep the result for docs/operations.md")
    add_options(parser, timeout_s=TIMEOUT_S)
    arguments = parser.parse_args()
    tested = revision()
    parts = gather(arguments, PACKAGES)
    ended = parts.run(
        arguments.kernel, COMMAND, OUT / f"out-services-{arguments.kernel}", init="systemd-init.sh"
    )
    result = ended.out / RESULT
    if result.exists():
        parts.console.print_json(json.dumps(json.loads(result.read_text())))
        if arguments.keep and ended.status == 0:
            KEPT.write_text(records.dumped({"revision": tested, **json.loads(result.read_text())}))
    return 0 if ended.status == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
