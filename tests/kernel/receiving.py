"""`ccp telemetry receive` as a process of a lab's host, or beside it, and what it prints."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from experiments.netlab import Host, process

CCP = str(Path(sys.executable).with_name("ccp"))

Signal = dict[str, Any]


class Receiving:
    """`ccp telemetry receive` while it runs.

    Attributes:
        how: What it said of its sources.
    """

    def __init__(self, running: process.Process) -> None:
        """Wait until it measures."""
        self._running = running
        self.how: list[str] = []
        assert running.stderr is not None
        for line in running.stderr:
            self.how.append(line.rstrip())
            if line.startswith("CE marks"):
                return
        raise AssertionError("\n".join(self.how))

    def next(self, count: int = 1) -> list[Signal]:
        """Return the signals that come next."""
        assert self._running.stdout is not None
        return [json.loads(self._running.stdout.readline()) for _ in range(count)]

    def until_after(self, t_wall_us: int) -> list[Signal]:
        """Return the signals that come next, up to those of an interval that began later [us]."""
        signals = self.next()
        ends = 0
        while ends < 2:
            signals += self.next()
            ends += signals[-1]["flow"] is None and signals[-1]["t_wall_us"] > t_wall_us
        return signals

    def stop(self, number: signal.Signals = signal.SIGTERM) -> list[Signal]:
        """End it; return all signals that were not taken yet."""
        self._running.send_signal(number)
        out, _ = self._running.communicate(timeout=20)
        assert self._running.returncode == 0
        return [json.loads(line) for line in out.splitlines()]


@contextlib.contextmanager
def receiving(host: Host, *options: str, outside: bool = False) -> Iterator[Receiving]:
    """Run `ccp telemetry receive --json` in a host, or for it from where the test is."""
    command = [CCP, "telemetry", "receive", "--json", *options]
    pipe = subprocess.PIPE
    if outside:
        command += ["--netns", host.namespace]
        running = subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, start_new_session=True)
    else:
        running = host.popen(command, stdout=pipe, stderr=pipe)
    try:
        yield Receiving(running)
    finally:
        process.end([running])


def summed(signals: list[Signal], name: str) -> int:
    """Return the sum of what was measured."""
    found = [one[name] for one in signals if one[name] is not None]
    assert found, name
    return sum(found)
