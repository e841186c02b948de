"""The chain: station, access point, wire, access point, station; and a broker.

    sta1 --air-- ap1 --wire, shaped-- ap2 --air, lossy-- sta2
       `--------------- broker ----------------'

Data flow from left to right. The wire is the bottleneck, with a buffer in ap1; the air after ap2 drops
packets at random. The broker has separate links to both stations, so that telemetry does not disturb the
measured path.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from experiments.mininet_wifi import radios
from experiments.mininet_wifi.conditions import MTU_BYTES, USUAL, Conditions
from experiments.netlab import Host, Interface, Lab, Shaper, links
from experiments.netlab.brokers import add_broker_host

NETEM_PKTS: Final = 1000
"""Minimum packet limit of netem, its default; a longer path needs more, or netem would drop packets."""


@dataclass(frozen=True)
class Port:
    """A device of a host.

    Attributes:
        host: The host.
        device: Name of the device.
    """

    host: Host
    device: str


@dataclass(frozen=True)
class Chain:
    """What the demo needs to know about a network, however the network was built.

    Attributes:
        source: The port through which sta1 sends.
        wire: The port through which ap1 sends into the shaped wire.
        air: The port through which ap2 sends into the lossy air.
        sink: The port through which sta2 receives.
        broker: Host for the broker.
        broker_for_source: The broker's address for sta1.
        broker_for_sink: The broker's address for sta2.
        conditions: Properties of the links.
    """

    source: Port
    wire: Port
    air: Port
    sink: Port
    broker: Host
    broker_for_source: str
    broker_for_sink: str
    conditions: Conditions = USUAL

    def lose(self, ratio: float) -> None:
        """Make the air after ap2 drop this share of packets at random.

        Raises:
            LabError: `lab.command_failed`, without netem in the kernel.
        """
        room_pkts = max(NETEM_PKTS, 2 * self.conditions.bdp_bytes // MTU_BYTES)
        netem = ["netem", "limit", str(room_pkts), "delay", f"{self.conditions.delay_ms:g}ms"]
        netem += ["loss", f"{100 * ratio:g}%"]
        self.air.host.run(["tc", "qdisc", "replace", "dev", self.air.device, "root", *netem])


@contextlib.contextmanager
def simulated_chain(conditions: Conditions = USUAL) -> Iterator[Chain]:
    """Build the chain from simulated radios, hostapd and namespaces, for a `with` block.

    The access points route IPv6.

    Raises:
        WifiError: If a radio, access point or station fails.
        LabError: If another part of the network cannot be built.
    """
    with Lab() as lab, radios.simulated_radios(4) as phys:
        sta1, sta2 = lab.add_host("sta1"), lab.add_host("sta2")
        ap1, ap2 = lab.add_host("ap1", forwards=True), lab.add_host("ap2", forwards=True)
        for phy, host in zip(phys, (sta1, ap1, ap2, sta2), strict=True):
            radios.give_radio(phy, host)
        near_ap, near_sta = join_air(1, ap1, [sta1], "int-ap1", channel=1)
        far_ap, far_sta = join_air(2, ap2, [sta2], "int-ap2", channel=11)
        wire1, wire2 = lab.connect(ap1, ap2)
        links.set_routes(sta1.namespace, [(far_sta, near_ap)])
        links.set_routes(ap1.namespace, [(far_sta, wire2)])
        links.set_routes(ap2.namespace, [(near_sta, wire1)])
        links.set_routes(sta2.namespace, [(near_sta, far_ap)])
        shape(ap1, wire1.name, conditions)
        broker, for_source, for_sink = add_broker_host(lab, sta1, sta2)
        yield Chain(
            Port(sta1, radios.DEVICE),
            Port(ap1, wire1.name),
            Port(ap2, radios.DEVICE),
            Port(sta2, radios.DEVICE),
            broker,
            for_source,
            for_sink,
            conditions,
        )


def shape(host: Host, device: str, conditions: Conditions) -> None:
    """Make a device the bottleneck.

    Raises:
        LabError: `lab.no_qdisc` or `lab.kernel_refused`.
    """
    Shaper(
        host,
        device,
        rate_bytes_per_s=conditions.rate_bytes_per_s,
        buffer_bytes=conditions.buffer_bytes,
    )


def join_air(
    number: int, access_point: Host, stations: Sequence[Host], name: str, *, channel: int
) -> list[Interface]:
    """Let stations join an access point; all get addresses, which become the first addresses of their hosts.

    Returns:
        The access point's interface, and each station's.

    Raises:
        WifiError: `wifi.not_up` or `wifi.not_joined`.
        LabError: `lab.command_failed` or `lab.no_command`.
    """
    radios.start_access_point(access_point, name, channel)
    ends = []
    for n, host in enumerate([access_point, *stations], start=1):
        if host is not access_point:
            radios.join(host, name, channel)
        end = Interface(radios.DEVICE, f"10.78.{number}.{n}", f"fd78:{number:x}::{n}", MTU_BYTES)
        links.set_up(host.namespace, end)
        host.interfaces.append(end)
        ends.append(end)
    return ends
