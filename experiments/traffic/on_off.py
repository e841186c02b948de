"""On/off traffic of a flow: pulses on one connection."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from experiments.netlab.host import Host
from experiments.netlab.iperf import wait_until_listening
from experiments.netlab.sockets import available_congestion_controls, no_congestion_control
from experiments.netlab.spec import Family
from experiments.traffic.running import TrafficResult
from experiments.traffic.spec import OnOff
from experiments.traffic.two_programs import TwoPrograms


class OnOffTraffic(TwoPrograms):
    """A running on/off transfer."""

    program = Path(__file__).with_name("pulses.py")
    what = "pulses"
    grace_s = 35.0  # connecting may take several tries
    end_timeout_s = 5.0

    def __init__(
        self,
        spec: OnOff,
        sender: Host,
        receiver: Host,
        *,
        congestion: str,
        family: Family = "ipv4",
        duration_s: float,
        seed: int = 1,
        port: int | None = None,
    ) -> None:
        """Start sink and source; arguments and errors as in `start_traffic`."""
        if congestion not in available_congestion_controls():
            raise no_congestion_control(congestion, f"host {sender.name}")
        order = {
            "family": family,
            "address": receiver.address(family),
            "congestion": congestion,
            "on_s": spec.on_s,
            "off_s": spec.off_s,
            "distribution": spec.distribution,
            "rate_bytes_per_s": spec.rate_bytes_per_s,
            "seed": seed,
        }
        super().__init__(order, sender, receiver, port=port, duration_s=duration_s)

    def _await_sink(self, receiver: Host, port: int) -> None:
        wait_until_listening(receiver, port, self._sink)

    def _result(self, sent: dict[str, Any], received: dict[str, Any]) -> TrafficResult:
        return TrafficResult(
            received_bytes=sent["acked_bytes"],
            duration_s=sent["duration_s"],
            complete=sent["complete"],
            retrans_pkts=sent["retrans_pkts"],
        )
