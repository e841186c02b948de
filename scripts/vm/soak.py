"""`python -m scripts.vm.soak --hours 2`: a soak test in a virtual machine, with clock steps."""

from __future__ import annotations

import argparse
import sys

from experiments.soak.report import publish
from scripts.vm import kernels
from scripts.vm.parts import add_options, gather
from scripts.vm.places import OUT, ROOT
from scripts.vm.results import revision

PACKAGES = ["mosquitto"]
RESULT = "soak.json"
KEPT = ROOT / "docs/results" / RESULT
MORE_S = 1200
"""What it takes beyond the soak: to boot, to begin, to finish the last round."""
COMMAND = "modprobe -a tcp_bbr tcp_dctcp; python -m experiments.soak --step-clock --out /mnt/out/{result}"
SLOW = "--pairs 3 --connections 60 --churn 3 --turn-interval 5 --settle 10 --patience 60"
"""An emulated processor has a tenth of a real one's speed."""


def main() -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m scripts.vm.soak", description=__doc__)
    parser.add_argument("--kernel", default="6.12", choices=kernels.KERNELS, help="kernel to boot")
    parser.add_argument("--hours", type=float, default=2.0, help="length of the soak, in hours")
    parser.add_argument("--seed", type=int, default=1, help="seed of random choices")
    parser.add_argument("--keep", action="store_true", help="keep the result for docs/releases.md")
    parser.add_argument("--load", default=SLOW, help="options of `experiments.soak`")
    add_options(parser, timeout_s=0)
    arguments = parser.parse_args()
    arguments.timeout = arguments.timeout or 3600 * arguments.hours + MORE_S
    tested = revision()
    soak = (
        f"{COMMAND.format(result=RESULT)} --hours {arguments.hours} --seed {arguments.seed} {arguments.load}"
    )
    ended = gather(arguments, PACKAGES).run(arguments.kernel, soak, OUT / f"out-soak-{arguments.kernel}")
    result = ended.out / RESULT
    if result.exists() and arguments.keep:
        publish(result, KEPT, tested)
    print((ended.out / "console.log").read_text(errors="replace")[-4000:])
    return 1 if ended.status is None else ended.status


if __name__ == "__main__":
    sys.exit(main())
