"""The chain: station, access point, wire, access point, station; and a broker beside it.

    sta1 --air-- ap1 --wire, shaped-- ap2 --air, lossy-- sta2
       `--------------- broker ----------------'

Data go from left to right. The wire is the bottleneck, with a buffer in ap1; the air behind ap2 loses packets
at random. The broker has links of its own to both stations, so that what is measured is not what measures.
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
"""What netem holds if it is not told: with more on its way it would drop some."""


@dataclass(frozen=True)
class Port:
    """A device of a host through which the data go on, or arrive.

    Attributes:
        host: Whose.
        device: Its name.
    """

    host: Host
    device: str


@dataclass(frozen=True)
class Chain:
    """What the demonstration needs to know of a network, whoever built it.

    Attributes:
        source: Where sta1 sends.
        wire: Where ap1 sends, into the shaped wire.
        air: Where ap2 sends, into the lossy air.
        sink: Where sta2 receives.
        broker: Host for the broker.
        broker_for_source: The broker's address, as sta1 has it.
        broker_for_sink: Likewise for sta2.
        conditions: What the links are like.
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
        """Let the air behind ap2 lose packets at random.

        Args:
            ratio: Share of packets lost.

        Raises:
            LabError: `lab.command_failed`, without netem in the kernel.
        """
        room_pkts = max(NETEM_PKTS, 2 * self.conditions.bdp_bytes // MTU_BYTES)
        netem = ["netem", "limit", str(room_pkts), "delay", f"{self.conditions.delay_ms:g}ms"]
        netem += ["loss", f"{100 * ratio:g}%"]
        self.air.host.run(["tc", "qdisc", "replace", "dev", self.air.device, "root", *netem])


@contextlib.contextmanager
def simulated_chain(conditions: Conditions = USUAL) -> Iterator[Chain]:
    """Build the chain of simulated radios, hostapd and namespaces; it is gone after the block.

    Args:
        conditions: What its links are like.

    Yields:
        The chain; the access points route IPv6.

    Raises:
        WifiError: If the radios do not do what they should.
        LabError: If something else of the network cannot be built.
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
    """Let stations join an access point, all with addresses, which are their hosts' first ones.

    Args:
        number: Of the network: part of the addresses.
        access_point: Which has a radio.
        stations: Which have a radio each.
        name: Of the network (SSID).
        channel: A key of `radios.CHANNELS`.

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
