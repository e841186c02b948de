"""The network on which papers compare algorithms: two flows through one bottleneck.

`against`, `bursts_of` and `variants.steered` return fields for a grid's axes; `conditions` and `shares`
return the row of a run.
"""

from __future__ import annotations

from typing import Any, Final

from experiments.events import ParamValue
from experiments.metrics import NAN, goodput_bytes_per_s, jain_index, within
from experiments.netlab.spec import Bernoulli, Buffer, Direction
from experiments.papers.tables import figures_of
from experiments.papers.variants import KERNEL, steered
from experiments.results import Result
from experiments.runs.shapes import Dumbbell
from experiments.scenario import FlowSpec, Scenario

RATE_BYTES_PER_S: Final = 12.5e6
PAYLOAD_SHARE: Final = 1448 / 1500
"""TCP payload as a share of the rate: an IP packet of 1500 bytes carries 1448, with TCP timestamps."""

OWD: Final = "topology.bottleneck.delay_us"
LOSS: Final = "topology.bottleneck.loss"
LOSS_RATIO: Final = "topology.bottleneck.loss.ratio"
BUFFER_BDP: Final = "topology.bottleneck.buffer.bdp"
"""Fields of the network, as axes of a grid."""

SETTLED_AT: Final = 0.4
"""Start of the time in which two flows are compared, as a share of the run; before that, slow start decides
the shares.
"""


def dumbbell(
    name: str,
    duration_s: float,
    *,
    rate_bytes_per_s: float = RATE_BYTES_PER_S,
    owd_us: int = 25_000,
    loss_ratio: float = 0.0,
    buffer_bdp: float = 1.0,
) -> Scenario:
    """Return the network, with two flows of kernel CUBIC, `h1-h2` and `h3-h4`.

    Args:
        name: Name of the scenario.
        duration_s: How long both send [s].
        rate_bytes_per_s: Rate of the bottleneck [bytes/s].
        owd_us: One-way delay, all of it at the bottleneck [us]; the base RTT is twice that.
        loss_ratio: Share of packets lost at random before the bottleneck's queue, from senders to receivers.
        buffer_bdp: Buffer of the bottleneck [rate x base RTT].
    """
    bottleneck = Direction(
        rate_bytes_per_s=rate_bytes_per_s,
        delay_us=owd_us,
        buffer=Buffer(bdp=buffer_bdp),
        loss=Bernoulli(loss_ratio),
    )
    return Scenario(
        name=name,
        topology=Dumbbell(pairs=2, bottleneck=bottleneck),
        flows=(FlowSpec("h1-h2", "s1", "r1", KERNEL), FlowSpec("h3-h4", "s2", "r2", KERNEL)),
        duration_s=duration_s,
    )


def against(first: str, second: str, /, **params: ParamValue) -> dict[str, Any]:
    """Return the fields that give the two flows different algorithms; parameters are for the first."""
    return steered(first, "h1-h2", **params) | steered(second, "h3-h4")


def conditions(result: Result) -> dict[str, Any]:
    """Return the first flow's algorithm, the network, and the figures of a run."""
    scenario = result.scenario
    first = scenario.flows[0]
    found: dict[str, Any] = {"algorithm": first.algorithm, **figures_of(result)}
    if isinstance(scenario.topology, Dumbbell):
        link = scenario.topology.bottleneck
        found["owd_us"] = link.delay_us
        found["loss_ratio"] = link.loss.ratio if isinstance(link.loss, Bernoulli) else NAN
        found["buffer.bdp"] = link.buffer.bdp if link.buffer else NAN
        found["rate_bytes_per_s"] = link.rate_bytes_per_s
    return found


def shares(result: Result) -> dict[str, Any]:
    """Return the conditions of a run of two flows, and the goodput of each after `SETTLED_AT`."""
    settled = within(result.flow_samples, SETTLED_AT * result.scenario.duration_s)
    goodput = goodput_bytes_per_s(settled)
    first, second = (goodput.get(flow.name, NAN) for flow in result.scenario.flows)
    return {
        **conditions(result),
        "jain_index": jain_index([first, second]),
        "first_goodput_bytes_per_s": first,
        "second_goodput_bytes_per_s": second,
        "quotient": first / second if second else NAN,
        "share_of_first_ratio": first / (first + second) if first + second else NAN,
    }


def bursts_of(mean_pkts: float, loss_ratio: float) -> dict[str, Any]:
    """Return a loss process of bursts (Gilbert 1960): all packets of a bad state are lost.

    Args:
        mean_pkts: Mean length of a burst [packets].
        loss_ratio: Share of all packets that are lost.
    """
    leave = 1 / mean_pkts
    enter = loss_ratio * leave / (1 - loss_ratio)
    return {"kind": "gilbert_elliott", "good_to_bad": round(enter, 9), "bad_to_good": round(leave, 9)}
