"""Checks whether simulated Wi-Fi can run here, before anything is built."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Final

from ccplane.base.errors import Collector
from experiments.mininet_wifi.errors import WifiError
from experiments.mininet_wifi.radios import MODULE, no_radios
from experiments.netlab.process import which

PROGRAMS: Final = ("hostapd", "iperf3", "iw", "mosquitto", "tc")


def must_be_ready() -> None:
    """Check whether this machine and process meet the needs of the chain.

    Raises:
        WifiError: `wifi.not_root`, `wifi.no_radios`.
        LabError: `lab.no_command`.
        Several: If more is missing.
    """
    problems = Collector()
    with problems.check():
        if os.geteuid() != 0:
            raise WifiError(
                "wifi.not_root",
                "creating radios and networks needs root",
                "ccp demo wifi",
                f"this is user {os.geteuid()}",
                "sudo ccp demo wifi",
            )
    with problems.check():
        _must_have_radios()
    for program in PROGRAMS:
        with problems.check():
            which(program, "Wi-Fi demo")
    problems.finish()


def _must_have_radios() -> None:
    if Path("/sys/module", MODULE).exists():
        return  # loading them shows whether they are in use
    tried = subprocess.run(
        [which("modprobe", MODULE), "--dry-run", MODULE], capture_output=True, text=True, check=False
    )
    if tried.returncode:
        raise no_radios(tried.stderr.strip())
