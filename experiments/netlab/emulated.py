"""Networks whose links have a rate, a delay, a buffer and losses, and can be changed while in use.

A path of 100 Mbit/s and 50 ms, whose rate drops to a tenth after five seconds:

    topology = point_to_point(Direction(rate_bytes_per_s=12.5e6, delay_us=25_000))
    with emulated(topology) as net:
        run = start_iperf3(net.hosts["sender"], net.hosts["receiver"], congestion="cubic", duration_s=10)
        time.sleep(5)
        net.change("link>", rate_bytes_per_s=1.25e6)
        print(run.wait().goodput_bytes_per_s, net.stats()["link>"].dropped_queue_pkts)
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from ccplane.base.names import close_names
from experiments.netlab import inband, tun
from experiments.netlab.control import EmulatorProcess
from experiments.netlab.cpu import process_cpu_s
from experiments.netlab.errors import LabError, bad_value
from experiments.netlab.inband import Summaries
from experiments.netlab.lab import Lab
from experiments.netlab.links import dropped_pkts
from experiments.netlab.linkstats import EmulatorStats, LinkStats
from experiments.netlab.network_spec import emulator_spec, plain_direction
from experiments.netlab.routes import Graph, graph_of
from experiments.netlab.spec import Direction, Topology
from telemetry.schema import IntSummary

DEFAULT_SAMPLE_INTERVAL_US: Final = 100_000

_DEVICE: Final = "eth0"
_EMULATOR: Final = "network-emulator"  # longer than any name in a topology


class EmulatedNetwork:
    """An emulated network; `emulated` makes it.

    Attributes:
        lab: The lab of its hosts.
        hosts: Hosts by name.
    """

    def __init__(self, lab: Lab, graph: Graph, links: _Emulator, summaries: Summaries | None = None) -> None:
        self._summaries = summaries
        self.lab = lab
        self.hosts = links.hosts
        self._graph = graph
        self._links = links

    def set_link(self, link: str, direction: Direction) -> None:
        """Replace a link's properties; packets in the queue and in flight stay.

        Args:
            link: `NAME>` or `NAME<`, or `NAME`: then the opposite direction follows as in `Link.backward`.
            direction: The new properties.

        Raises:
            LabError: `lab.bad_value`, `lab.emulator_died`.
        """
        self._update(self._graph.set_link(link, direction))

    def change(self, link: str, **fields: Any) -> None:
        """Change some properties of a link; packets in the queue and in flight stay.

        If the buffer is not among these properties, its size stays the same, even if rate or delay change.

        Args:
            link: `NAME>` or `NAME<`, or `NAME` for both.
            **fields: Fields of `Direction`; values may be plain data, as in a scenario.

        Raises:
            LabError: As in `set_link`.
        """
        self._update(self._graph.change(link, fields))

    def set_route(self, path: Sequence[str], *, both: bool = True) -> None:
        """Change the route of packets; packets in flight keep their route.

        Routers route by destination only, so other packets to the same destination also follow the new route
        from where they meet it.

        Args:
            path: The nodes of the route, from the first host to the last. Where several links connect two
                nodes, the name of the chosen link stands between them.
            both: Whether the opposite direction takes the same route in reverse; else it stays as it is.

        Raises:
            LabError: As in `set_link`.
        """
        self._update(self._graph.set_route(path, both=both))

    def direction(self, name: str) -> Direction:
        """Return the current properties of a link direction (`NAME>`, `NAME<`).

        The size of its buffer is in packets or bytes.

        Raises:
            LabError: `lab.bad_value`, if no direction has this name.
        """
        named = self._directions()
        if name not in named:
            raise bad_value(f"unknown direction `{name}`", "link", close_names(name, named, "direction"))
        return named[name]

    def base_rtt_us(self, a: str, b: str) -> int:
        """Return the round-trip time between two hosts, excluding queueing, serialization and jitter [us].

        Raises:
            LabError: `lab.bad_value`, if a host is unknown.
        """
        return self._graph.base_rtt_us(a, b)

    def stats(self) -> dict[str, LinkStats]:
        """Return packet counts so far for each direction of a link (`NAME>`, `NAME<`).

        Raises:
            LabError: `lab.emulator_died`.
        """
        return self._links.stats()

    def emulator_stats(self) -> EmulatorStats:
        """Return the emulator's accuracy.

        Raises:
            LabError: `lab.emulator_died`.
        """
        return self._links.emulator_stats()

    def summaries(self) -> list[IntSummary]:
        """Return the summaries of telemetry sinks since the last call.

        Raises:
            LabError: `lab.bad_value`, if the network has no telemetry, or `emulated` writes summaries
                elsewhere.
        """
        if self._summaries is None:
            raise bad_value("no summaries are stored", "telemetry", "add `telemetry` to the topology")
        return self._summaries.new()

    def _directions(self) -> dict[str, Direction]:
        return {arc.name: d for arc, d in zip(self._graph.arcs, self._graph.directions, strict=True)}

    def _update(self, graph: Graph) -> None:
        self._links.update(self._graph, graph)
        self._graph = graph


@contextlib.contextmanager
def emulated(
    topology: Topology,
    *,
    seed: int = 1,
    samples_path: str | os.PathLike[str] | None = None,
    sample_interval_us: int = DEFAULT_SAMPLE_INTERVAL_US,
    pcap: Mapping[str, str | os.PathLike[str]] | None = None,
    summaries_fd: int | None = None,
    records_path: str | os.PathLike[str] | None = None,
) -> Iterator[EmulatedNetwork]:
    """Make an emulated network for a `with` block.

    Args:
        topology: The network.
        seed: Seed of everything random in it.
        samples_path: CSV file for the state of the links over time; None for none.
        sample_interval_us: Time between the rows of each direction [us].
        pcap: Direction of a link (`NAME>`, `NAME<`) -> pcapng file of the packets at its end.
        summaries_fd: Open file or pipe to which telemetry sinks write their summaries, one line of JSON each
            (`telemetry.schema.IntSummary`); None keeps them for `summaries()`. If a pipe is full, summaries
            are lost.
        records_path: CSV file for the sinks' record of every packet, where the telemetry has `records`.

    Raises:
        LabError: `lab.bad_value`, or `Several` of them, if the topology is invalid; `lab.no_tun`;
            `lab.emulator_died`, also at the end of the block, if the emulator exited by itself; or as in
            `Lab`.
    """
    graph = graph_of(topology)
    if sample_interval_us <= 0:
        raise bad_value(
            "the time between samples must be positive", "sample_interval_us", "give more than 0 us"
        )
    samples = None if samples_path is None else Path(samples_path).absolute()
    if samples is not None and not samples.parent.is_dir():
        raise bad_value(f"folder {samples.parent} does not exist", "samples_path", "create it first")
    if (records_path is not None) != (graph.telemetry is not None and graph.telemetry.records):
        raise bad_value(
            "records need a file, and telemetry with `records`", "records_path", "give both or neither"
        )
    recording = {"sample_interval_us": sample_interval_us, "samples_path": samples and str(samples)}
    spec = emulator_spec(graph, seed) | recording | {"pcap": _pcap(graph, pcap)}
    with Lab() as lab, contextlib.ExitStack() as around:
        summaries = None
        if graph.telemetry is not None:
            if summaries_fd is None:
                summaries = around.enter_context(contextlib.closing(Summaries()))
                summaries_fd = summaries.fd
            spec["int"] = inband.plain(graph, summaries_fd, records_path)
        links = _Emulator(lab, graph, spec, [] if summaries_fd is None else [summaries_fd])
        try:
            yield EmulatedNetwork(lab, graph, links, summaries)
        except BaseException as error:
            died = links.stop()
            if died is None or not isinstance(error, Exception) or str(error) == str(died):
                raise
            raise died from error
        if (died := links.stop()) is not None:
            raise died


class _Emulator:
    def __init__(self, lab: Lab, graph: Graph, spec: Mapping[str, Any], fds: Sequence[int]) -> None:
        """Build the network that `spec` describes; `fds` are the open files that `spec` refers to."""
        self.hosts = {name: lab.add_host(name) for name in graph.hosts}
        with contextlib.ExitStack() as own:
            tun_fds = []
            for number, host in enumerate(self.hosts.values(), 1):
                end = tun.interface(_DEVICE, number, graph.host_mtu_bytes)
                tun_fds.append(tun.open_tun(host.namespace, end))
                own.callback(os.close, tun_fds[-1])
                host.interfaces.append(end)
            home = lab.add_host(_EMULATOR)
            self.process = EmulatorProcess(home, msgspec.json.encode(spec), tun_fds, fds)

    def update(self, old: Graph, new: Graph) -> None:
        for arc, before, after in zip(new.arcs, old.directions, new.directions, strict=True):
            if before != after:
                plain = plain_direction(after, arc.name)
                self.process.control.request("set_link", link=arc.name, direction=plain)
        if old.table != new.table:
            self.process.control.request("set_routes", routes=new.table)

    def stats(self) -> dict[str, LinkStats]:
        return msgspec.convert(self.process.control.request("stats")["links"], dict[str, LinkStats])

    def emulator_stats(self) -> EmulatorStats:
        stats = self.process.control.request("stats")
        untaken = sum(dropped_pkts(host.namespace, _DEVICE) for host in self.hosts.values())
        own = {"untaken_pkts": untaken, "cpu_s": process_cpu_s(self.process.pid)}
        return msgspec.convert({**stats, **own}, EmulatorStats)

    def stop(self) -> LabError | None:
        return self.process.stop()


def _pcap(graph: Graph, pcap: Mapping[str, str | os.PathLike[str]] | None) -> dict[str, str] | None:
    arcs = [arc.name for arc in graph.arcs]
    for name in pcap or {}:
        if name not in arcs:
            raise bad_value(f"unknown direction `{name}`", "pcap", close_names(name, arcs, "direction"))
    return {name: str(Path(file).absolute()) for name, file in pcap.items()} if pcap else None
