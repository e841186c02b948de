"""Parameters of `rtcp/cubic` and `rtcp/bbr` in scenarios."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from ccplane.agent.features.rtcp.settings import options_of
from ccplane.base.errors import Collector, ParamError
from experiments.errors import ScenarioError
from experiments.events import ParamValue
from experiments.features.rtcp.names import CONGESTION

if TYPE_CHECKING:
    from experiments.scenario import FlowSpec, Scenario

RECORD: Final = "record"
"""Parameter in addition to the options: whether the result keeps the ACKs that the detector saw."""


def problems(scenario: Scenario) -> Iterator[ScenarioError]:
    """Yield errors in the parameters of flows; all must be equal, except `RECORD`."""
    flows = list(_flows(scenario))
    for i, flow in flows:
        found = Collector()
        with found.check():
            options_of(_settings_of(flow))
        if not isinstance(flow.params.get(RECORD, False), bool):
            found.errors.append(ParamError("param.wrong_type", f"{RECORD} must be true or false", RECORD))
        for one in found.errors:
            message, where = f"`{flow.algorithm}`: {one.message}", f"flows[{i}].params.{one.where}"
            yield ScenarioError("scenario.bad_param", message, where, one.why, one.fix)
        first = flows[0][1]
        if _settings_of(flow) != _settings_of(first):
            yield ScenarioError(
                "scenario.bad_param",
                f"flows `{first.name}` and `{flow.name}` use R-TCP with different parameters",
                f"flows[{i}].params",
                "the kernel has only one instance of each of R-TCP's congestion controls",
                "give both flows the same parameters, or run them separately",
            )


def wanted(scenario: Scenario) -> tuple[dict[str, ParamValue], bool]:
    """Return R-TCP's options for a scenario without `problems`, and whether to record ACKs."""
    flows = [flow for _, flow in _flows(scenario)]
    return dict(_settings_of(flows[0])), any(flow.params.get(RECORD) for flow in flows)


def _flows(scenario: Scenario) -> Iterator[tuple[int, FlowSpec]]:
    return ((i, flow) for i, flow in enumerate(scenario.flows) if flow.algorithm in CONGESTION)


def _settings_of(flow: FlowSpec) -> dict[str, ParamValue]:
    return {name: value for name, value in flow.params.items() if name != RECORD}
