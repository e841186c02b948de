"""The path of R-Hybrid's figures 2 to 4: two hosts, a link that may mark or lose, and a receiver agent.

The paper gives neither the RTT nor the queue of its two EC2 instances. Rate: 200 Mbit/s, as in E14 to
E17, because two processors cannot carry the paper's 4,650 Mbit/s. RTT: 1 ms, because the emulator is
exact to 0.1 ms. Buffer: 6 ms, more than the detector's delta of 5 ms, so that a full queue is detected.
Marks: above 1 ms of waiting, because DCTCP needs RTT/7 (RFC 8257, section 4) plus a sender's burst (up to
64 kB, 2.6 ms). 1 % loss hits single packets on the link; the paper's netem drops super-packets at the
sender.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from experiments.events import ParamValue
from experiments.metrics import NAN, goodput_bytes_per_s, queueing_delay_us, rtt_percentiles_us, within
from experiments.netlab.spec import Bernoulli, Buffer, Direction, DropTail
from experiments.papers.tables import figures_of
from experiments.papers.variants import KERNEL, steered
from experiments.results import Result
from experiments.runs.shapes import PointToPoint
from experiments.scenario import FlowSpec, ReceiverAgent, Scenario
from experiments.traffic.spec import Iperf3
from telemetry.regime import SHARED
from telemetry.regime.modes import MODES

BBR: Final = "kernel/bbr"
DCTCP: Final = "dctcp"
OWN: Final = "r_hybrid"

FLOW: Final = "data"
LINK: Final = "link>"

RATE_BYTES_PER_S: Final = 25e6
RTT_US: Final = 1_000
BUFFER_PKTS: Final = 100
STREAMS: Final = 4
"""Parallel connections, `-P 4` of the authors' script."""

MARKED_US: Final = 1_000
"""Waiting time above which the link marks, as DCTCP needs [us]."""
AGGRESSIVE_US: Final = 300
"""Waiting time above which the link of figure 3 marks [us]."""

OWN_MARKS: Final = 650
"""Number of marks that DCTCP alone never exceeds within 100 ms, derived from twenty other paths.

On those (100 to 500 Mbit/s, 0.5 to 4 ms, marks from a queue of one RTT on) at most 38.4 % of the packets that
the path can carry were marked, measured once with a simulator of November 2026 (commit c53793ba removed that
part); on the path of the figures that is 640 marks per 100 ms.
"""
OWN_PARAMS: Final[Mapping[str, ParamValue]] = {"early_ecn_beta": 0.95}
"""ccplane's reaction to marks where a switch marks early, found on the link of figure 3."""
PAPER_NOISE: Final = MODES["fast"].options.noise_ce_marks
"""Maximum marks per interval that are not congestion (section 4.3), scaled to the interval."""

SETTLED_S: Final = 2.0
"""Start of the evaluated time [s], after slow start and the first decision."""
SAMPLE_INTERVAL_US: Final = 2_000
"""Makes the median of a run's RTTs exact to less than 1 %."""

CE_THRESHOLD: Final = "topology.forward.queue.ce_threshold_us"
LOSS_RATIO: Final = "topology.forward.loss.ratio"
NOISE: Final = "receivers.0.detector.noise_ce_marks"
MODE: Final = "receivers.0.mode"
"""Fields, for axes of a grid."""


def watching(host: str, noise_ce_marks: float = OWN_MARKS) -> ReceiverAgent:
    """Return a receiver agent in the mode `fast`, which decides within half a second."""
    return ReceiverAgent(host, mode="fast", detector={"noise_ce_marks": noise_ce_marks})


def path(name: str, duration_s: float) -> Scenario:
    """Return the path, with four streams of kernel CUBIC from `sender` to `receiver`."""
    back = Direction(
        rate_bytes_per_s=RATE_BYTES_PER_S, delay_us=RTT_US // 2, buffer=Buffer(packets=BUFFER_PKTS)
    )
    forward = Direction(
        rate_bytes_per_s=RATE_BYTES_PER_S,
        delay_us=RTT_US // 2,
        buffer=Buffer(packets=BUFFER_PKTS),
        queue=DropTail(ce_threshold_us=MARKED_US),
        loss=Bernoulli(0.0),
    )
    return Scenario(
        name=f"r-hybrid: {name}",
        topology=PointToPoint(forward, back),
        flows=(FlowSpec(FLOW, "sender", "receiver", KERNEL, traffic=Iperf3(parallel=STREAMS)),),
        duration_s=duration_s,
        sample_interval_us=SAMPLE_INTERVAL_US,
        receivers=(watching("receiver"),),
    )


def own_params(algorithm: str) -> Mapping[str, ParamValue]:
    """Return `OWN_PARAMS` for R-Hybrid, no parameters for others."""
    return OWN_PARAMS if algorithm == OWN else {}


def marked(algorithm: str, /, **params: ParamValue) -> dict[str, Any]:
    """Return the fields that give flows an algorithm and ECN, and R-Hybrid's flows `OWN_PARAMS`."""
    return steered(algorithm, **{**own_params(algorithm), **params}) | {"flows.*.ecn": True}


def delayed(rtt_us: int) -> dict[str, int]:
    """Return the fields that give the path this RTT without queue [us]."""
    return {f"topology.{way}.delay_us": rtt_us // 2 for way in ("forward", "backward")}


def conditions(result: Result) -> dict[str, Any]:
    """Return the conditions of a run, and its figures from `SETTLED_S` on.

    `queueing_delay_p50_us` is the median RTT minus that of the empty path, `marked_ratio` the share of
    packets that the link marked, `shared_ratio` the share of decisions for SHARED, `ce_marks_p95` the marks
    per interval. Retransmissions are those of the whole run.
    """
    network = result.scenario.network
    forward = network.links[0].forward
    return {
        "algorithm": result.scenario.flows[0].algorithm,
        "rtt_us": 2 * forward.delay_us,
        "loss_ratio": forward.loss.ratio if isinstance(forward.loss, Bernoulli) else NAN,
        "noise_ce_marks": result.scenario.receivers[0].detector.get("noise_ce_marks", PAPER_NOISE),
        **figures_of(result, LINK),
        **settled(result, FLOW),
        **decided(result),
        "marked_ratio": _marked_ratio(result.metadata.get("links", {}).get(LINK, {})),
    }


def settled(result: Result, flow: str) -> dict[str, Any]:
    """Return goodput, queueing delay and RTTs of a flow from `SETTLED_S` on, over all its connections."""
    samples, connections = (
        within(table[table["flow"] == flow], SETTLED_S)
        for table in (result.flow_samples, result.connection_samples)
    )
    base_rtt_us = result.flows.set_index("flow")["base_rtt_us"].get(flow, NAN)
    rtts_us = rtt_percentiles_us(connections, (50, 95))
    return {
        "goodput_bytes_per_s": goodput_bytes_per_s(samples).get(flow, NAN),
        "queueing_delay_p50_us": queueing_delay_us(connections, base_rtt_us).median(),
        **{f"rtt_p{q}_us": rtts_us[f"rtt_p{q}_us"].get(flow, NAN) for q in (50, 95)},
    }


def decided(result: Result) -> dict[str, Any]:
    """Return the receivers' decisions from `SETTLED_S` on; NaN without a receiver."""
    regimes = within(result.regimes, SETTLED_S)
    if regimes.empty:
        return {"shared_ratio": NAN, "ce_marks_p95": NAN}
    return {
        "shared_ratio": (regimes["regime"] == SHARED).mean(),
        "ce_marks_p95": regimes["ce_marks"].astype(float).quantile(0.95),
    }


def _marked_ratio(link: Mapping[str, Any]) -> float:
    delivered_pkts = link.get("delivered_pkts")
    return link["marked_pkts"] / delivered_pkts if delivered_pkts else NAN
