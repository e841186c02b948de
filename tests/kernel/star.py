"""Many paths in one run: links around one router that share nothing but the machine, and what is measured."""

from __future__ import annotations

from typing import Any, Final

from experiments import metrics
from experiments.netlab.spec import Bernoulli, Direction, Link, Pattern, Topology
from experiments.results import Result
from experiments.run import run
from experiments.scenario import FlowSpec, Graph, Scenario

MSS_BYTES: Final = 1448
"""Payload of 1500 bytes with TCP timestamps."""


class Star:
    """Hosts around one router, built link by link; all data crosses the router."""

    def __init__(self) -> None:
        self.hosts: list[str] = []
        self.links: list[Link] = []
        self.routers = ["hub"]
        self.flows: list[FlowSpec] = []

    def path(self, name: str, algorithm: str, loss: Bernoulli | Pattern, rtt_us: int) -> None:
        """Add a path of its own for one flow; its link `NAME>` has the loss, and all of the delay."""
        sender, receiver = f"s-{name}", f"r-{name}"
        one_way = Direction(delay_us=rtt_us // 2)
        self.hosts += [sender, receiver]
        self.links += [
            Link(name, sender, "hub", Direction(delay_us=rtt_us // 2, loss=loss), one_way),
            Link(f"{name}-end", "hub", receiver),
        ]
        self.flows.append(FlowSpec(name, sender, receiver, algorithm))

    def bottleneck(self, name: str, direction: Direction, *algorithms: str, **params: Any) -> None:
        """Add flows that share a bottleneck `NAME>`, each two seconds behind the one before.

        Args:
            name: Of the link, 12 characters at most; flows are called NAME-0, NAME-1, ...
            direction: Both directions of it.
            *algorithms: One for each flow.
            **params: Of all these algorithms.
        """
        self.routers.append(f"l-{name}")
        self.links.append(Link(name, f"l-{name}", "hub", direction))
        for i, algorithm in enumerate(algorithms):
            sender, receiver = f"s{i}-{name}", f"r{i}-{name}"
            self.hosts += [sender, receiver]
            self.links += [
                Link(f"{name}-s{i}", sender, f"l-{name}"),
                Link(f"{name}-r{i}", "hub", receiver),
            ]
            flow = FlowSpec(f"{name}-{i}", sender, receiver, algorithm, start_s=2.0 * i, params=params)
            self.flows.append(flow)

    def run(self, name: str, duration_s: float, datapath: str = "ebpf") -> Result:
        """Let all flows send on a datapath."""
        topology = Topology(tuple(self.hosts), tuple(self.links), tuple(self.routers))
        flows = tuple(self.flows)
        scenario = Scenario(name=name, topology=Graph.of(topology), flows=flows, duration_s=duration_s)
        return run(scenario, datapath=datapath)


class Measured:
    """A result without its beginning, and without what links still carry when the flows are over."""

    def __init__(self, result: Result, from_s: float) -> None:
        end_s = result.scenario.duration_s
        self.samples = metrics.within(result.flow_samples, from_s, end_s)
        self.links = metrics.within(result.link_samples, from_s, end_s)
        self.goodput_bytes_per_s = metrics.goodput_bytes_per_s(self.samples)
        self.loss_ratio = metrics.loss_ratio(self.links)
        self.rtt_s = self.samples.groupby("flow")["srtt_us"].mean() / 1e6

    def window_pkts(self, flow: str) -> float:
        """Return the mean window that a flow's goodput stands for."""
        return float(self.goodput_bytes_per_s[flow] * self.rtt_s[flow] / MSS_BYTES)
