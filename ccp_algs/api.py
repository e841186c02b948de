"""What an algorithm is, and what it gets to see.

    @register("vegas")
    class Vegas(Algorithm):
        program = VegasFold                       # or CCP source text, or several programs by name

        def on_report(self, report: VegasFold) -> None:
            self.flow.set(cwnd_bytes=report.cwnd_bytes + self.flow.info.mss_bytes)

One instance a flow (`Algorithm`) or one instance a run (`VectorAlgorithm`). All callbacks run on one thread,
in the order in which things happened. An exception in a callback costs that flow its algorithm, and no other
flow anything.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from ccp_algs.carry import carry_over
from ccp_algs.errors import ContractError
from ccp_algs.fold.program import FoldMeta
from ccp_algs.params import ParamMeta
from ccplane.base.flows import FlowInfo as FlowInfo
from ccplane.base.flows import FlowStats as FlowStats
from ccplane.base.flows import ReportHead as ReportHead

Program = str | FoldMeta
"""A fold program: text in the CCP language, or a class derived from FoldProgram."""

Programs = Program | Mapping[str, Program]
"""One fold program, or several by name; the first of several is the one that flows start with."""

DEFAULT_PROGRAM = "default"
"""Name of the program of an algorithm that has one."""


class Report(ReportHead, Protocol):
    """A report of a program that is CCP source text, whose fields nobody can check."""

    def __getattr__(self, name: str, /) -> int:
        """Return a field of the report."""
        ...


class Sample(Protocol):
    """A telemetry sample: what `telemetry.schema.Sample` is to an algorithm."""

    @property
    def kind(self) -> str:
        """Kind of the body, such as `receiver_signal`."""
        ...

    @property
    def body(self) -> Any:
        """What it says: of the class that `telemetry.schema` has for the kind."""
        ...

    @property
    def sender(self) -> str:
        """Who said it."""
        ...

    @property
    def topic(self) -> str:
        """Where."""
        ...

    @property
    def received_us(self) -> int:
        """When it came [us], by the clock of `report.now_us`."""
        ...

    @property
    def age_at_receipt_us(self) -> int:
        """How old it was then [us]."""
        ...

    def age_ms(self, now_us: int) -> float:
        """Return how old it is [ms] at a time of the clock of `report.now_us` [us]."""
        ...

    def expired(self, now_us: int) -> bool:
        """Return whether it has stopped being true at a time of that clock [us]."""
        ...


class Flow(Protocol):
    """The flow, as its algorithm steers it."""

    @property
    def info(self) -> FlowInfo:
        """What is known of the flow from its start."""
        ...

    def set(
        self, *, cwnd_bytes: float | None = None, rate_bytes_per_s: float | None = None, **registers: float
    ) -> None:
        """Set window, pacing rate and control registers, all at once, before the next fold.

        Args:
            cwnd_bytes: New window [bytes]; the datapath never goes below 2 segments. None leaves it.
            rate_bytes_per_s: New pacing rate [bytes/s], 0 = not paced by the algorithm. None leaves it.
            **registers: Control registers of the program, by name. Fractions are cut off.
        """
        ...

    def set_program(
        self,
        name: str,
        *,
        cwnd_bytes: float | None = None,
        rate_bytes_per_s: float | None = None,
        **registers: float,
    ) -> None:
        """Run another fold program; its registers start at their initial values.

        Args:
            name: One of the names in `program`.
            cwnd_bytes: As in `set`.
            rate_bytes_per_s: As in `set`.
            **registers: Control registers that start with another value.
        """
        ...

    def extend(self, extension: str, octets: bytes | None) -> None:
        """Give the flow to an extension of the datapath, or tell the extension something else of it.

        Args:
            extension: One of the algorithm's `extensions`, by name.
            octets: A letter that only the extension understands; None has it leave the flow alone.
        """
        ...

    def tell(self, kind: str, /, **detail: Any) -> None:
        """Tell whoever listens to the agent's events of something that happened to the flow.

        Args:
            kind: What, as `area:thing_happened`; the areas of the agent's own events are taken.
            **detail: What else there is to say: text, numbers, None.

        Raises:
            ContractError: `contract.bad_event`.
        """
        ...


class Common(metaclass=ParamMeta):
    """What all algorithms have."""

    name: ClassVar[str] = ""
    """Name it is registered by."""
    program: ClassVar[Programs]
    """Fold program, or several by name."""
    needs_ecn: ClassVar[bool] = False
    """Ask for ECN when connections are set up."""
    extensions: ClassVar[tuple[str | Path, ...]] = ()
    """Extensions of the datapath that it uses, by name, or by the path of an object file of your own,
    `NAME.bpf.o`; where one is not to be had, the algorithm does not start."""
    callbacks: ClassVar[tuple[str, ...]] = ()
    """Names of `on_...` methods that it calls by itself: a part does that for who builds on it."""
    told_examples: ClassVar[Mapping[str, Sequence[bytes]]] = MappingProxyType({})
    """What extensions may tell, by name, for `ccp check`."""
    depends_on: ClassVar[tuple[Path, ...]] = ()
    """Files that its decisions depend on besides its sources: results of another one are others."""

    def on_reload(self, old: Any) -> None:
        """Take over from an instance of the version before, when the algorithm was edited while it runs.

        `on_create` was called for the running flows first, so that attributes that are new have their first
        values; windows and rates that it set are forgotten. By default attributes of the same name are
        carried over, as copies; `super().on_reload(old)` does that, too. What is set here reaches the
        datapath as one letter. A fold program whose text is unchanged runs on with its registers.

        Args:
            old: The instance before, of the old class. It is not to be changed: it goes on if this raises,
                and so does the old version of all other flows.
        """
        carry_over(old, self)


class Algorithm(Common):
    """An algorithm with one instance a flow. Override what you need."""

    flow: Flow
    """The flow; set before `on_create`."""

    def on_create(self, info: FlowInfo) -> None:
        """Take over a flow, new or not. What is set here reaches the datapath together with the program."""

    def on_report(self, report: Any) -> None:
        """Decide.

        Args:
            report: What the program reported. Annotate it with the program's class, `report: MyFold`, and
                editors know its fields; with `Report`, if the program is text.
        """

    def on_params(self, names: frozenset[str]) -> None:
        """Use parameters that were set since `on_create`: for this flow, or for all.

        For those that live in control registers of the fold program, a flow that has nothing to report
        included; what is read where it is needed, as `self.beta`, needs no callback.

        Args:
            names: Which. The values may be those of before.
        """

    def on_telemetry(self, sample: Any) -> None:
        """Use a telemetry sample that belongs to this flow; annotate it with `Sample`."""

    def on_telemetry_lost(self, kind: str, sender: str) -> None:
        """Do without telemetry of this kind: the last sample of this sender has expired.

        Args:
            kind: Kind of the samples, as in `sample.kind`.
            sender: Who sent them.
        """

    def on_extension(self, extension: str, octets: bytes) -> None:
        """Learn what an extension of the datapath tells of the flow; see `Flow.extend`.

        Args:
            extension: Its name.
            octets: What it tells, as it writes it down; a multiple of eight.
        """

    def on_close(self, stats: FlowStats) -> None:
        """Say good-bye: the flow is gone, or another algorithm has it; nothing can be set any more."""


@dataclasses.dataclass(frozen=True)
class Updates:
    """What a `VectorAlgorithm` writes back: arrays of shape (n,), uint64.

    Of two entries of one flow the last holds.

    Attributes:
        flow_ids: The flows.
        cwnd_bytes: New windows [bytes]; 0 leaves a window as it is, None leaves all.
        rate_bytes_per_s: New pacing rates [bytes/s]; 0 leaves a rate as it is, None leaves all.
        registers: Control registers of the flows' programs by name; all these flows get them.
    """

    flow_ids: NDArray[np.uint64]
    cwnd_bytes: NDArray[np.uint64] | None = None
    rate_bytes_per_s: NDArray[np.uint64] | None = None
    registers: Mapping[str, NDArray[np.uint64]] = dataclasses.field(default_factory=dict)


Decided = Updates | Sequence[Updates] | None
"""What a `VectorAlgorithm` decides: nothing, or updates; several where flows get different registers."""


class VectorAlgorithm(Common):
    """An algorithm with one instance for all flows, which sees reports as arrays. Override what you need."""

    flows: Mapping[int, Flow]
    """Its flows by id, for what concerns one of them: another program, an event, an extension. Set before the
    first `on_create`; a flow leaves behind `on_close`."""

    def on_create(self, info: FlowInfo) -> None:
        """Take over a flow, new or not; what is set by `self.flows[info.flow_id]` goes with the program."""

    def on_reports(self, reports: NDArray[np.void], program: str) -> Decided:
        """Decide for many flows at once.

        Args:
            reports: Structured array of shape (n,) in order of arrival, with the fields flow_id, now_us,
                cwnd_bytes, rate_bytes_per_s (uint64), missed (uint32), flags (uint16; bit 0 = timeout, bit 1
                = fold error), and one uint64 for each field of the program's report. A flow may have several
                entries.
            program: Name of the program that made them.

        Returns:
            What to write, or None for nothing. Several are written one behind the other.
        """
        raise NotImplementedError

    def on_params(self, names: frozenset[str]) -> Decided:
        """Use parameters that were set since the instance was made; see `Algorithm.on_params`.

        Returns:
            As `on_reports`.
        """
        return None

    def on_telemetry(self, samples: Sequence[tuple[int, Sample]]) -> Decided:
        """Use telemetry: pairs of a flow's id and a sample that belongs to it, in order of arrival.

        Returns:
            As `on_reports`.
        """
        return None

    def on_telemetry_lost(self, flow_ids: Sequence[int], kind: str, sender: str) -> None:
        """Do without telemetry of this kind: the last sample of this sender for these flows has expired."""

    def on_extension(self, flow_id: int, extension: str, octets: bytes) -> None:
        """Learn what an extension of the datapath tells of a flow; see `Algorithm.on_extension`."""

    def on_close(self, flow_id: int) -> None:
        """Forget a flow."""


AnyAlgorithm = type[Algorithm] | type[VectorAlgorithm]


AGENT_AREAS: Final = frozenset({"flow", "param", "algorithm", "program", "canary", "telemetry"})
"""Areas of the agent's own events, which nobody else may tell."""


def check_event(kind: str) -> None:
    """Check the kind of an event that an algorithm tells.

    Raises:
        ContractError: `contract.bad_event`, if it is not spelled `area:thing_happened`, or is the agent's.
    """
    area = kind.partition(":")[0]
    if re.fullmatch(r"[a-z][a-z0-9_]*:[a-z][a-z0-9_]*", kind) and area not in AGENT_AREAS:
        return
    raise ContractError(
        "contract.bad_event",
        f"an algorithm cannot tell of {kind!r}",
        why=f"events of `{area}` are the agent's"
        if area in AGENT_AREAS
        else "it is not `area:thing_happened`",
        fix="choose an area of your own, such as `regime:switched`",
    )


def programs_of(cls: AnyAlgorithm) -> dict[str, str]:
    """Return the fold programs of an algorithm as CCP source text by name, the first one first.

    Raises:
        ContractError: `contract.no_program` or `contract.not_a_program`.
    """
    where = f"{cls.__module__}.{cls.__qualname__}"
    programs = getattr(cls, "program", None)
    if not programs:
        raise ContractError(
            "contract.no_program",
            f"{cls.__name__} has no fold program",
            where=where,
            why="without one the datapath folds nothing and reports nothing",
            fix="set `program` to a FoldProgram class or to CCP source text",
        )
    by_name = programs if isinstance(programs, Mapping) else {DEFAULT_PROGRAM: programs}
    sources = {}
    for name, program in by_name.items():
        source = program if isinstance(program, str) else getattr(program, "source", None)
        if not isinstance(source, str):
            raise ContractError(
                "contract.not_a_program",
                f"program `{name}` of {cls.__name__} is {program!r}",
                where=where,
                why="it is neither text nor a FoldProgram class",
                fix="derive the class from ccp_algs.fold.FoldProgram, or pass CCP source text",
            )
        sources[str(name)] = source
    return sources
