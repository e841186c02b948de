"""Traffic of flows in the simulator: converts descriptions in scenarios to plans, and outcomes to results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from experiments.runs.recording import FlowRecord
from experiments.traffic.pulses import durations
from experiments.traffic.running import (
    FlowSockets,
    Media,
    MediaPacket,
    MediaReport,
    ObjectResult,
    TrafficResult,
)
from experiments.traffic.spec import Http, Iperf3, OnOff, Rtp, Traffic

if TYPE_CHECKING:
    from experiments.scenario import FlowSpec, Scenario

FIRST_PORT: Final = 5201
"""Lowest port on which flows accept connections; each flow uses its own ports."""


def plan(scenario: Scenario, number: int, record: FlowRecord) -> dict[str, Any]:
    """Return the plan of a flow for the simulator (`native/ccp-sim/src/plan.rs`)."""
    flow = scenario.flows[number]
    assert record.start_us is not None, "the run has begun"
    assert record.stop_us is not None
    return {
        "name": flow.name,
        "sender": flow.sender,
        "receiver": flow.receiver,
        "family": flow.family,
        "congestion": record.congestion,
        "ecn": flow.ecn,
        "start_us": record.start_us,
        "stop_us": record.stop_us,
        "sport": FIRST_PORT + number if _receiver_connects(flow) else None,
        "dport": None if _receiver_connects(flow) else FIRST_PORT + number,
        "app": _app(flow, (record.stop_us - record.start_us) / 1e6, scenario.seed),
    }


def _app(flow: FlowSpec, duration_s: float, seed: int) -> dict[str, Any]:
    match flow.traffic:
        case Iperf3() as bulk:
            return {"kind": "bulk", **msgspec.structs.asdict(bulk)}
        case Http() as http:
            fields = msgspec.structs.asdict(http)
            gaps_us = [round(gap_s * 1e6) for gap_s in fields.pop("gaps_s")]
            return {"kind": "http", "gaps_us": gaps_us, **fields}
        case OnOff() as pulses:
            phases_us = [
                (max(1, round(on_s * 1e6)), round(off_s * 1e6))
                for on_s, off_s in _phases(pulses, duration_s, seed)
            ]
            return {"kind": "on_off", "phases_us": phases_us, "rate_bytes_per_s": pulses.rate_bytes_per_s}
        case Rtp() as media:
            return {
                "kind": "rtp",
                "frames_per_s": media.frames_per_s,
                "frame": media.packets_bytes,
                "report_us": round(media.reports_every_s * 1e6),
            }
        case other:
            raise AssertionError(f"the scenario was validated, but has {other}")


def _phases(pulses: OnOff, duration_s: float, seed: int) -> list[tuple[float, float]]:
    """Return alternating on and off times [s], equal to those on real sockets."""
    phases: list[tuple[float, float]] = []
    passed_s = 0.0
    drawn = durations(pulses.distribution, pulses.on_s, pulses.off_s, seed)
    while passed_s <= duration_s:
        phases.append(next(drawn))
        passed_s += sum(phases[-1])
    return phases


def sockets(flow: FlowSpec, number: int, netns: int) -> FlowSockets:
    """Return the sockets that carry a flow."""
    port = FIRST_PORT + number
    if _receiver_connects(flow):
        return FlowSockets(netns, sports=(port, port))
    return FlowSockets(netns, dports=(port, port))


def _receiver_connects(flow: FlowSpec) -> bool:
    return isinstance(flow.traffic, Http)


class Object(msgspec.Struct, frozen=True):
    """A download of an `Outcome`; fields as in `experiments.traffic.ObjectResult`."""

    connection: int
    number: int
    size_bytes: int
    start_us: int
    first_byte_us: int
    end_us: int
    new_connection: bool


class Packet(msgspec.Struct, frozen=True):
    """A packet of media of an `Outcome`; fields as in `experiments.traffic.MediaPacket`."""

    frame: int
    len_bytes: int
    sent_us: int
    arrived_us: int | None


class Report(msgspec.Struct, frozen=True):
    """A report on them; fields as in `experiments.traffic.MediaReport`, with the loss in 1/256."""

    arrived_us: int
    fraction_lost: int
    highest: int
    rtt_us: int | None


class Outcome(msgspec.Struct, frozen=True):
    """The outcome of a plan, as reported by the simulator.

    Attributes:
        name: Name of the plan.
        start_us: Its start [us]; None if it did not start.
        end_us: Its end, natural or forced [us]; None if it did not end.
        complete: Whether it ended by itself.
        received_bytes: Payload that arrived in order.
        retrans_pkts: Retransmitted segments.
        objects: Completed downloads, in order of completion.
        packets: Packets of media, in the order of sending.
        reports: Reports on them.
    """

    name: str
    start_us: int | None
    end_us: int | None
    complete: bool
    received_bytes: int
    retrans_pkts: int
    objects: tuple[Object, ...] = ()
    packets: tuple[Packet, ...] = ()
    reports: tuple[Report, ...] = ()


def result(outcome: Outcome, traffic: Traffic) -> TrafficResult | None:
    """Return the traffic result of a flow; None if it did not start or end."""
    if outcome.start_us is None or outcome.end_us is None:
        return None
    return TrafficResult(
        received_bytes=outcome.received_bytes,
        duration_s=(outcome.end_us - outcome.start_us) / 1e6,
        complete=outcome.complete,
        retrans_pkts=outcome.retrans_pkts,
        objects=tuple(
            ObjectResult(
                connection=one.connection,
                number=one.number,
                size_bytes=one.size_bytes,
                start_us=one.start_us,
                first_byte_s=(one.first_byte_us - one.start_us) / 1e6,
                completion_s=(one.end_us - one.start_us) / 1e6,
                new_connection=one.new_connection,
            )
            for one in outcome.objects
        ),
        media=_media(outcome, traffic) if isinstance(traffic, Rtp) else None,
    )


def _media(outcome: Outcome, spec: Rtp) -> Media:
    return Media(
        tuple(MediaPacket(*msgspec.structs.astuple(one)) for one in outcome.packets),
        tuple(
            MediaReport(one.arrived_us, one.fraction_lost / 256, one.highest, one.rtt_us)
            for one in outcome.reports
        ),
        1 / spec.frames_per_s,
        spec.reports_every_s,
        spec.playout_ms * 1000,
    )
