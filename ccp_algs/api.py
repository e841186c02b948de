"""The classes that algorithms derive from, and what their callbacks receive.

    @register("vegas")
    class Vegas(Algorithm):
        program = VegasFold                       # or CCP source text, or several programs by name

        def on_report(self, report: VegasFold) -> None:
            self.flow.set(cwnd_bytes=report.cwnd_bytes + self.flow.info.mss_bytes)

An `Algorithm` has one instance per flow, a `VectorAlgorithm` one instance for all flows. All callbacks run on
one thread, in the order of the events. If a callback raises, its flow is handed to the fallback; other flows
are not affected.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol

from ccp_algs.carry import carry_over
from ccp_algs.errors import ContractError
from ccp_algs.fold.program import FoldMeta
from ccp_algs.params import ParamMeta
from ccplane.base.flows import FlowInfo as FlowInfo
from ccplane.base.flows import FlowStats as FlowStats
from ccplane.base.flows import ReportHead as ReportHead

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Program = str | FoldMeta
"""A fold program: source text in the CCP language, or a class derived from FoldProgram."""

Programs = Program | Mapping[str, Program]
"""One fold program, or several by name. Flows start with the first program."""

DEFAULT_PROGRAM = "default"
"""Name of the program if an algorithm has only one."""


class Report(ReportHead, Protocol):
    """A report of a program given as CCP source text: its fields cannot be type-checked."""

    def __getattr__(self, name: str, /) -> int:
        """Return a field of the report."""
        ...


class TelemetrySample(Protocol):
    """A telemetry sample, as algorithms receive it (`telemetry.schema.Sample`)."""

    @property
    def kind(self) -> str:
        """Kind of the body, such as `receiver_signal`."""
        ...

    @property
    def body(self) -> Any:
        """Content: an instance of the class that `telemetry.schema` has for the kind."""
        ...

    @property
    def sender(self) -> str:
        """Name of the sender."""
        ...

    @property
    def topic(self) -> str:
        """Topic on which the sample was published."""
        ...

    @property
    def received_us(self) -> int:
        """Time of receipt, on the clock of `report.now_us` [us]."""
        ...

    @property
    def age_at_receipt_us(self) -> int:
        """Age at receipt [us]."""
        ...

    def age_ms(self, now_us: int) -> float:
        """Return the age [ms] at time `now_us` [us], on the clock of `report.now_us`."""
        ...

    def expired(self, now_us: int) -> bool:
        """Return whether the sample has expired at time `now_us` [us], on the clock of `report.now_us`."""
        ...


class FlowHandle(Protocol):
    """The flow that an algorithm controls."""

    @property
    def info(self) -> FlowInfo:
        """Properties of the flow that are known from its start."""
        ...

    def set(
        self, *, cwnd_bytes: float | None = None, rate_bytes_per_s: float | None = None, **registers: float
    ) -> None:
        """Set window, pacing rate and control registers together, before the next fold.

        Args:
            cwnd_bytes: New window [bytes], at least 2 segments. None leaves it unchanged.
            rate_bytes_per_s: New pacing rate [bytes/s]; 0: the algorithm does not pace. None leaves it
                unchanged.
            **registers: Control registers of the program, by name. Fractions are truncated.
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
        """Switch to another fold program. The registers of that program start at their initial values.

        Args:
            name: A name in `program`.
            cwnd_bytes: As in `set`.
            rate_bytes_per_s: As in `set`.
            **registers: Control registers to start with other values.
        """
        ...

    def extend(self, extension: str, message: bytes | None) -> None:
        """Send a message to an extension of the datapath; the first one attaches the flow to the extension.

        Args:
            extension: Name of one of the algorithm's `extensions`.
            message: The message, in the extension's own format. None detaches the flow from the extension.
        """
        ...

    def emit(self, kind: str, /, **detail: Any) -> None:
        """Emit an event about the flow to everyone who follows the agent's events.

        Args:
            kind: Kind of the event, as `area:thing_happened`. The areas of the agent's own events are
                reserved.
            **detail: Details of the event: text, numbers or None.

        Raises:
            ContractError: `contract.bad_event`.
        """
        ...


class Common(metaclass=ParamMeta):
    """Common base of all algorithms."""

    name: ClassVar[str] = ""
    """Name under which the algorithm is registered."""
    program: ClassVar[Programs]
    """Fold program, or several by name."""
    needs_ecn: ClassVar[bool] = False
    """Negotiate ECN when connections are set up."""
    extensions: ClassVar[tuple[str | Path, ...]] = ()
    """Extensions of the datapath that the algorithm uses: names, or paths of object files `NAME.bpf.o`.
    The algorithm does not start if an extension cannot be loaded."""
    callbacks: ClassVar[tuple[str, ...]] = ()
    """Names of additional `on_...` methods that the class itself calls, so that `ccp check` accepts them."""
    message_examples: ClassVar[Mapping[str, Sequence[bytes]]] = MappingProxyType({})
    """Messages that each extension may send, by extension name, for `ccp check`."""
    depends_on: ClassVar[tuple[Path, ...]] = ()
    """Files, in addition to sources, that decisions depend on; if they change, the version changes."""

    def on_reload(self, old: Any) -> None:
        """Take over from an instance of the previous version after the algorithm was edited while running.

        `on_create` has been called first for the running flows, so new attributes have their initial values;
        windows and rates that it set are discarded. By default, attributes of the same name are copied from
        the previous instance; `super().on_reload(old)` does this. Values set here reach the datapath as one
        update. A fold program whose text is unchanged keeps running, with its registers.

        Args:
            old: The previous instance, of the old class. Do not change it: if this method raises, the old
                version stays in use for all flows.
        """
        carry_over(old, self)


class Algorithm(Common):
    """An algorithm with one instance per flow. Override the methods that you need."""

    flow: FlowHandle
    """The flow; set before `on_create`."""

    def on_create(self, info: FlowInfo) -> None:
        """Take over a new or running flow. Values set here reach the datapath together with the program."""

    def on_report(self, report: Any) -> None:
        """Decide, given a report.

        Args:
            report: What the program reported. Annotate it with the program's class, `report: MyFold`, so that
                editors know its fields; for a program given as text, annotate it with `Report`.
        """

    def on_params(self, names: frozenset[str]) -> None:
        """Apply parameters that were set after `on_create`, for this flow or for all flows.

        Override this method for parameters that are copied into control registers of the fold program: it is
        called even if the flow has nothing to report. Parameters that are read where they are used, as
        `self.beta`, need no callback.

        Args:
            names: Names of the parameters that were set. Their values may be unchanged.
        """

    def on_telemetry(self, sample: Any) -> None:
        """Handle a telemetry sample for this flow. Annotate the argument with `TelemetrySample`."""

    def on_telemetry_lost(self, kind: str, sender: str) -> None:
        """Continue without telemetry of this kind: the last sample of this sender has expired.

        Args:
            kind: Kind of the samples, as in `sample.kind`.
            sender: Name of their sender.
        """

    def on_extension(self, extension: str, message: bytes) -> None:
        """Handle a message from an extension of the datapath about this flow; see `Flow.extend`.

        Args:
            extension: Name of the extension.
            message: The message in the extension's format; its length is a multiple of eight.
        """

    def on_close(self, stats: FlowStats) -> None:
        """Clean up. The flow closed or moved to another algorithm; `flow.set` has no effect."""


@dataclasses.dataclass(frozen=True)
class Updates:
    """Decisions of a `VectorAlgorithm`: arrays of shape (n,), uint64.

    If a flow has several entries, the last one applies.

    Attributes:
        flow_ids: The flows.
        cwnd_bytes: New windows [bytes]; 0 leaves one window unchanged, None all.
        rate_bytes_per_s: New pacing rates [bytes/s]; 0 leaves one rate unchanged, None all.
        registers: Control registers by name, set for all these flows.
    """

    flow_ids: NDArray[np.uint64]
    cwnd_bytes: NDArray[np.uint64] | None = None
    rate_bytes_per_s: NDArray[np.uint64] | None = None
    registers: Mapping[str, NDArray[np.uint64]] = dataclasses.field(default_factory=dict)


Decided = Updates | Sequence[Updates] | None
"""Decisions of a `VectorAlgorithm`: none, one `Updates`, or several if flows set different registers."""


class VectorAlgorithm(Common):
    """An algorithm with one instance for all flows, which receives reports as arrays.

    Override the methods that you need.
    """

    flows: Mapping[int, FlowHandle]
    """The algorithm's flows by id, to set a program, emit an event or send a message to an extension for one
    of them. Set before the first `on_create`; a flow is removed after its `on_close`."""

    def on_create(self, info: FlowInfo) -> None:
        """Take over a new or running flow; `self.flows[info.flow_id]` sets values with the program."""

    def on_reports(self, reports: NDArray[np.void], program: str) -> Decided:
        """Decide for many flows together.

        Args:
            reports: Structured array of shape (n,) in order of arrival, with the fields flow_id, now_us,
                cwnd_bytes, rate_bytes_per_s (uint64), missed (uint32), flags (uint16; bit 0 = timeout, bit 1
                = fold error), and one uint64 for each field of the program's report. A flow may have several
                entries.
            program: Name of the program that sent the reports.

        Returns:
            Decisions to apply, in order; None if there are none.
        """
        raise NotImplementedError

    def on_params(self, names: frozenset[str]) -> Decided:
        """Apply parameters that were set after the instance was created; see `Algorithm.on_params`.

        Returns:
            As for `on_reports`.
        """
        return None

    def on_telemetry(self, samples: Sequence[tuple[int, TelemetrySample]]) -> Decided:
        """Handle telemetry: pairs of a flow's id and a sample for that flow, in order of arrival.

        Returns:
            As for `on_reports`.
        """
        return None

    def on_telemetry_lost(self, flow_ids: Sequence[int], kind: str, sender: str) -> None:
        """Continue without telemetry of this kind: this sender's last sample for these flows has expired."""

    def on_extension(self, flow_id: int, extension: str, message: bytes) -> None:
        """Handle a message from an extension of the datapath about a flow; see `Algorithm.on_extension`."""

    def on_close(self, flow_id: int) -> None:
        """Clean up after a flow that closed or moved to another algorithm."""


AnyAlgorithm = type[Algorithm] | type[VectorAlgorithm]


AGENT_AREAS: Final = frozenset({"flow", "param", "algorithm", "program", "canary", "telemetry"})
"""Areas reserved for the agent's own events."""


def check_event(kind: str) -> None:
    """Check the kind of an event that an algorithm emits.

    Raises:
        ContractError: `contract.bad_event`, if it is not spelled `area:thing_happened` or its area is
        reserved.
    """
    area = kind.partition(":")[0]
    if re.fullmatch(r"[a-z][a-z0-9_]*:[a-z][a-z0-9_]*", kind) and area not in AGENT_AREAS:
        return
    raise ContractError(
        "contract.bad_event",
        f"an algorithm cannot emit the event {kind!r}",
        why=f"the area `{area}` is reserved for the agent's events"
        if area in AGENT_AREAS
        else "an event is named `area:thing_happened`",
        fix="choose another area, such as `regime:switched`",
    )


def programs_of(cls: AnyAlgorithm) -> dict[str, str]:
    """Return an algorithm's fold programs as CCP source text by name, in their order.

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
            why="without a fold program the datapath reports nothing",
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
                why="a fold program is CCP source text or a FoldProgram class",
                fix="derive the class from ccp_algs.fold.FoldProgram, or pass CCP source text",
            )
        sources[str(name)] = source
    return sources
