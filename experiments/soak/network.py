"""The hosts of a soak test, and the connections between them."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from experiments.bench.flows import load_environment
from experiments.netlab import Host, IperfRun, Path, process, start_iperf3, two_hosts
from experiments.netlab.namespace import path_of

ANSWER_TIMEOUT_S: Final = 60.0
DEFAULTS: Final = ("ccp", "ccp.soak", "ccp.reno", "reno")
"""Default congestion controls that every kernel allows in a namespace."""

IPERF_BYTES_PER_S: Final = 100_000


@dataclass(frozen=True, slots=True)
class Load:
    """Traffic of a pair of hosts.

    Attributes:
        count: Simultaneous connections.
        per_s: Connections replaced per second.
        talk_s: Mean time between two turns of a connection [s].
    """

    count: int
    per_s: float
    talk_s: float


class Pair:
    """Two hosts with churning connections between them.

    Attributes:
        path: The hosts.
    """

    def __init__(self, path: Path, load: Load, seed: int) -> None:
        self.path = path
        self._count = load.count
        ends = [str(path_of(host.namespace)) for host in (path.sender, path.receiver)]
        options = ["--count", load.count, "--per-s", load.per_s, "--talk-s", load.talk_s, "--seed", seed]
        self._running = subprocess.Popen(
            [
                *(sys.executable, "-P", "-m", "experiments.soak.traffic", *ends, path.receiver.ipv4),
                *map(str, options),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=load_environment(),
            start_new_session=True,
        )

    def order(self, what: str) -> dict[str, Any]:
        """Send a command to the traffic process; return its counters.

        Raises:
            RuntimeError: If the process has exited.
        """
        assert self._running.stdin is not None
        assert self._running.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._running.stdin.write(f"{what}\n")
            self._running.stdin.flush()
        line = self._running.stdout.readline()
        if not line:
            raise RuntimeError(f"the traffic process of {self.path.sender.namespace} exited")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def wait_until_busy(self) -> None:
        """Wait until there was one turn per connection on average, or until a timeout.

        Raises:
            RuntimeError: If the traffic process has exited.
        """
        end_s = time.monotonic() + ANSWER_TIMEOUT_S
        while self.order("tell")["turns"] < self._count and time.monotonic() < end_s:
            time.sleep(0.2)

    def kill(self) -> None:
        """Kill the traffic process; the kernel closes its connections."""
        process.kill(self._running)
        self._running.wait()

    def stop(self) -> None:
        """Stop the traffic process."""
        assert self._running.stdin is not None
        self._running.stdin.close()
        try:
            self._running.wait(ANSWER_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()


class Ends(NamedTuple):
    """A connection, as seen from one of its hosts."""

    netns_inum: int
    src_port: int
    dst_port: int


@dataclass(slots=True)
class Network:
    """All pairs of hosts.

    Attributes:
        pairs: The permanent pairs.
        load: Traffic of each pair.
        vanished: Number of pairs that vanished with open connections.
    """

    pairs: list[Pair]
    load: Load
    vanished: int = 0
    _iperf: IperfRun | None = None

    def hosts(self) -> list[Host]:
        """Return all hosts of permanent pairs."""
        return [host for pair in self.pairs for host in (pair.path.sender, pair.path.receiver)]

    def order(self, what: str) -> list[dict[str, Any]]:
        """Send a command to all pairs; return their counters, by pair."""
        return [pair.order(what) for pair in self.pairs]

    def begin_transfer(self, seconds: int) -> None:
        """Start a long iperf3 transfer."""
        path = self.pairs[0].path
        self._iperf = start_iperf3(
            path.sender,
            path.receiver,
            congestion="ccp.soak",
            duration_s=seconds,
            rate_bytes_per_s=IPERF_BYTES_PER_S,
            parallel=2,
            timeout_s=seconds + 120.0,
        )

    def end_transfer(self) -> str | None:
        """Wait for the transfer; return its error, or None."""
        running, self._iperf = self._iperf, None
        if running is None:
            return None
        with running:
            try:
                running.wait()
            except Exception as error:
                return f"iperf3: {error}"
        return None

    def ccp_sockets(self) -> set[Ends]:
        """Return the connections of permanent hosts with a congestion control of ccplane."""
        found = set()
        command = ["ss", "-tinHO", "state", "connected", "exclude", "time-wait"]
        for host in self.hosts():
            netns_inum = path_of(host.namespace).stat().st_ino
            for line in host.run(command, timeout_s=ANSWER_TIMEOUT_S).stdout.splitlines():
                words = line.split()
                if any(word == "ccp" or word.startswith("ccp.") for word in words):
                    local, peer = (int(end.rpartition(":")[2]) for end in words[3:5])
                    found.add(Ends(netns_inum, local, peer))
        return found

    def vanish(self, seconds: float, seed: int, *, cut: bool) -> dict[str, Any]:
        """Add a pair, and let it vanish with its connections.

        Returns:
            The counters of the pair's connections until it vanished.
        """
        with two_hosts(congestion="ccp") as path:
            pair = Pair(path, self.load, seed)
            try:
                for host in (path.sender, path.receiver):
                    host.set_sysctl("net.ipv4.tcp_orphan_retries", 1)
                pair.wait_until_busy()
                time.sleep(seconds)
                reported = pair.order("tell")
                if cut:
                    path.sender.run(["ip", "link", "delete", path.sender.interfaces[0].name])
            finally:
                pair.kill()
        self.vanished += 1
        return reported


@contextlib.contextmanager
def network(pairs: int, load: Load, seed: int) -> Iterator[Network]:
    """Make hosts with traffic for a `with` block."""
    with ExitStack() as stack:
        made = Network([], load)
        for number in range(pairs):
            path = stack.enter_context(two_hosts(congestion=DEFAULTS[number % len(DEFAULTS)]))
            pair = Pair(path, load, seed + number)
            stack.callback(pair.stop)
            made.pairs.append(pair)
        yield made
