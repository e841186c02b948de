"""Flows of one algorithm over one bottleneck in the simulator, which a test lets run step by step."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from ccp_algs import set_params
from ccplane.agent.description import Description, assembled, plan
from ccplane.datapath import sim

BULK: Final = {"kind": "bulk"}
PAYLOAD_SHARE: Final = 1448 / 1500


@dataclass
class Seen:
    """One flow: its algorithm, and the state and the fields of each report that it took."""

    instance: Any
    reports: list[tuple[int, str, dict[str, int]]] = field(default_factory=list)

    @property
    def state(self) -> str:
        return self.reports[-1][1] if self.reports else ""

    @property
    def last(self) -> dict[str, int]:
        return self.reports[-1][2]

    @property
    def states(self) -> list[tuple[int, str]]:
        """Time [us] and state, each time that the state changed."""
        changes: list[tuple[int, str]] = []
        for now_us, state, _ in self.reports:
            if not changes or changes[-1][1] != state:
                changes.append((now_us, state))
        return changes


class Bottleneck:
    """Two hosts, one link, and flows of `cls` whose reports are kept.

    Args:
        cls: The algorithm.
        rate_bytes_per_s: Of the link, which is 1500 bytes a packet.
        rtt_us: Without a queue.
        buffer_pkts: Of the drop-tail queue.
        apps: What each flow's application does, and when it starts [s].
        direction: Further fields of the link.
        params: Of the algorithm.
    """

    def __init__(
        self,
        cls: type[Any],
        rate_bytes_per_s: float,
        rtt_us: int,
        buffer_pkts: int = 10_000,
        apps: tuple[tuple[Mapping[str, Any], float], ...] = ((BULK, 0.0),),
        direction: Mapping[str, Any] | None = None,
        **params: Any,
    ) -> None:
        flows: list[Seen] = []
        self.flows = flows

        class Watched(cls):  # type: ignore[misc]
            def on_create(self, info: Any) -> None:
                super().on_create(info)
                self.seen = Seen(self)
                flows.append(self.seen)

            def on_report(self, report: Any) -> None:
                super().on_report(report)
                self.seen.reports.append((report.now_us, self.state, report.as_dict()))

        set_params(Watched, params)
        self.rate_bytes_per_s = rate_bytes_per_s
        self._there = {"delay_us": rtt_us // 2, "buffer": {"packets": buffer_pkts}, **(direction or {})}
        self.datapath = sim.open_world(
            {
                "seed": 1,
                "mtu_bytes": 1500,
                "sample_interval_us": 1000,
                "nodes": [{"name": name, "addresses": [f"10.0.0.{i}"]} for i, name in enumerate("ab", 1)],
                "links": [
                    {"name": "l>", "from": 0, "to": 1, "direction": self._direction()},
                    {"name": "l<", "from": 1, "to": 0, "direction": {"delay_us": rtt_us // 2}},
                ],
                "routes": [[-1, 0], [1, -1]],
            }
        )
        ready = plan(Description([Watched]), tries=False)
        self._loop = assembled(ready, self.datapath, clock=lambda: self.datapath.now_us / 1e6)
        for app, start_s in apps:
            flow = {"sender": "a", "receiver": "b", "congestion": "ccp", "app": app}
            start_us = sim.START_US + round(1e6 * start_s)
            self.datapath.connect(json.dumps(flow | {"start_us": start_us}).encode())

    @property
    def now_us(self) -> int:
        return self.datapath.now_us

    def run(self, seconds: float, until: Callable[[], object] = lambda: False) -> np.ndarray:
        """Let time pass, until something holds at the latest; return the sockets' samples since then."""
        self._pass(seconds, until)
        return self.datapath.rows()

    def _pass(self, seconds: float, until: Callable[[], object] = lambda: False) -> None:
        end_us = self.now_us + round(1e6 * seconds)
        while self.now_us < end_us and not until():
            self.datapath.horizon_us = min(end_us, self.now_us + 10_000)
            self._loop.turn(10)

    def share(self, seconds: float) -> float:
        """Let time pass, and return what part of the link the flows got."""
        before = sum(self.acked_bytes())
        self._pass(seconds)
        return (sum(self.acked_bytes()) - before) / seconds / (self.rate_bytes_per_s * PAYLOAD_SHARE)

    def acked_bytes(self) -> list[int]:
        """Return what was acknowledged of each flow."""
        return [one.bytes_acked for one in self.datapath.all_stats()]

    def set_rate(self, rate_bytes_per_s: float) -> None:
        """Change the rate of the link."""
        self.rate_bytes_per_s = rate_bytes_per_s
        self.datapath.set_link("l>", json.dumps(self._direction()).encode())

    def change(self, **direction: Any) -> None:
        """Change other fields of the link."""
        self._there |= direction
        self.datapath.set_link("l>", json.dumps(self._direction()).encode())

    def _direction(self) -> dict[str, Any]:
        rate_bytes_per_s = None if "trace_ms" in self._there else self.rate_bytes_per_s
        return self._there | {"rate_bytes_per_s": rate_bytes_per_s}

    @property
    def lost_pkts(self) -> int:
        """Packets that the flows marked lost."""
        return sum(one.lost_pkts for one in self.datapath.all_stats())

    @property
    def dropped_pkts(self) -> int:
        return int(json.loads(self.datapath.links())["l>"]["dropped_queue_pkts"])
