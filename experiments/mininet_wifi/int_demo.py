"""`python -m experiments.mininet_wifi.int_demo`: in-band telemetry in Mininet-WiFi.

Two stations, two access points, a shaped wire between these, IPv6; what happens on them is the same as in
`hwsim_demo`. The access points are bridges in this machine's own network namespace, as Mininet-WiFi makes
them.
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
from experiments.mininet_wifi.show import main
from experiments.netlab import Host, Interface, Lab, links, namespace
from experiments.netlab.brokers import add_broker_host
from experiments.netlab.host import Belongings
from experiments.netlab.lab import DEFAULT_CONGESTION
from experiments.netlab.process import which

PREFIX: Final = "int-demo-"
"""Of names of namespaces. They are not the lab's: `ccp lab clean` ends what runs in those, and one is the
machine's own."""

PROGRAMS: Final = ("hostapd", "hwsim_mgmt", "iwconfig", "mnexec", "ovs-vsctl", "rfkill")
"""What Mininet-WiFi calls. It does not say which one it misses."""

LOG: Final = "/tmp/mn-wifi-mac80211_hwsim.log"
"""Where it writes what went wrong."""


@contextlib.contextmanager
def mininet_chain(conditions: Conditions = USUAL) -> Iterator[Chain]:
    """Build the chain with Mininet-WiFi; it is gone after the block.

    Args:
        conditions: What its links are like.

    Yields:
        The chain; the access points are bridges.

    Raises:
        WifiError: `wifi.no_mininet`, without Mininet-WiFi, `wifi.mininet_ended`, or `wifi.not_joined`.
        LabError: If something else of the network cannot be built.
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
        # The bridges are there now: starting one removes what its devices had of queueing disciplines.
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
    """Let Mininet-WiFi build its part.

    Args:
        make_net: Its class of a network.
        stack: Ends the network.

    Returns:
        The two stations, and the devices through which ap1 and ap2 send the data on.

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
        # Standalone: bridges that learn by themselves, no controller.
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
    except SystemExit as error:  # its way to give up, often without a word
        raise WifiError(
            "wifi.mininet_ended",
            "Mininet-WiFi gave up",
            "while it built the network",
            f"it ended with status {error.code}",
            f"read {LOG}; then remove what earlier runs left: `mn -c`",
        ) from error
    ((wire, _),) = ap1.connectionsTo(ap2)
    return stations, wire.name, ap2.wintfs[0].name


def _mininet_wifi() -> Any:
    try:
        from mn_wifi.net import Mininet_wifi  # it reads, and changes, much of the machine when imported
    except ImportError as error:
        raise WifiError(
            "wifi.no_mininet",
            "Mininet-WiFi is not installed",
            sys.executable,
            str(error),
            "docs/mininet-wifi.md says how; `ccp demo wifi` and `hwsim_demo` do without",
        ) from error
    return Mininet_wifi


@contextlib.contextmanager
def _adopted(name: str, pid: int, owned: Belongings) -> Iterator[Host]:
    """Give the namespace of a process a name for the length of a block, so that it can be a host."""
    full = PREFIX + name
    namespace.remove(full)  # of a run that was killed
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


if __name__ == "__main__":
    sys.exit(main("experiments.mininet_wifi.int_demo", __doc__, mininet_chain))
