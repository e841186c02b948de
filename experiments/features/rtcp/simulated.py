"""R-TCP's congestion controls in simulations, the counterpart of `ccp rtcp attach`."""

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
from experiments.runs.artifacts import reported
from experiments.runs.recording import Recording

if TYPE_CHECKING:
    from ccplane.base._native import SimDatapath
    from experiments.scenario import Scenario


@contextlib.contextmanager
def attached(
    scenario: Scenario, recording: Recording, directory: Path, datapath: SimDatapath
) -> Iterator[Callable[[], None]]:
    """Add R-TCP to a simulation for a `with` block, as the flows of a scenario require.

    Yields:
        A function that records what was reported since its last call.
    """
    settings, records = wanted(scenario)
    simulated = native.RtcpSimulated(datapath, options_of(settings).to_bytes(), records=records)
    recorder = AckRecorder(directory / ACKS) if records else None
    with open(reported(directory, NAME), "wb") as lines:

        def take() -> None:
            for row in simulated.drain():
                # Sender and receiver share one clock.
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
