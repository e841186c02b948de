"""The network of `ccp demo wifi --mininet-wifi`: in-band telemetry in Mininet-WiFi.

Two stations, two access points, a shaped wire between them, IPv6; as `chain.simulated_chain` builds it.
The access points are bridges in the machine's own network namespace, as built by Mininet-WiFi.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any, Final

from pyroute2 import netns

from experiments.mininet_wifi import radios
from experiments.mininet_wifi.chain import Chain, Port, shape
from experiments.mininet_wifi.conditions import MTU_BYTES, USUAL, Conditions
from experiments.mininet_wifi.errors import WifiError
from experiments.netlab import Host, Interface, Lab, links, namespace
from experiments.netlab.brokers import add_broker_host
from experiments.netlab.host import Belongings
from experiments.netlab.lab import DEFAULT_CONGESTION
from experiments.netlab.process import which

PREFIX: Final = "int-demo-"
"""Prefix of namespace names.

The prefix differs from the lab's, because `ccp lab clean` ends all processes in the lab's namespaces, and one
of this network's namespaces is the machine's own.
"""

PROGRAMS: Final = ("hostapd", "hwsim_mgmt", "iwconfig", "mnexec", "ovs-vsctl", "rfkill")
"""Programs that Mininet-WiFi calls, without reporting which of them is missing."""

LOG: Final = "/tmp/mn-wifi-mac80211_hwsim.log"
"""Log of Mininet-WiFi's errors."""


@contextlib.contextmanager
def mininet_chain(conditions: Conditions = USUAL) -> Iterator[Chain]:
    """Build the chain with Mininet-WiFi, for a `with` block; the access points are bridges.

    Raises:
        WifiError: `wifi.no_mininet`, `wifi.mininet_ended`, or `wifi.not_joined`.
        LabError: If another part of the network cannot be built.
    """
    make_net = _mininet_wifi()
    with Lab() as lab, contextlib.ExitStack() as stack:
        made, wire, air = build(make_net, stack)
        owned = Belongings()
        stack.callback(owned.release)
        stations = [
            Port(stack.enter_context(_adopted(sta.name, sta.pid, owned)), sta.wintfs[0].name) for sta in made
        ]
        here = stack.enter_context(_adopted("bridges", os.getpid(), owned))
        for number, (port, name) in enumerate(zip(stations, ("int-ap1", "int-ap2"), strict=True), start=1):
            _prepare(port, number)
            radios.wait_joined(port.host, port.device, name)
        # After the start of the bridges, which removes the queueing disciplines of their devices.
        shape(here, wire, conditions)
        broker, for_source, for_sink = add_broker_host(lab, stations[0].host, stations[1].host)
        yield Chain(
            stations[0],
            Port(here, wire),
            Port(here, air),
            stations[1],
            broker,
            for_source,
            for_sink,
            conditions,
        )


def build(make_net: Callable[[], Any], stack: contextlib.ExitStack) -> tuple[list[Any], str, str]:
    """Let Mininet-WiFi build stations and access points.

    Returns:
        The two stations, and the devices through which ap1 and ap2 forward the data.

    Raises:
        WifiError: `wifi.mininet_ended`.
        LabError: `lab.no_command`.
    """
    for program in PROGRAMS:
        which(program, "Mininet-WiFi")
    try:
        net = make_net()
        stack.callback(net.stop)
        stations = [net.addStation(name) for name in ("sta1", "sta2")]
        # Standalone: learning bridges without a controller.
        ap1, ap2 = (
            net.addAccessPoint(
                name, ssid=f"int-{name}", mode="g", channel=str(channel), failMode="standalone"
            )
            for name, channel in (("ap1", 1), ("ap2", 11))
        )
        net.configureNodes()
        net.addLink(ap1, ap2)
        for station, ap in zip(stations, (ap1, ap2), strict=True):
            net.addLink(station, ap)
        net.build()
        for ap in (ap1, ap2):
            ap.start([])
    except SystemExit as error:  # how it gives up, often without a message
        raise WifiError(
            "wifi.mininet_ended",
            "Mininet-WiFi gave up",
            "while building the network",
            f"Mininet-WiFi exited with status {error.code}",
            f"read {LOG}; then clean up earlier runs with `mn -c`",
        ) from error
    ((wire, _),) = ap1.connectionsTo(ap2)
    return stations, wire.name, ap2.wintfs[0].name


def _mininet_wifi() -> Any:
    try:
        from mn_wifi.net import Mininet_wifi  # the import inspects and changes the machine
    except ImportError as error:
        raise WifiError(
            "wifi.no_mininet",
            "Mininet-WiFi is not installed",
            sys.executable,
            str(error),
            "see docs/mininet-wifi.md; `ccp demo wifi` works without it",
        ) from error
    return Mininet_wifi


@contextlib.contextmanager
def _adopted(name: str, pid: int, owned: Belongings) -> Iterator[Host]:
    """Name the namespace of a process for a `with` block, so that it can be a host."""
    full = PREFIX + name
    namespace.remove(full)  # left by a killed run
    netns.attach(full, str(pid))
    try:
        yield Host(name, full, owned)
    finally:
        namespace.remove(full)


def _prepare(station: Port, number: int) -> None:
    host = station.host
    host.set_default_congestion(DEFAULT_CONGESTION)
    host.set_sysctl("net.ipv6.conf.all.disable_ipv6", 0)
    end = Interface(station.device, f"10.78.0.{number}", f"fd78::{number}", MTU_BYTES)
    links.set_up(host.namespace, end)
    host.interfaces.append(end)
