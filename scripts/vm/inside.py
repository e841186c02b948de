"""Shared functions of the programs that run in machines."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

NOBODY: Final = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
"""Prefix that runs a command as an unprivileged user."""


def status_of(pid: int | str, *names: str) -> dict[str, str]:
    """Return the first word of fields of /proc/PID/status."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    fields = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
    return {name: fields[name].split()[0] for name in names}


@contextlib.contextmanager
def sending(*as_whom: str) -> Iterator[dict[str, float]]:
    """Run a flow that sends for the length of a block.

    Yields:
        Figures of the flow, filled in at the end of the block.

    Raises:
        RuntimeError: If the flow did not send until the end.
    """
    sent: dict[str, float] = {}
    server = subprocess.Popen(["iperf3", "-s", "-1"], stdout=subprocess.DEVNULL)
    time.sleep(2)
    client = subprocess.Popen(
        [*as_whom, "iperf3", "-c", "127.0.0.1", "-C", "ccp", "-t", "3600", "-b", "20M", "-J"],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield sent
    finally:
        client.send_signal(signal.SIGINT)
        reported, _ = client.communicate()
        server.kill()
        server.wait()
    said = json.loads(reported)
    last = said["intervals"][-2]["sum"]  # the signal cuts the last one short
    if "terminated" not in said.get("error", "") or not last["bytes"]:
        raise RuntimeError(f"the flow ended early or stalled: {said.get('error')}, {last}")
    sent["sent_mbit_per_s"] = round(said["end"]["sum_sent"]["bits_per_second"] / 1e6, 1)
