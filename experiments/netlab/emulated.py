"""Networks whose links have a rate, a delay, a buffer and losses: built, changed while they run, and gone.

A path of 100 Mbit/s and 50 ms, whose rate drops to a tenth after a while:

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
    """A network while it exists; `emulated` makes it.

    Attributes:
        lab: The lab that its hosts are in.
        hosts: By name.
    """

    def __init__(self, lab: Lab, graph: Graph, links: _Emulator, summaries: Summaries | None = None) -> None:
        """Describe a network that carries packets."""
        self._summaries = summaries
        self.lab = lab
        self.hosts = links.hosts
        self._graph = graph
        self._links = links

    def set_link(self, link: str, direction: Direction) -> None:
        """Describe a link anew; what is queued and under way stays.

        Args:
            link: `NAME>` or `NAME<`, or `NAME`: then the way back follows as in `Link.backward`.
            direction: What it does to packets from now on.

        Raises:
            LabError: `lab.bad_value`, `lab.emulator_died`.
        """
        self._update(self._graph.set_link(link, direction))

    def change(self, link: str, **fields: Any) -> None:
        """Change some fields of a link; what is queued and under way stays.

        A buffer that is not among them stays as large as it is, whatever becomes of rate and delay.

        Args:
            link: `NAME>` or `NAME<`, or `NAME` for both.
            **fields: Of `Direction`; values may be plain data, as they stand in a scenario.

        Raises:
            LabError: As `set_link`.
        """
        self._update(self._graph.change(link, fields))

    def set_route(self, path: Sequence[str], *, both: bool = True) -> None:
        """Send packets another way; those under way go on as they were.

        Routers know destinations only: others' packets to the same destination follow from where they meet
        this way.

        Args:
            path: The nodes on the way, from the first host to the last. Where several links connect two
                nodes, the name of one stands between them.
            both: Whether the way back becomes the same one in reverse; else it stays as it is.

        Raises:
            LabError: As `set_link`.
        """
        self._update(self._graph.set_route(path, both=both))

    def direction(self, name: str) -> Direction:
        """Return what a direction of a link (`NAME>`, `NAME<`) does now; its buffer in packets or bytes.

        Raises:
            LabError: `lab.bad_value`, if there is none of this name.
        """
        named = self._directions()
        if name not in named:
            raise bad_value(f"no direction `{name}`", "link", close_names(name, named, "direction"))
        return named[name]

    def base_rtt_us(self, a: str, b: str) -> int:
        """Return the round-trip time of two hosts without queueing, transmission and jitter, as of now [us].

        Raises:
            LabError: `lab.bad_value`, if there is no such host.
        """
        return self._graph.base_rtt_us(a, b)

    def stats(self) -> dict[str, LinkStats]:
        """Return what became of packets so far, for each direction of a link (`NAME>`, `NAME<`).

        Raises:
            LabError: `lab.emulator_died`.
        """
        return self._links.stats()

    def emulator_stats(self) -> EmulatorStats:
        """Return how well the emulator did.

        Raises:
            LabError: `lab.emulator_died`.
        """
        return self._links.emulator_stats()

    def summaries(self) -> list[IntSummary]:
        """Return what sinks of in-band telemetry said since the last call.

        Raises:
            LabError: `lab.bad_value`, if there is no telemetry, or `emulated` was told where to write it.
        """
        if self._summaries is None:
            raise bad_value("no summaries are kept", "telemetry", "give the topology `telemetry`")
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
    """Give a network that does to packets what a topology says.

    Args:
        topology: The network.
        seed: Of everything that is random in it.
        samples_path: CSV file for what the links do over time; none is written, if None.
        sample_interval_us: How often a row of each direction is written [us].
        pcap: Direction of a link (`NAME>`, `NAME<`) -> pcapng file of the packets at its end.
        summaries_fd: Open file or pipe to which sinks of in-band telemetry write their summaries, a line of
            JSON each (`telemetry.schema.IntSummary`); if None, they are kept for `summaries()`. What a full
            pipe does not take is lost.
        records_path: CSV file for what sinks saw of every packet, where the telemetry keeps `records`.

    Yields:
        The network; gone after the block.

    Raises:
        LabError: `lab.bad_value`, or `Several` of them, if the topology cannot be; `lab.no_tun`;
            `lab.emulator_died`, also at the end of the block, if the emulator ended by itself; or as `Lab`.
    """
    graph = graph_of(topology)
    if sample_interval_us <= 0:
        raise bad_value("no time between samples", "sample_interval_us", "give more than 0 us")
    samples = None if samples_path is None else Path(samples_path).absolute()
    if samples is not None and not samples.parent.is_dir():
        raise bad_value(f"no folder {samples.parent}", "samples_path", "make it first")
    if (records_path is not None) != (graph.telemetry is not None and graph.telemetry.records):
        raise bad_value(
            "records need a file, and telemetry with `records`", "records_path", "give both or none"
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


# --- the emulator ------------------------------------------------------------------------------------------


class _Emulator:
    """Links and routers, in the emulator's process."""

    def __init__(self, lab: Lab, graph: Graph, spec: Mapping[str, Any], fds: Sequence[int]) -> None:
        """Build the network.

        Args:
            lab: In which to build.
            graph: The network.
            spec: The same as the emulator reads it.
            fds: Open files that the specification names.
        """
        self.hosts = {name: lab.add_host(name) for name in graph.hosts}
        with contextlib.ExitStack() as ours:
            tun_fds = []
            for number, host in enumerate(self.hosts.values(), 1):
                end = tun.interface(_DEVICE, number, graph.host_mtu_bytes)
                tun_fds.append(tun.open_tun(host.namespace, end))
                ours.callback(os.close, tun_fds[-1])
                host.interfaces.append(end)
            home = lab.add_host(_EMULATOR)
            self.process = EmulatorProcess(home, msgspec.json.encode(spec), tun_fds, fds)

    def update(self, old: Graph, new: Graph) -> None:
        """Make the links and routes of `new` true that differ from `old`."""
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
        ours = {"untaken_pkts": untaken, "cpu_s": process_cpu_s(self.process.pid)}
        return msgspec.convert({**stats, **ours}, EmulatorStats)

    def stop(self) -> LabError | None:
        return self.process.stop()


def _pcap(graph: Graph, pcap: Mapping[str, str | os.PathLike[str]] | None) -> dict[str, str] | None:
    arcs = [arc.name for arc in graph.arcs]
    for name in pcap or {}:
        if name not in arcs:
            raise bad_value(f"no direction `{name}`", "pcap", close_names(name, arcs, "direction"))
    return {name: str(Path(file).absolute()) for name, file in pcap.items()} if pcap else None
