"""R-Hybrid: a host that simultaneously serves a peer in its zone and one across the Internet.

The link to the near peer is not shared and marks as DCTCP needs; the queue to the far peer is shared with a
bulk transfer. One congestion control for the whole host, as in the paper, is wrong for one of the two peers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pandas as pd

from experiments import plots
from experiments.metrics import within
from experiments.netlab.spec import Buffer, Direction, DropTail, Link, Topology
from experiments.papers.estimates import of_pairs, over_runs
from experiments.papers.paper import Findings, Part, Runs, Size
from experiments.papers.r_hybrid.path import DCTCP, OWN, SETTLED_S, own_params, settled, watching
from experiments.papers.tables import Check, Table
from experiments.papers.variants import KERNEL, steady, steered
from experiments.results import Result
from experiments.runs import reading
from experiments.runs.shapes import Graph
from experiments.scenario import FlowSpec, ReceiverAgent, Scenario, SocketSwitch
from experiments.statistics import Estimate
from experiments.sweep import Grid

NEAR: Final = "near"
FAR: Final = "far"

NEAR_BYTES_PER_S: Final = 12.5e6
NEAR_RTT_US: Final = 1_000
MARKED_US: Final = 1_000
FAR_BYTES_PER_S: Final = 10e6
FAR_RTT_US: Final = 40_000
BUFFER_PKTS: Final = 200

SWITCHED: Final = "ordinary sockets, switched"
ON_CUBIC: Final = "whole host on CUBIC"
ON_DCTCP: Final = "whole host on DCTCP"
BY_FLOW: Final = (OWN, SWITCHED)
MOSTLY: Final = 0.9


def _both(algorithm: str, *switches: SocketSwitch) -> dict[str, Any]:
    """Return the fields for the flows to both peers, and for the hosts' sockets."""
    near, far = (steered(algorithm, flow, **own_params(algorithm)) for flow in (NEAR, FAR))
    return near | far | {"switches": reading.full(list(switches))}


VARIANTS: Final[Mapping[str, Mapping[str, Any]]] = {
    OWN: _both(OWN),
    # DCTCP takes both ends (RFC 8257, section 3): the near peer's sockets follow the same decisions.
    SWITCHED: _both(KERNEL, SocketSwitch("server"), SocketSwitch(NEAR, rules=("dst={server} -> {near}",))),
    ON_CUBIC: _both(KERNEL),
    ON_DCTCP: _both(DCTCP),
}


def scenario(duration_s: float) -> Scenario:
    """Return the run of a host with two peers."""
    near = Direction(
        rate_bytes_per_s=NEAR_BYTES_PER_S,
        delay_us=NEAR_RTT_US // 2,
        buffer=Buffer(packets=BUFFER_PKTS),
        queue=DropTail(ce_threshold_us=MARKED_US),
    )
    far = Direction(rate_bytes_per_s=FAR_BYTES_PER_S, delay_us=FAR_RTT_US // 2, buffer=Buffer(bdp=1.0))
    links = (
        Link("zone", "server", "router", Direction()),
        Link("access", "other", "router", Direction()),
        Link(NEAR, "router", NEAR, near),
        Link(FAR, "router", FAR, far),
    )
    return Scenario(
        name="r-hybrid: two peers",
        topology=Graph.of(Topology(("server", "other", NEAR, FAR), links, ("router",))),
        flows=(
            FlowSpec(NEAR, "server", NEAR, KERNEL, traffic=steady(), ecn=True),
            FlowSpec(FAR, "server", FAR, KERNEL, traffic=steady(), ecn=True),
            FlowSpec("other", "other", FAR, KERNEL, traffic=steady(), ecn=True),
        ),
        duration_s=duration_s,
        receivers=(watching(NEAR), ReceiverAgent(FAR, peers=("server",), mode="fast")),
    )


def dctcp_ratio(result: Result, flow: str) -> float:
    """Return the share of its time in which a flow had DCTCP, from `SETTLED_S` on.

    The share is read from the socket of an ordinary flow, and from the events of an `r_hybrid` flow, whose
    socket always has the same congestion control.
    """
    samples = within(result.connection_samples, SETTLED_S)
    own = samples[samples["flow"] == flow]
    if (own["congestion"] != f"ccp.{OWN}").all():
        return float((own["congestion"] == f"ccp.{DCTCP}").mean())
    switches = _switches(result, flow)
    programs = pd.Series(["cubic", *switches["after"]])
    return float((programs.iloc[np.searchsorted(switches["t_s"], own["t_s"], "right")] == DCTCP).mean())


def _switches(result: Result, flow: str) -> pd.DataFrame:
    """Return the switches of a flow in order; `r_hybrid` begins with `cubic`."""
    events = result.regime_events
    return events[(events["event"] == "regime:switched") & (events["flow"] == flow) & ~events["backward"]]


def peers(result: Result) -> pd.DataFrame:
    """Return a row for each peer: `variant`, `peer`, `dctcp_ratio`, `switches`, and `settled`'s columns."""
    rows = [
        {
            "variant": result.axes["variant"],
            "peer": peer,
            "dctcp_ratio": dctcp_ratio(result, peer),
            "switches": len(_switches(result, peer)),
            **settled(result, peer),
        }
        for peer in (NEAR, FAR)
    ]
    return pd.DataFrame(rows)


# --- the part ----------------------------------------------------------------------------------------------


def _grids(size: Size) -> list[Grid]:
    return [Grid(scenario(size.seconds(12, 30)), {"variant": VARIANTS}, size.name, size.times(1, 10))]


def _row(result: Result) -> dict[str, Any]:
    return {"goodput_bytes_per_s": result.flows["goodput_bytes_per_s"].sum()}


def _findings(runs: Runs) -> Findings:
    found = runs.rows(peers)
    values = ["goodput_bytes_per_s", "queueing_delay_p50_us", "dctcp_ratio", "switches"]
    title = "One host with a near peer on its own link and a far peer on a shared link"
    return Findings(
        [Table.of(found, title, ["peer", "variant"], values)],
        {
            f"two-peers-{name}": plots.bars(
                found, column, group="peer", by="variant", title=f"A host with two peers: {what}"
            )
            for name, column, what in (
                ("goodput", "goodput_bytes_per_s", "goodput"),
                ("delay", "queueing_delay_p50_us", "queueing delay"),
            )
        },
        claims(found),
    )


def claims(found: pd.DataFrame) -> list[Check]:
    """Check which congestion control each flow has, and compare with one control for the whole host."""

    def of(variant: str, peer: str) -> pd.DataFrame:
        return found[(found["variant"] == variant) & (found["peer"] == peer)]

    def quotient(variant: str, peer: str, other: str) -> Estimate:
        mine, rival = (of(one, peer).set_index("seed")["goodput_bytes_per_s"] for one in (variant, other))
        return of_pairs(mine, rival)

    checks = []
    for variant in BY_FLOW:
        near, far = (over_runs(of(variant, peer), "dctcp_ratio") for peer in (NEAR, FAR))
        checks += [
            Check(
                f"{variant}: share of time in which the near flow has DCTCP",
                near,
                low=MOSTLY,
                name=f"near, {variant}",
            ),
            Check(
                f"{variant}: share of time in which the far flow has DCTCP",
                far,
                high=1 - MOSTLY,
                name=f"far, {variant}",
            ),
            Check(
                f"{variant}: ratio of the far peer's goodput to that with the {ON_DCTCP}",
                quotient(variant, FAR, ON_DCTCP),
                low=1.0,
            ),
            Check(
                f"{variant}: ratio of the near peer's goodput to that with the {ON_CUBIC}",
                quotient(variant, NEAR, ON_CUBIC),
                low=1.0,
            ),
        ]
    return checks


TWO_PEERS: Final = Part("two-peers", "a host with a near and a far peer", _grids, _findings, _row)
