"""Flex-Cubic on real sockets: what is spared, what is not, and parameters that change while flows run."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest

from agent.client import Client, Stream
from agent.control import control_socket
from ccp_algs.episodes import CUT
from ccp_algs.inflation import INFLATED, NO_LOSS, SPARED_LOSS
from experiments.agent_process import PIN_DIR, running_agent
from experiments.netlab.emulated import EmulatedNetwork, emulated
from experiments.netlab.spec import Bernoulli, Buffer, Direction, Link, Topology
from tests.kernel.driving import Start, ccp, wait_until

RTT_US: Final = 10_000
BETA: Final = 0.7
DEEP: Final = Direction(1.25e6, delay_us=RTT_US // 2, buffer=Buffer(bdp=2.5))
"""10 Mbit/s; full, its queue makes 3.5 times the RTT, and the window is 28 segments."""
LOSSY: Final = Direction(12.5e6, delay_us=RTT_US // 2, loss=Bernoulli(ratio=0.03))
BACK: Final = Direction(delay_us=RTT_US // 2)


@pytest.fixture
def net() -> Iterator[EmulatedNetwork]:
    """Three paths of their own: a deep queue, another one, and random loss."""
    links, hosts = [], []
    for name, forward in (("queue", DEEP), ("other", DEEP), ("lossy", LOSSY)):
        links += [Link(name, f"s-{name}", "hub", forward, BACK), Link(f"{name}-end", "hub", f"r-{name}")]
        hosts += [f"s-{name}", f"r-{name}"]
    with emulated(Topology(tuple(hosts), tuple(links), ("hub",))) as network:
        yield network


class Reports:
    """Reports of the flows by the path that they are on."""

    def __init__(self, client: Client, stream: Stream, net: EmulatedNetwork) -> None:
        self.stream = stream
        self.client = client
        self.paths = {net.hosts[f"r-{path}"].ipv4: path for path in ("queue", "other", "lossy")}
        self.flow_ids: dict[str, int] = {}
        self.rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
        self._path_of: dict[int, str] = {}

    def take(self) -> None:
        """Take what has come."""
        for row in self.stream.ready():
            flow_id = row["flow_id"]
            if flow_id not in self._path_of:
                for info in self.client.flows().itertuples():
                    self._path_of[info.Index] = self.paths.get(info.dst_addr, "servers")
            path = self._path_of.get(flow_id, "servers")
            self.flow_ids[path] = flow_id
            self.rows[path].append({**row, **row["fields"]})

    def until(self, done: Callable[[], bool]) -> None:
        """Take reports until something holds."""

        def check() -> bool:
            self.take()
            return done()

        wait_until(check)

    def cuts(self, path: str) -> list[dict[str, Any]]:
        """Return the reports that tell of a reduction."""
        return [row for row in self.rows[path] if row["event"] == CUT]

    def next_ratios(self, **reductions: int) -> list[float]:
        """Wait for so many reductions of each path; return what part of the window the last ones left."""
        self.take()
        wanted = {path: len(self.cuts(path)) + count for path, count in reductions.items()}
        self.until(lambda: all(len(self.cuts(path)) >= count for path, count in wanted.items()))
        last = [self.cuts(path)[count - 1] for path, count in wanted.items()]
        return [float(cut["cwnd_bytes"] / cut["prior_bytes"]) for cut in last]


# A processor lent to others for an RTT delays packets as a full queue would: a loss then is congestion.
def test_losses_are_spared_without_a_queue_and_answered_with_one(
    net: EmulatedNetwork, start_transfer: Start
) -> None:
    hosts = net.hosts
    with (
        running_agent("flex_cubic") as agent,
        Client(control_socket(PIN_DIR)) as client,
        client.stream() as stream,
    ):
        reports = Reports(client, stream, net)
        for path in ("queue", "other"):
            start_transfer(hosts[f"s-{path}"], hosts[f"r-{path}"], congestion="ccp.flex_cubic", duration_s=60)
        # Fewer packets than the link takes: no queue, so that whatever is lost here is lost by chance.
        start_transfer(
            hosts["s-lossy"], hosts["r-lossy"], congestion="ccp.flex_cubic", duration_s=60,
            rate_bytes_per_s=2.5e6, write_bytes=14_480,
        )  # fmt: skip
        reports.until(lambda: sum(row["spared_pkts"] for row in reports.rows["lossy"]) >= 50)

        lossy = reports.rows["lossy"]
        assert reports.cuts("lossy") == []
        assert {row["loss_reason"] for row in lossy} == {NO_LOSS, SPARED_LOSS}
        assert sum(row["congestion_pkts"] for row in lossy) == 0
        for before, row in itertools.pairwise(lossy):
            if not row["timeout"]:
                assert row["cwnd_bytes"] >= before["cwnd_bytes"], "nothing reduced the window"

        # A queue overflows: CUBIC's reaction, by beta, at once and in the kernel.
        assert reports.next_ratios(queue=1) == pytest.approx([BETA], abs=0.01)
        cut = reports.cuts("queue")[-1]
        assert cut["loss_reason"] == INFLATED
        assert cut["loss_rtt_us"] >= 2 * cut["min_rtt_us"]
        assert cut["min_rtt_us"] == pytest.approx(RTT_US, rel=0.3)

        # One flow's beta, by the command line; then that of all others. One reduction may be under way.
        flow_id = str(reports.flow_ids["queue"])
        assert "1 running flow" in ccp("set", "beta=0.5", "--flow", flow_id)
        assert reports.next_ratios(queue=2, other=1) == pytest.approx([0.5, BETA], abs=0.01)
        ccp("set", "flex_cubic.beta=0.85")
        assert reports.next_ratios(queue=1, other=2) == pytest.approx([0.5, 0.85], abs=0.01)

        # The rule itself: with k = 1 every loss is congestion.
        ccp("set", "flex_cubic.rtt_multiplier=1")
        reports.next_ratios(lossy=1)
        assert reports.cuts("lossy")[0]["loss_reason"] == INFLATED
        assert agent.running
