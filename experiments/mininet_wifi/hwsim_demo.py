"""`python -m experiments.mininet_wifi.hwsim_demo`: in-band telemetry over simulated radios and hostapd."""

from __future__ import annotations

import sys

from experiments.mininet_wifi.chain import simulated_chain
from experiments.mininet_wifi.show import main

if __name__ == "__main__":
    sys.exit(main("experiments.mininet_wifi.hwsim_demo", __doc__, simulated_chain))
