"""R-TCP in scenarios: `rtcp/cubic` and `rtcp/bbr` for flows, and the table `rate_limits`.

All flows of a run have the same parameters: the kernel has these congestion controls once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from experiments.features import Feature

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from ccplane.agent.events import Event
    from ccplane.base._native import SimDatapath
    from experiments.errors import ScenarioError
    from experiments.runs.program import Program
    from experiments.runs.recording import Recording
    from experiments.scenario import Scenario


CONGESTION: Final = {"rtcp/cubic": "rtcp_cubic", "rtcp/bbr": "rtcp_bbr"}


class _Rtcp(Feature):
    name = "rate-limits"
    title = "R-TCP"
    congestion: Mapping[str, str] = CONGESTION
    events = "rate_limit:changed"

    def problems(self, scenario: Scenario) -> Iterator[ScenarioError]:
        from experiments.features.rtcp import params

        return params.problems(scenario)

    def line_of(self, event: Event) -> bytes:
        from experiments.features.rtcp import tables

        return tables.line_of(event)

    def columns(self) -> Mapping[str, Mapping[str, pa.DataType]]:
        from experiments.features.rtcp import tables

        return tables.COLUMNS

    def tables(self, recording: Recording) -> Mapping[str, pd.DataFrame]:
        from experiments.features.rtcp import tables

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
