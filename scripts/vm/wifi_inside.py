"""Sends a flow over simulated Wi-Fi, and checks what its in-band telemetry says.

The recording and the findings are kept in FOLDER. Exit status: 1 if a finding does not hold, 2 if it could
not run.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Final

from rich.console import Console

from ccplane.agent import console
from ccplane.base.errors import CcpError
from experiments.mininet_wifi import show
from experiments.mininet_wifi.chain import simulated_chain
from experiments.mininet_wifi.demo import record
from experiments.mininet_wifi.findings import findings
from experiments.mininet_wifi.int_demo import mininet_chain
from experiments.mininet_wifi.recorded import read

LOSS_RATIO: Final = 0.05
"""Loss of the second air link."""
PHASE_S: Final = 25
"""Duration of each of the two phases, between which the loss rule of int_cubic changes [s]."""


def main(words: list[str]) -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m scripts.vm.wifi_inside", description=__doc__)
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument("--mininet-wifi", action="store_true", help="build the network with Mininet-WiFi")
    given = parser.parse_args(words)
    given.folder.mkdir(parents=True, exist_ok=True)
    try:
        with mininet_chain() if given.mininet_wifi else simulated_chain() as chain:
            record(chain, given.folder, loss_ratio=LOSS_RATIO, phase_s=PHASE_S)
        found = findings(read(given.folder, LOSS_RATIO))
    except CcpError as error:
        console.show_error(error, debug=False)
        return 2
    show.write_findings(given.folder, found)
    Console(highlight=False).print(show.table(found))
    return 0 if all(one.holds for one in found) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
