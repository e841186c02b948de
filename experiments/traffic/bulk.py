"""Bulk transfers by iperf3 as traffic of a flow."""

from __future__ import annotations

import contextlib
import math
import time
from typing import Final

from ccplane.base import clock
from experiments.netlab.errors import LabError
from experiments.netlab.host import Host
from experiments.netlab.iperf import IperfOptions, start_iperf3
from experiments.netlab.iperf_result import IperfInterval
from experiments.netlab.spec import Family
from experiments.traffic.running import FlowSockets, Outcome, TrafficResult
from experiments.traffic.spec import Iperf3

_SETTLE_S: Final = 5.0
"""Extra time for a transfer with a fixed duration [s]: for connecting, draining the send buffer and
exchanging results."""
_POLL_S: Final = 0.01


class BulkTraffic:
    """A running iperf3 transfer.

    Attributes:
        sockets: The sockets that carry it.
        started_us: Its start, CLOCK_MONOTONIC [us].
    """

    def __init__(
        self,
        spec: Iperf3,
        sender: Host,
        receiver: Host,
        *,
        congestion: str,
        family: Family = "ipv4",
        duration_s: float,
        port: int | None = None,
    ) -> None:
        """Start the transfer; arguments and errors as in `start_traffic`."""
        port = receiver.new_port() if port is None else port
        first, *others = [sender.new_port() for _ in range(spec.parallel)]
        options: IperfOptions = {
            "parallel": spec.parallel,
            "family": family,
            "server_port": port,
            "client_port": first,
            "timeout_s": duration_s + 2 * _SETTLE_S,
        }
        if spec.rate_bytes_per_s is not None:
            options["rate_bytes_per_s"] = spec.rate_bytes_per_s
        if spec.total_bytes is not None:
            options["total_bytes"] = spec.total_bytes
        else:
            options["duration_s"] = math.ceil(duration_s)
        # iperf3 supports whole seconds only; for other durations it is interrupted.
        ends_itself = spec.total_bytes is None and duration_s == math.ceil(duration_s)
        # The control connection uses another port, chosen by the kernel.
        self.sockets = FlowSockets.of(sender, sports=(first, (others or [first])[-1]), dports=(port, port))
        self.started_us = clock.now_us()
        self._deadline_s = time.monotonic() + duration_s + (_SETTLE_S if ends_itself else 0.0)
        self._run = start_iperf3(sender, receiver, congestion=congestion, **options)
        self._outcome = Outcome()

    @property
    def running(self) -> bool:
        """Whether the transfer is running."""
        return not self._outcome.known and self._run.running

    def wait(self) -> TrafficResult:
        """Wait for the result; interrupt the transfer when its time is over.

        Raises:
            LabError: `lab.iperf3`, `lab.no_congestion_control` or `lab.timeout`.
        """
        while self.running and time.monotonic() < self._deadline_s:
            time.sleep(_POLL_S)
        return self._outcome.find(self._interrupt if self.running else self._finish)

    def stop(self) -> None:
        """Stop the transfer.

        Raises:
            LabError: As in `wait`, if it had failed before.
        """
        self._outcome.find(self._interrupt if self.running else self._finish)

    def _finish(self) -> TrafficResult:
        done = self._run.wait()
        return TrafficResult(
            received_bytes=done.received_bytes,
            duration_s=done.duration_s,
            complete=True,
            retrans_pkts=done.retransmits_pkts,
        )

    def _interrupt(self) -> TrafficResult:
        intervals: tuple[IperfInterval, ...] = ()
        with contextlib.suppress(LabError):  # it was still starting, and reports nothing
            intervals = self._run.interrupt()
        retransmits = [interval.retransmits_pkts for interval in intervals]
        return TrafficResult(
            received_bytes=None,  # only reported after a regular end
            duration_s=(clock.now_us() - self.started_us) / 1e6,
            complete=False,
            retrans_pkts=sum(n for n in retransmits if n is not None) if retransmits else None,
        )
