"""R-TCP's congestion controls for the flows of a simulation: what `ccp rtcp attach` is on real sockets."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING

import msgspec

from ccplane.agent.features.rtcp.acks import AckRecorder
from ccplane.agent.features.rtcp.attached import verdict_of
from ccplane.agent.features.rtcp.settings import options_of
from ccplane.base import native
from experiments.runs.check import rtcp_of
from experiments.runs.leavings import kernel_limits
from experiments.runs.recording import Recording
from experiments.runs.rtcp import ACKS, sort_acks, wanted

if TYPE_CHECKING:
    from ccplane.base._native import RtcpSimulated, SimDatapath
    from experiments.scenario import Scenario


class SimRtcp:
    """R-TCP, attached in a simulation."""

    def __init__(self, simulated: RtcpSimulated, lines: IO[bytes], recorder: AckRecorder | None) -> None:
        self._simulated = simulated
        self._lines = lines
        self._recorder = recorder

    def take(self) -> None:
        """Write down what it has told since the last time."""
        for row in self._simulated.drain():
            # There is one clock.
            self._lines.write(msgspec.json.encode(verdict_of(row, int(row["t_us"]))) + b"\n")
        if self._recorder is not None:
            self._recorder.take(self._simulated.drain_acks())


@contextlib.contextmanager
def attached(
    scenario: Scenario, recording: Recording, directory: Path, datapath: SimDatapath
) -> Iterator[SimRtcp | None]:
    """Have what the flows of a scenario need of R-TCP, for the length of a block.

    Args:
        scenario: What is run; it was checked that its flows agree.
        recording: Of the run.
        directory: Of the result.
        datapath: The world.

    Yields:
        It; None if no flow needs it.
    """
    if not rtcp_of(scenario):
        yield None
        return
    settings, records = wanted(scenario)
    simulated = native.RtcpSimulated(datapath, options_of(settings).to_bytes(), records=records)
    recorder = AckRecorder(directory / ACKS) if records else None
    with open(kernel_limits(directory), "wb") as lines:
        rtcp = SimRtcp(simulated, lines, recorder)
        try:
            yield rtcp
        finally:
            rtcp.take()
            if recorder is not None:
                recorder.close()
                sort_acks(recording, directory / ACKS)
