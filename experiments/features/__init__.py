"""Hooks by which features extend scenarios and their results.

`experiments.runs` knows features only by these hooks. A feature is a package in this folder that defines
`FEATURE`, a `Feature`. Deleting the package removes the feature. Each run imports all packages, so the hooks
import their own modules lazily.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from ccplane.agent.events import Event
    from ccplane.base._native import SimDatapath
    from experiments.errors import ScenarioError
    from experiments.runs.program import Program
    from experiments.runs.recording import Recording
    from experiments.scenario import Scenario


class Feature:
    """The hooks of a feature; the defaults add nothing.

    Attributes:
        name: Prefix of its files: `NAME-agent.jsonl` has the agent's events, `NAME-kernel.jsonl` its reports.
        title: Display name.
        congestion: Congestion controls that it offers: name in scenarios -> name for sockets. All names in
            scenarios start with the same word and `/`.
        events: Prefix of the kinds of agent events that are kept; empty for none.
    """

    name: str
    title: str = ""
    congestion: Mapping[str, str] = {}
    events: str = ""

    def offers(self, algorithm: str) -> bool:
        """Return whether a name is one of `congestion`, or looks like one."""
        return any(algorithm.partition("/")[:2] == name.partition("/")[:2] for name in self.congestion)

    def serves(self, scenario: Scenario) -> bool:
        """Return whether flows of a scenario use a congestion control of this feature."""
        return any(flow.algorithm in self.congestion for flow in scenario.flows)

    def problems(self, scenario: Scenario) -> Iterator[ScenarioError]:
        """Yield errors in the parameters of flows with the feature's congestion controls."""
        yield from ()

    def line_of(self, event: Event) -> bytes:
        """Return an agent event as a line of JSON; features with `events` override this."""
        raise NotImplementedError

    def columns(self) -> Mapping[str, Mapping[str, pa.DataType]]:
        """Return the columns of the feature's tables with their types, by table name."""
        return {}

    def tables(self, recording: Recording) -> Mapping[str, pd.DataFrame]:
        """Return the tables of a recording by name; empty ones may be omitted."""
        return {}

    def live(
        self,
        scenario: Scenario,
        recording: Recording,
        directory: Path,
        progress: Callable[[str, float], None],
    ) -> AbstractContextManager[Program | None]:
        """Extend the kernel as a scenario needs, if the feature `serves` it; yield the process to watch."""
        return nullcontext()

    def simulated(
        self, scenario: Scenario, recording: Recording, directory: Path, datapath: SimDatapath
    ) -> AbstractContextManager[Callable[[], None]]:
        """Extend a simulation as `live` extends the kernel; yield a function to call at each turn."""
        return nullcontext(lambda: None)


@cache
def features() -> tuple[Feature, ...]:
    """Return all features, sorted by name."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__) if module.ispkg)
    return tuple(import_module(f"{__name__}.{name}").FEATURE for name in names)


def offering(algorithm: str) -> Feature | None:
    """Return the feature that offers a congestion control of this name, or None."""
    return next((feature for feature in features() if feature.offers(algorithm)), None)


def serving(scenario: Scenario) -> list[Feature]:
    """Return the features whose congestion controls a scenario uses."""
    return [feature for feature in features() if feature.serves(scenario)]
