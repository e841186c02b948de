"""R-TCP's congestion controls for the flows of a simulation: what `ccp rtcp attach` is on real sockets."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from ccplane.agent.features.rtcp.acks import AckRecorder
from ccplane.agent.features.rtcp.attached import verdict_of
from ccplane.agent.features.rtcp.settings import options_of
from ccplane.base import native
from experiments.features.rtcp.live import ACKS, sort_acks
from experiments.features.rtcp.names import NAME
from experiments.features.rtcp.params import wanted
from experiments.runs.leavings import reported
from experiments.runs.recording import Recording

if TYPE_CHECKING:
    from ccplane.base._native import SimDatapath
    from experiments.scenario import Scenario


@contextlib.contextmanager
def attached(
    scenario: Scenario, recording: Recording, directory: Path, datapath: SimDatapath
) -> Iterator[Callable[[], None]]:
    """Have R-TCP in a simulation for the length of a block, as the flows of a scenario ask for it.

    Args:
        scenario: What is run.
        recording: Of the run.
        directory: Of the result.
        datapath: The world.

    Yields:
        What writes down what was reported since the last time.
    """
    settings, records = wanted(scenario)
    simulated = native.RtcpSimulated(datapath, options_of(settings).to_bytes(), records=records)
    recorder = AckRecorder(directory / ACKS) if records else None
    with open(reported(directory, NAME), "wb") as lines:

        def take() -> None:
            for row in simulated.drain():
                # There is one clock.
                lines.write(msgspec.json.encode(verdict_of(row, int(row["t_us"]))) + b"\n")
            if recorder is not None:
                recorder.take(simulated.drain_acks())

        try:
            yield take
        finally:
            take()
            if recorder is not None:
                recorder.close()
                sort_acks(recording, directory / ACKS)
