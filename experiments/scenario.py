"""A scenario: everything that a run depends on, as plain data, stored in YAML files.

scenario = Scenario.load("experiments/scenarios/rate-step.yaml")
scenario = scenario.replace(duration_s=20)
scenario.save("mine.yaml")
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

import msgspec
from msgspec import Meta

from experiments.errors import ScenarioError
from experiments.events import Edit, Event, ParamValue, Seconds, SetLink, SetParam, SetRoute
from experiments.netlab.spec import Family, Plain, PositiveFloat, PositiveInt, Topology
from experiments.regimes import ReceiverAgent, SocketSwitch
from experiments.runs import check, files, reading
from experiments.runs.shapes import Dumbbell, Graph, Network, ParkingLot, PointToPoint
from experiments.traffic.spec import Iperf3, Traffic

__all__ = [
    "KERNEL",
    "Dumbbell",
    "Edit",
    "Event",
    "FlowSpec",
    "Graph",
    "Network",
    "ParkingLot",
    "PointToPoint",
    "ReceiverAgent",
    "Scenario",
    "SetLink",
    "SetParam",
    "SetRoute",
    "SocketSwitch",
]

FORMAT: Final = 1
KERNEL: Final = check.KERNEL

FlowName = Annotated[str, Meta(pattern="^[a-z][a-z0-9_-]{0,30}$")]


class FlowSpec(Plain, frozen=True):
    """One flow: its hosts, its traffic and its congestion control.

    Attributes:
        name: Unique name in the scenario.
        sender: Host that sends the data.
        receiver: Host that receives the data.
        algorithm: `kernel/NAME` is a kernel congestion control, such as `kernel/cubic`; `rtcp/cubic` and
            `rtcp/bbr` are the kernel's under R-TCP; `quinn/cubic` is quinn's, over QUIC; `rtp/none` is for
            media over RTP; all other names are algorithms of ccplane: a name such as `cubic`, `FILE.py`,
            `FILE.py:Class` or `module:Class`.
        params: Parameters of ccplane's algorithm, or of R-TCP, that differ from the defaults.
        traffic: Traffic of the application.
        start_s: Start, since the start of the run [s].
        stop_s: Latest end [s]; None for the end of the run.
        ecn: Whether its connections negotiate ECN. All flows of a host must agree.
        family: Address family.
    """

    name: FlowName
    sender: str
    receiver: str
    algorithm: str
    params: dict[str, ParamValue] = msgspec.field(default_factory=dict)
    traffic: Traffic = Iperf3()
    start_s: Seconds = 0.0
    stop_s: PositiveFloat | None = None
    ecn: bool = False
    family: Family = "ipv4"


class Scenario(Plain, frozen=True, kw_only=True, omit_defaults=False):
    """A network, the flows through it, and the events during the run.

    Attributes:
        format: Version of this format; 1.
        name: Display name.
        topology: The network: hosts and links (`graph`), or a shape that expands to them.
        flows: One or more.
        duration_s: Length of the run [s].
        events: Changes during the run.
        seed: Seed of everything random: losses, jitter, on and off times.
        datapath: Where to run: `ebpf` (real sockets of this machine) or `sim` (the simulator).
        sample_interval_us: Time between samples of flows and links [us].
        captures: Link directions (`NAME>`, `NAME<`) whose packets are kept in the result, as files
            `NAME>.pcapng`.
        receivers: Receiver agents, which detect regimes.
        switches: Switches, which make ordinary sockets follow the regimes.
    """

    format: Literal[1] = FORMAT
    name: Annotated[str, Meta(min_length=1, max_length=100)]
    topology: Network
    flows: Annotated[tuple[FlowSpec, ...], Meta(min_length=1)]
    duration_s: PositiveFloat
    events: tuple[Event, ...] = ()
    seed: Annotated[int, Meta(ge=0, le=(1 << 63) - 1)] = 1
    datapath: str = "ebpf"
    sample_interval_us: PositiveInt = 100_000
    captures: tuple[str, ...] = ()
    receivers: tuple[ReceiverAgent, ...] = ()
    switches: tuple[SocketSwitch, ...] = ()

    def __post_init__(self) -> None:
        """Convert a bare `Topology` to a graph."""
        given: object = self.topology
        if type(given) is Topology:
            msgspec.structs.force_setattr(self, "topology", Graph.of(given))

    @property
    def network(self) -> Topology:
        """Hosts and links, for any shape of `topology`."""
        return self.topology.expanded()

    @classmethod
    def parse(cls, raw: Any, origin: str = "", directory: Path | None = None) -> Self:
        """Return the validated scenario that plain data describes.

        Args:
            raw: The content of a scenario's YAML or JSON.
            origin: Where it comes from, for errors.
            directory: Base of relative paths in it; None for the current directory.

        Raises:
            ScenarioError: The error; it names the field.
            Several: All errors, if there are several.
        """
        scenario = reading.convert(files.resolved(raw, directory or Path()), cls, origin)
        check.check(scenario, origin)
        return scenario

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a YAML file; relative paths in it are based on its directory.

        Raises:
            ScenarioError: `scenario.no_file`, `scenario.syntax`, or as in `parse`.
        """
        path = Path(path)
        raw = reading.parse_yaml(reading.read_text(path), str(path))
        reading.refuse(raw, "axes", "grid", "ccp experiment sweep", str(path))
        return cls.parse(raw, str(path), path.parent)

    def save(self, path: str | Path) -> None:
        """Write the scenario to a YAML file, for `load`.

        Raises:
            ScenarioError: `scenario.cannot_write`.
        """
        try:
            Path(path).write_text(self.to_yaml())
        except OSError as error:
            raise ScenarioError(
                "scenario.cannot_write",
                f"cannot write {path}",
                str(path),
                error.strerror or str(error),
                "choose another file",
            ) from error

    def to_yaml(self) -> str:
        """Return the scenario as YAML."""
        return reading.to_yaml(self)

    def plain(self) -> dict[str, Any]:
        """Return the scenario as plain data, as in its YAML."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        return plain

    def replace(self, **changes: Any) -> Self:
        """Return a copy with some fields changed; `run` validates it."""
        return msgspec.structs.replace(self, **changes)

    def validate(self) -> None:
        """Check everything that can be checked without running the scenario.

        Raises:
            ScenarioError: The error; it names the field.
            Several: All errors, if there are several.
        """
        check.check(reading.convert(self.plain(), type(self)), "")

    def content_hash(self) -> str:
        """Return a hash of 64 hexadecimal digits over everything that a run depends on.

        The hash covers the scenario itself, the sources of its algorithms, its trace files, and ccplane's
        version, but not its location on disk, nor this machine.

        Raises:
            ScenarioError: `scenario.no_file`, or if an algorithm is not found.
        """
        return files.content_hash(self)
