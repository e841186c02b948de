"""Flows over the chain, one after the other, all measured in the same way.

Each flow is measured twice: by the kernel (TCP_INFO of its socket), and by the sink's summaries on the
broker. Both measurements use CLOCK_MONOTONIC of this machine.
"""

from __future__ import annotations

import contextlib
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Final

from broker.options import PORT, BusOptions
from ccplane.agent import Client
from experiments.mininet_wifi.chain import Chain
from experiments.mininet_wifi.demo import CLIENT_PORT, TIMEOUT_S, agent_at_source, running_nodes
from experiments.mininet_wifi.errors import WifiError
from experiments.mininet_wifi.findings import AIR_ID, WIRE_ID
from experiments.mininet_wifi.recipes import Recipe, Run
from experiments.netlab import IperfRun, TcpInfo, TcpWatch, start_iperf3
from experiments.netlab.brokers import broker_on
from telemetry.bus import Bus
from telemetry.schema import IntHop, IntSummary, Sample

EVERY_S: Final = 0.1
"""Time between two socket samples, equal to the time between summaries [s]."""
PAUSE_S: Final = 2.0
"""Pause between flows, so that queues drain and nodes stop counting the last flow [s]."""
LATE_S: Final = 20.0
"""Timeout for the last telemetry of a flow to arrive, over the broker of a slow, busy machine [s]."""
KIND: Final = "int_summary"

_OF_WIRE: Final = ("queue_depth_pkts", "queue_free_pkts", "arrival_pkts_per_s")
_OF_AIR: Final = ("rssi_dbm", "data_rate_bytes_per_s")
_OF_FLOW: Final = ("cwnd_bytes", "received_pkts", "lost_pkts", "lost_link_pkts", "lost_congestion_pkts")
_OF_SOCKET: Final = ("srtt_us", "bytes_acked", "retransmits_pkts")


@dataclass(frozen=True)
class Transfer:
    """A measured flow.

    Attributes:
        run: The run.
        looks: Samples of its socket, in order of time.
        summaries: Telemetry of the flow, in order of time.
    """

    run: Run
    looks: Sequence[TcpInfo]
    summaries: Sequence[IntSummary]

    @property
    def rows(self) -> list[dict[str, float | None]]:
        """State of the flow at the end of each summary's interval, on one clock.

        Returns:
            A row for each summary: `t_s`, since the first summary or socket sample. From the flow's packets:
            `cwnd_bytes` (the last one), and since the previous row `received_pkts`, `lost_pkts`,
            `lost_link_pkts`, `lost_congestion_pkts`. Of the wire: `queue_depth_pkts`, `queue_free_pkts`,
            `arrival_pkts_per_s`. Of the air after ap2: `rssi_dbm`, `data_rate_bytes_per_s`. From the last
            socket sample: `srtt_us`, `bytes_acked`, `retransmits_pkts`. None where unknown.
        """
        rows: list[dict[str, float | None]] = []
        ends_s = [(summary.end_mono_us or 0) / 1e6 for summary in self.summaries]
        begin_s = min([self.looks[0].time_s, *ends_s])
        for summary, at_s in zip(self.summaries, ends_s, strict=True):
            if at_s > self.looks[-1].time_s:
                break
            before = bisect_right(self.looks, at_s, key=lambda look: look.time_s)
            last = self.looks[before - 1] if before else None
            wire, air = _hop(summary, WIRE_ID), _hop(summary, AIR_ID)
            rows.append(
                {
                    "t_s": at_s - begin_s,
                    **{name: getattr(summary, name) for name in _OF_FLOW},
                    **{name: getattr(wire, name, None) for name in _OF_WIRE},
                    **{name: getattr(air, name, None) for name in _OF_AIR},
                    **{name: getattr(last, name, None) for name in _OF_SOCKET},
                }
            )
        return rows

    @property
    def figures(self) -> dict[str, float | None]:
        """Summary figures of the flow.

        Returns:
            From the socket: `goodput_bytes_per_s` and `rtt_p50_us` (of the smoothed RTT). From telemetry:
            `cwnd_bytes` (median), `queue_depth_pkts` (mean over the summaries), and the totals
            `received_pkts`, `lost_pkts`, `lost_link_pkts`, `lost_congestion_pkts`. None where unknown.
        """
        first, last = self.looks[0], self.looks[-1]
        rows = self.rows

        def reported(name: str) -> list[float]:
            return [value for row in rows if (value := row[name]) is not None]

        windows, queue = reported("cwnd_bytes"), reported("queue_depth_pkts")
        return {
            "goodput_bytes_per_s": (last.bytes_acked - first.bytes_acked) / (last.time_s - first.time_s),
            "rtt_p50_us": median(one.srtt_us for one in self.looks),
            "cwnd_bytes": median(windows) if windows else None,
            "queue_depth_pkts": sum(queue) / len(queue) if queue else None,
            **{name: sum(reported(name)) if reported(name) else None for name in _OF_FLOW[1:]},
        }

    def as_dict(self) -> dict[str, Any]:
        """Return the flow as plain data."""
        variant = self.run.variant
        return {
            "algorithm": variant.algorithm,
            "label": variant.label,
            "params": dict(variant.params),
            "loss_ratio": self.run.loss_ratio,
            **self.figures,
            "rows": self.rows,
        }


def _hop(summary: IntSummary, node_id: int) -> IntHop | None:
    return next((hop for hop in summary.hops if hop.node_id == node_id), None)


def measure(chain: Chain, recipe: Recipe, reported: Callable[[Run], None]) -> list[Transfer]:
    """Run the flows of a recipe; return the transfers in the order of the recipe.

    Raises:
        CcpError: If a part of a run cannot start.
    """
    chain.lose(recipe.losses[0])
    with contextlib.ExitStack() as stack:
        stack.enter_context(broker_on(chain.broker))
        client = None
        if recipe.steered:
            client = stack.enter_context(agent_at_source(chain, list(recipe.steered.values())))
        stack.enter_context(running_nodes(chain))
        received = stack.enter_context(_listening(chain))
        transfers = []
        for number, run in enumerate(recipe.runs):
            reported(run)
            transfers.append(_transfer(chain, client, run, CLIENT_PORT + number, recipe.seconds, received))
            time.sleep(PAUSE_S)
        return transfers


@contextlib.contextmanager
def _listening(chain: Chain) -> Iterator[list[IntSummary]]:
    received: list[IntSummary] = []

    def keep(sample: Sample) -> None:
        if isinstance(sample.body, IntSummary):
            received.append(sample.body)

    bus = Bus(BusOptions(host="127.0.0.1", port=PORT), sender="demo", on_sample=keep, kinds=[KIND])
    chain.broker.call(bus.start)  # its thread stays in the host's namespace
    try:
        bus.wait_connected(TIMEOUT_S)
        yield received
    finally:
        bus.stop()


def _transfer(
    chain: Chain, client: Client | None, run: Run, port: int, seconds: int, received: list[IntSummary]
) -> Transfer:
    chain.lose(run.loss_ratio)
    variant = run.variant
    if client is not None and variant.params:
        client.set({f"{variant.name}.{name}": value for name, value in variant.params.items()})
    with (
        start_iperf3(
            chain.source.host,
            chain.sink.host,
            congestion=variant.congestion,
            family="ipv6",
            duration_s=seconds + round(TIMEOUT_S),  # ended early, after enough samples
            client_port=port,
        ) as transfer,
        TcpWatch(chain.source.host) as watch,
    ):
        looks = _watch(transfer, watch, seconds)
        # The flow still sends: later packets deliver the telemetry of the measured time.
        own = _received_until(received, port, looks[-1].time_s)
    return Transfer(run, looks, own)


def _received_until(received: list[IntSummary], port: int, end_s: float) -> list[IntSummary]:
    """Wait for a summary that ends later than `end_s`, and return those of the flow from a port."""
    deadline_s = time.monotonic() + LATE_S
    while True:
        own = [one for one in list(received) if one.flow.src_port == port]
        reported_s = (own[-1].end_mono_us or 0) / 1e6 if own else 0.0
        if reported_s >= end_s or time.monotonic() > deadline_s:
            return own
        time.sleep(EVERY_S)


def _watch(transfer: IperfRun, watch: TcpWatch, seconds: int) -> list[TcpInfo]:
    """Sample a flow's socket until the flow has sent for `seconds`.

    Raises:
        LabError: iperf3's error, if it exits early.
        WifiError: `wifi.no_data`, if no data arrives.
    """
    looks: list[TcpInfo] = []
    next_s = time.monotonic()
    deadline_s = next_s + TIMEOUT_S
    while not looks or looks[-1].time_s < looks[0].time_s + seconds:
        if not transfer.running:
            transfer.wait()
        if (look := watch.read()) is not None:
            looks.append(look)
        elif looks or time.monotonic() > deadline_s:
            break
        next_s += EVERY_S
        time.sleep(max(0.0, next_s - time.monotonic()))
    if len(looks) < 2:
        raise WifiError(
            "wifi.no_data",
            "the flow sends nothing over the chain",
            "host sta1",
            f"less than 16 kB arrived within {TIMEOUT_S:g} s",
            "choose a lower --loss, or a higher --rate",
        )
    return looks
