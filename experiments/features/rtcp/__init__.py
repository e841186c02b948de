"""R-TCP in scenarios: `rtcp/cubic` and `rtcp/bbr` for flows, and the table `rate_limits`.

All flows of a run share the same parameters, because the kernel has only one instance of each congestion
control, and the parameters are part of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.features import Feature
from experiments.features.rtcp import params, tables
from experiments.features.rtcp.names import CONGESTION, NAME

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from ccplane.agent.events import Event
    from ccplane.base._native import SimDatapath
    from experiments.errors import ScenarioError
    from experiments.runs.program import Program
    from experiments.runs.recording import Recording
    from experiments.scenario import Scenario


class _Rtcp(Feature):
    name = NAME
    title = "R-TCP"
    congestion: Mapping[str, str] = CONGESTION
    events = "rate_limit:changed"

    def problems(self, scenario: Scenario) -> Iterator[ScenarioError]:
        return params.problems(scenario)

    def line_of(self, event: Event) -> bytes:
        return tables.line_of(event)

    def columns(self) -> Mapping[str, Mapping[str, pa.DataType]]:
        return tables.COLUMNS

    def tables(self, recording: Recording) -> Mapping[str, pd.DataFrame]:
        return tables.made(recording)

    def live(
        self,
        scenario: Scenario,
        recording: Recording,
        directory: Path,
        progress: Callable[[str, float], None],
    ) -> AbstractContextManager[Program]:
        from experiments.features.rtcp import live

        return live.attached(scenario, recording, directory, progress)

    def simulated(
        self, scenario: Scenario, recording: Recording, directory: Path, datapath: SimDatapath
    ) -> AbstractContextManager[Callable[[], None]]:
        from experiments.features.rtcp import simulated

        return simulated.attached(scenario, recording, directory, datapath)


FEATURE = _Rtcp()
