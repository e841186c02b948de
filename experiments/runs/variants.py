"""The variants of ccplane's algorithms in a run: algorithms with parameters.

Flows that differ in algorithm or parameters get different *variants*: classes derived from the algorithm's,
each with its own congestion-control name. So one algorithm can run with several sets of parameters at the
same time, and a parameter can be changed for some flows during the run.
"""

from __future__ import annotations

import re
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec

from ccp_algs.api import AnyAlgorithm, VectorAlgorithm
from ccplane.agent.algorithms import find, name_of
from ccplane.agent.description import Description
from experiments.events import Edit, ParamValue, SetParam
from experiments.features import offering
from experiments.runs.check import KERNEL, is_own, own_of
from experiments.traffic.spec import TCP, Transport, transport_of
from telemetry.schema import Sample

if TYPE_CHECKING:
    from experiments.scenario import Scenario

Reported = Callable[[int, Sample], None]
"""Called with the number of a flow, and the sample that its algorithm reacted to."""

_MAX_NAME: Final = 11
"""Maximum length of an algorithm's name; see `ccp_algs.registry.register`."""


class Variant(msgspec.Struct, frozen=True):
    """An algorithm with its parameters.

    Attributes:
        name: Name in the agent; sockets choose it as `ccp.NAME`.
        algorithm: As named by flows.
        params: Parameters that differ from the defaults.
        transport: Transport of its flows; each transport has its own agent.
    """

    name: str
    algorithm: str
    params: dict[str, ParamValue] = {}
    transport: Transport = TCP

    @property
    def congestion(self) -> str:
        """Congestion-control name of sockets."""
        return f"ccp.{self.name}"


@dataclass(frozen=True)
class Variants:
    """Maps flows to variants.

    Attributes:
        by_flow: Name of the flow -> its variant; flows with a kernel algorithm are left out.
        by_switched: Name of the algorithm -> its variant, for algorithms that switches set on sockets.
    """

    by_flow: Mapping[str, Variant]
    by_switched: Mapping[str, Variant]

    @property
    def all(self) -> list[Variant]:
        """All variants, without duplicates: first those of flows, in the order of the flows."""
        each = (*self.by_flow.values(), *self.by_switched.values())
        return list({variant.name: variant for variant in each}.values())

    def over(self, transport: Transport) -> list[Variant]:
        """Return the variants of flows over a transport."""
        return [variant for variant in self.all if variant.transport == transport]

    def meant_by(self, event: SetParam | Edit) -> list[Variant]:
        """Return the variants that an event changes; `event.algorithm` was validated."""
        if isinstance(event, SetParam) and event.flow is not None:
            return [self.by_flow[event.flow]]
        return [variant for variant in self.all if variant.algorithm == event.algorithm]


def variants_of(scenario: Scenario) -> Variants:
    """Return the variants that a scenario's flows need."""
    alone = {event.flow for event in scenario.events if isinstance(event, SetParam)}
    by_key: dict[Any, Variant] = {}
    taken: set[str] = set()

    def variant(
        algorithm: str, params: Mapping[str, ParamValue], flow: str | None, transport: Transport
    ) -> Variant:
        key = (algorithm, tuple(sorted(params.items())), flow, transport)
        if key not in by_key:
            name = _free_name(name_of(find(algorithm), algorithm), taken)
            taken.add(name)
            by_key[key] = Variant(name, algorithm, dict(params), transport)
        return by_key[key]

    by_flow = {
        flow.name: variant(
            flow.algorithm,
            flow.params,
            flow.name if flow.name in alone else None,
            transport_of(flow.traffic),
        )
        for flow in scenario.flows
        if is_own(flow.algorithm)
    }
    switched = {name for one in scenario.switches for name in (one.single, one.shared)}
    own = [name for name in own_of(scenario) if name in switched]
    return Variants(by_flow, {name: variant(name, {}, None, TCP) for name in own})


def congestion_of(algorithm: str, variant: Variant | None) -> str:
    """Return the congestion-control name of sockets."""
    if variant is not None:
        return variant.congestion
    if (feature := offering(algorithm)) is not None:
        return feature.congestion[algorithm]
    return algorithm.removeprefix(KERNEL)


def _free_name(wanted: str, taken: set[str]) -> str:
    base = re.sub(r"[^a-z0-9_]", "_", wanted.lower())
    name, number = base[:_MAX_NAME], 1
    while name in taken:
        number += 1
        ending = f"_{number}"
        name = base[: _MAX_NAME - len(ending)] + ending
    return name


def described(variants: Sequence[Variant], reported: Reported | None = None) -> Description:
    """Return the description of an agent that runs variants, each as a separate class.

    Raises:
        CcpError: If an algorithm is not found.
    """
    return Description(
        algorithms=[_derived(find(variant.algorithm), variant.name, reported) for variant in variants],
        params={
            f"{variant.name}.{name}": value for variant in variants for name, value in variant.params.items()
        },
        names={variant.name: variant.congestion for variant in variants},
    )


def _derived(base: AnyAlgorithm, name: str, reported: Reported | None) -> AnyAlgorithm:
    def fill(namespace: dict[str, Any]) -> None:
        namespace["name"] = name
        if reported is not None:
            namespace["on_telemetry"] = _reporting(base, reported)
        # Keep the algorithm's module and qualified name, so that errors in its programs show its file.
        for same in ("__module__", "__qualname__", "__doc__"):
            namespace[same] = getattr(base, same)

    derived: AnyAlgorithm = types.new_class(base.__name__, (base,), exec_body=fill)
    return derived


def _reporting(base: AnyAlgorithm, reported: Reported) -> Callable[[Any, Any], Any]:
    """Wrap an algorithm's `on_telemetry` to call `reported` when it is done."""

    def on_telemetry(self: Any, given: Any) -> Any:
        answer = base.on_telemetry(self, given)
        all_of_them = issubclass(base, VectorAlgorithm)
        for flow_id, sample in given if all_of_them else [(self.flow.info.flow_id, given)]:
            reported(flow_id, sample)
        return answer

    return on_telemetry
