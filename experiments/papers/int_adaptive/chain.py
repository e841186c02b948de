"""The chain of two stations and two access points, and its figures from telemetry and emulator.

    sta1 --wireless1-- ap1 --wired-- ap2 --wireless2-- sta2

The wired hop is the bottleneck; the last hop loses packets in both directions. Data go from sta1 to sta2.
sta1 adds headers, ap1 and ap2 write to them, sta2 removes them. The paper gives no rates, delays or
queues. The wired hop is the bottleneck, so that queue and random loss are on different links. Headers
take 184 of 1500 bytes, also for kernel CUBIC. sta1 does not write to them: with the data of three nodes,
less than IPv6's minimum MTU of 1280 bytes would remain.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pandas as pd

from experiments.netlab.spec import Bernoulli, Buffer, Direction, Int, IntNode, Link, Radio, Topology
from experiments.papers.tables import figures_of
from experiments.papers.variants import KERNEL
from experiments.results import Result
from experiments.runs.shapes import Graph
from experiments.scenario import FlowSpec, Scenario
from experiments.traffic.spec import OnOff

OWN: Final = "int_cubic"
BOTTLENECK_NODE: Final = "ap1"
BOTTLENECK: Final = "wired>"
LOSSY_NODE: Final = "ap2"
LOSSY: Final = "wireless2>"

MTU_BYTES: Final = 1500
RATE_BYTES_PER_S: Final = 2.5e6
WIRELESS_BYTES_PER_S: Final = 6.25e6
WIRED_DELAY_US: Final = 3_000
WIRELESS_DELAY_US: Final = 1_000
QUEUE_PKTS: Final = 50
WIRELESS_QUEUE_PKTS: Final = 100
RADIO: Final = Radio(rssi_dbm=-55.0, snr_db=35.0, mcs=7, data_rate_bytes_per_s=8_125_000)
"""One stream of 802.11n in 20 MHz: 65 Mbit/s on the air."""

TELEMETRY: Final = Int(
    nodes=(
        IntNode("sta1", ("source",)),
        IntNode("ap1", ("transit",)),
        IntNode("ap2", ("transit",), radio=RADIO),
        IntNode("sta2", ("sink",)),
    )
)
"""Every data packet carries telemetry headers, and sinks send a summary every 10 ms. A third node that writes
would leave less than the minimum MTU of IPv6."""

_OF_NODE: Final = {"lost_pkts": "link_lost_pkts", "interval_us": "node_interval_us"}
"""New names of a node's columns that a flow also has."""

NO_END_S: Final = 1e6
"""How long a flow's application sends [s]: longer than any run."""


def chain(
    name: str,
    duration_s: float,
    *,
    flows: int = 1,
    telemetry: Int = TELEMETRY,
    sample_interval_us: int = 100_000,
) -> Scenario:
    """Return the network, with flows of kernel CUBIC, `flow1`, `flow2`, and so on."""
    wireless = Direction(
        rate_bytes_per_s=WIRELESS_BYTES_PER_S,
        delay_us=WIRELESS_DELAY_US,
        buffer=Buffer(packets=WIRELESS_QUEUE_PKTS),
        loss=Bernoulli(0.0),
    )
    wired = Direction(
        rate_bytes_per_s=RATE_BYTES_PER_S, delay_us=WIRED_DELAY_US, buffer=Buffer(packets=QUEUE_PKTS)
    )
    links = (
        Link("wireless1", "sta1", "ap1", wireless, wireless),
        Link("wired", "ap1", "ap2", wired, wired),
        Link("wireless2", "ap2", "sta2", wireless, wireless),
    )
    topology = Topology(("sta1", "sta2"), links, ("ap1", "ap2"), MTU_BYTES, telemetry)
    # Not iperf3: its control connection would be another flow to the nodes, and may fail at 20 % loss.
    traffic = OnOff(on_s=NO_END_S, off_s=NO_END_S, distribution="fixed")
    return Scenario(
        name=f"int-adaptive: {name}",
        topology=Graph.of(topology),
        flows=tuple(
            FlowSpec(f"flow{number}", "sta1", "sta2", KERNEL, traffic=traffic, family="ipv6")
            for number in range(1, flows + 1)
        ),
        duration_s=duration_s,
        sample_interval_us=sample_interval_us,
    )


def losing(loss_ratio: float) -> dict[str, Any]:
    """Return the fields that make the last hop lose this share of packets in both directions."""
    return {f"links.wireless2.{way}.loss.ratio": loss_ratio for way in ("forward", "backward")}


def losses(ratios: Sequence[float]) -> dict[str, dict[str, Any]]:
    """Return the loss ratios of the last hop as points of a grid's axis."""
    return {f"{100 * one:g} %": losing(one) for one in ratios}


def conditions(result: Result) -> dict[str, Any]:
    """Return the conditions and figures of a run."""
    flow, link = result.scenario.flows[0], _directions(result)[LOSSY]
    lossy = result.metadata.get("links", {}).get(LOSSY, {})
    return {
        "algorithm": flow.algorithm,
        "flows": len(result.scenario.flows),
        "loss_ratio": link.loss.ratio if isinstance(link.loss, Bernoulli) else 0.0,
        **figures_of(result, BOTTLENECK),
        "dropped_loss_pkts": lossy.get("dropped_loss_pkts"),
    }


def seen(result: Result, node: str) -> pd.DataFrame:
    """Return the telemetry of the data flows and of one node on their path, per interval.

    Returns:
        The columns of `int_summaries`, and further columns of `int_hops`: `queue_depth_pkts`,
        `arrival_pkts_per_s` and so on; the node's `lost_pkts` is `link_lost_pkts`, its interval
        `node_interval_us`. There is a row for each summary of a flow that contains the node, in order of
        time.
    """
    key = ["t_s", "flow", "connection", "backward"]
    summaries, hops = result.int_summaries, result.int_hops
    own = hops[(hops["node"] == node) & ~hops["backward"]].rename(columns=_OF_NODE)
    new = own.columns.difference(summaries.columns).union(key)
    return summaries.merge(own[new], on=key).sort_values("t_s", kind="stable")


def _directions(result: Result) -> dict[str, Direction]:
    links = result.scenario.network.links
    return {f"{link.name}>": link.forward for link in links} | {f"{link.name}<": link.back for link in links}
