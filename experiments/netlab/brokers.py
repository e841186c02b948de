"""A broker on a host of a lab, with separate links."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator

from broker.options import PORT
from experiments.netlab.host import Host
from experiments.netlab.iperf import wait_until_listening
from experiments.netlab.lab import Lab


@contextlib.contextmanager
def broker_on(host: Host) -> Iterator[None]:
    """Run a broker on all addresses of a host."""
    command = [sys.executable, "-P", "-m", "broker.embedded", "--host", "0.0.0.0", "--anonymous"]
    running = host.popen([*command, "--port", str(PORT)], stdout=subprocess.DEVNULL)
    try:
        wait_until_listening(host, PORT, running)
        yield
    finally:
        running.terminate()
        running.wait()


def add_broker_host(lab: Lab, sender: Host, receiver: Host) -> tuple[Host, str, str]:
    """Return a host for a broker with separate links to both ends, and its address for each."""
    host = lab.add_host("broker")
    _, for_sender = lab.connect(sender, host)
    _, for_receiver = lab.connect(receiver, host)
    return host, for_sender.ipv4, for_receiver.ipv4
