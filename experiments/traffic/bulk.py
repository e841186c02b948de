"""Bulk transfers by iperf3, as traffic of a flow."""

from __future__ import annotations

import contextlib
import math
import time
from typing import Final

from experiments.netlab.errors import LabError
from experiments.netlab.host import Host
from experiments.netlab.iperf import IperfOptions, start_iperf3
from experiments.netlab.iperf_result import IperfInterval
from experiments.netlab.spec import Family
from experiments.traffic.running import FlowSockets, Outcome, TrafficResult
from experiments.traffic.spec import Iperf3

_SETTLE_S: Final = 5.0
"""How much longer than its flow a transfer may take that has a duration of its own [s]: it connects before,
and empties its send buffer and exchanges results behind."""
_POLL_S: Final = 0.01


class BulkTraffic:
    """An iperf3 transfer under way.

    Attributes:
        sockets: Which sockets carry it.
        started_us: When it started, CLOCK_MONOTONIC [us].
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
        """Start it; arguments and errors as of `start_traffic`."""
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
        # iperf3 counts whole seconds: it ends by itself where that fits, and is interrupted where not.
        ends_itself = spec.total_bytes is None and duration_s == math.ceil(duration_s)
        # The connection that controls has a port of the kernel's choice, which is none of these.
        self.sockets = FlowSockets.of(sender, sports=(first, (others or [first])[-1]), dports=(port, port))
        self.started_us = time.monotonic_ns() // 1000
        self._deadline_s = time.monotonic() + duration_s + (_SETTLE_S if ends_itself else 0.0)
        self._run = start_iperf3(sender, receiver, congestion=congestion, **options)
        self._outcome = Outcome()

    @property
    def running(self) -> bool:
        """Whether it still transfers."""
        return not self._outcome.known and self._run.running

    def wait(self) -> TrafficResult:
        """Return the result; a transfer whose time is over is interrupted.

        Raises:
            LabError: `lab.iperf3`, `lab.no_congestion_control` or `lab.timeout`.
        """
        while self.running and time.monotonic() < self._deadline_s:
            time.sleep(_POLL_S)
        return self._outcome.find(self._interrupt if self.running else self._finish)

    def stop(self) -> None:
        """End it now.

        Raises:
            LabError: As `wait`, if it had failed before.
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
        with contextlib.suppress(LabError):  # it was still starting, and leaves no account
            intervals = self._run.interrupt()
        retransmits = [interval.retransmits_pkts for interval in intervals]
        return TrafficResult(
            received_bytes=None,  # only a receiver that came to its end tells
            duration_s=time.monotonic() - self.started_us / 1e6,
            complete=False,
            retrans_pkts=sum(n for n in retransmits if n is not None) if retransmits else None,
        )
