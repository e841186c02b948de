"""A scenario: everything that a run depends on, as plain data that YAML files hold.

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
    "Flow",
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


class Flow(Plain, frozen=True):
    """One flow: who sends to whom, what, and under which congestion control.

    Attributes:
        name: Unique in the scenario.
        sender: Host that sends the data.
        receiver: Host that gets it.
        algorithm: `kernel/NAME` is a congestion control of the kernel, such as `kernel/cubic`; `rtcp/cubic`
            and `rtcp/bbr` are the kernel's under R-TCP; `quinn/cubic` is quinn's own, over QUIC; anything
            else is one of ccplane: a name such as `cubic`, `FILE.py`, `FILE.py:Class` or `module:Class`.
        params: Parameters of ccplane's algorithm, or of R-TCP, that are not at their defaults.
        traffic: What the application does.
        start_s: When it starts, since the start of the run [s].
        stop_s: When it is stopped at the latest [s]; at the end of the run, if None.
        ecn: Whether its connections ask for ECN. Flows of one host have this in common.
        family: Of addresses.
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
    """A network, the flows through it, and what happens meanwhile.

    Attributes:
        format: Of this description; 1.
        name: What people call it.
        topology: The network: hosts and links (`graph`), or a shape that expands to them.
        flows: One or more.
        duration_s: Length of the run [s].
        events: What changes while it runs.
        seed: For everything that is random: losses, jitter, on and off times.
        datapath: Where it runs: `ebpf`, on real sockets of this machine, or `sim`, in the simulator.
        sample_interval_us: How often flows and links are sampled [us].
        captures: Directions of links (`NAME>`, `NAME<`) whose packets are kept in the result, as files
            `NAME>.pcapng`.
        receivers: Who tells regimes apart.
        switches: Whose ordinary sockets follow that.
    """

    format: Literal[1] = FORMAT
    name: Annotated[str, Meta(min_length=1, max_length=100)]
    topology: Network
    flows: Annotated[tuple[Flow, ...], Meta(min_length=1)]
    duration_s: PositiveFloat
    events: tuple[Event, ...] = ()
    seed: Annotated[int, Meta(ge=0, le=(1 << 63) - 1)] = 1
    datapath: str = "ebpf"
    sample_interval_us: PositiveInt = 100_000
    captures: tuple[str, ...] = ()
    receivers: tuple[ReceiverAgent, ...] = ()
    switches: tuple[SocketSwitch, ...] = ()

    def __post_init__(self) -> None:
        """Take a bare `Topology` as a graph."""
        given: object = self.topology
        if type(given) is Topology:
            msgspec.structs.force_setattr(self, "topology", Graph.of(given))

    @property
    def network(self) -> Topology:
        """Hosts and links, whatever shape `topology` is."""
        return self.topology.expanded()

    @classmethod
    def parse(cls, raw: Any, origin: str = "", directory: Path | None = None) -> Self:
        """Return the scenario that plain data describes, checked.

        Args:
            raw: What YAML or JSON of a scenario contains.
            origin: Where it comes from, for errors.
            directory: What paths of files in it are relative to; the current directory, if None.

        Raises:
            ScenarioError: The problem, if there is one; it names the field.
            Several: All problems, if there are more.
        """
        scenario = reading.convert(files.resolved(raw, directory or Path()), cls, origin)
        check.check(scenario, origin)
        return scenario

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a YAML file; paths in it are relative to its directory.

        Raises:
            ScenarioError: `scenario.no_file`, `scenario.syntax`, or as `parse`.
        """
        path = Path(path)
        raw = reading.parse_yaml(reading.read_text(path), str(path))
        return cls.parse(raw, str(path), path.parent)

    def save(self, path: str | Path) -> None:
        """Write it as a YAML file that `load` reads.

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
                "choose another place",
            ) from error

    def to_yaml(self) -> str:
        """Return its YAML."""
        return reading.to_yaml(self)

    def plain(self) -> dict[str, Any]:
        """Return it as plain data: what its YAML contains."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        return plain

    def replace(self, **changes: Any) -> Self:
        """Return another scenario with some fields changed; `run` checks it."""
        return msgspec.structs.replace(self, **changes)

    def validate(self) -> None:
        """Check everything that can be checked without running it.

        Raises:
            ScenarioError: The problem, if there is one; it names the field.
            Several: All problems, if there are more.
        """
        check.check(reading.convert(self.plain(), type(self)), "")

    def content_hash(self) -> str:
        """Return 64 hexadecimal digits that change with whatever a run of it depends on.

        That is the scenario itself, the sources of its algorithms, its trace files, and ccplane's version;
        not its place on the disk, nor this machine.

        Raises:
            ScenarioError: `scenario.no_file`, or an algorithm that is not found.
        """
        return files.content_hash(self)
