"""Brokers on hosts of a lab, with links of their own."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from broker.options import PORT
from experiments.netlab.host import Host
from experiments.netlab.iperf import wait_until_listening
from experiments.netlab.lab import Lab


@contextlib.contextmanager
def embedded(host: Host) -> Iterator[None]:
    """Run the embedded broker on all addresses of a host."""
    command = [sys.executable, "-m", "broker.embedded", "--host", "0.0.0.0", "--anonymous"]
    command += ["--port", str(PORT)]
    running = host.popen(command, stdout=subprocess.PIPE)
    try:
        wait_until_listening(host, PORT, running)
        yield
    finally:
        running.terminate()
        running.wait()
        if running.stdout is not None:
            running.stdout.close()


@contextlib.contextmanager
def mosquitto(host: Host) -> Iterator[None]:
    """Run Eclipse Mosquitto on all addresses of a host."""
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder, "mosquitto.conf")
        config.write_text(f"listener {PORT} 0.0.0.0\nallow_anonymous true\nset_tcp_nodelay true\nuser root\n")
        running = host.popen(["mosquitto", "-c", str(config)])
        try:
            wait_until_listening(host, PORT, running)
            yield
        finally:
            running.terminate()
            running.wait()


BROKERS: Final[dict[str, Callable[[Host], contextlib.AbstractContextManager[None]]]] = {
    "embedded": embedded,
    "mosquitto": mosquitto,
}


def add_broker_host(lab: Lab, sender: Host, receiver: Host) -> tuple[Host, str, str]:
    """Return a host for a broker with links of its own to both ends, and its addresses for each."""
    host = lab.add_host("broker")
    _, for_sender = lab.connect(sender, host)
    _, for_receiver = lab.connect(receiver, host)
    return host, for_sender.ipv4, for_receiver.ipv4
