"""Telemetry of a simulation: sinks and receivers publish on a bus within the process."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

import msgspec

from experiments.runs import artifacts
from experiments.runs.sim_receiver import SimReceiver
from telemetry.local import LocalBus
from telemetry.schema import IntSummary
from telemetry.status import online

if TYPE_CHECKING:
    from ccplane.base._native import SimDatapath
    from experiments.scenario import Scenario

SINK: Final = "sink"
"""Name of the sinks on the bus."""
NEVER_US: Final = 1 << 62

_SUMMARY: Final = msgspec.json.Decoder(IntSummary)


class Telemetry:
    """All publishers of telemetry in a simulation.

    Attributes:
        published: Number of sinks' summaries published on the bus.
        ready_us: Time by which all receivers have published, and flows may start [us]. Real runs also wait
            for receivers, which so learn the path without flows.
    """

    def __init__(
        self,
        scenario: Scenario,
        datapath: SimDatapath,
        bus: LocalBus,
        directory: Path,
        addresses: Mapping[str, tuple[str, str]],
        files: contextlib.ExitStack,
    ) -> None:
        """Set up the publishers."""
        self.published = 0
        self._datapath = datapath
        self._sink = None
        self._copy: IO[bytes] | None = None
        if scenario.network.telemetry is not None:
            self._sink = bus.join(SINK, status=online("sink"))
            summaries = directory / artifacts.SUMMARIES
            self._copy = files.enter_context(open(summaries, "ab"))  # noqa: SIM115 - `files` closes it
        self._receivers: list[SimReceiver] = []
        for receiver in scenario.receivers:
            file = artifacts.receiver_lines(directory, receiver.host)
            lines = files.enter_context(open(file, "wb"))  # noqa: SIM115 - `files` closes it
            self._receivers.append(SimReceiver(scenario, receiver, datapath, bus, addresses, lines))
        self.ready_us = max((one.due_us for one in self._receivers), default=datapath.now_us)

    @property
    def due_us(self) -> int:
        """The next time at which a publisher is due [us]."""
        return min((one.due_us for one in self._receivers), default=NEVER_US)

    def feed(self) -> None:
        """Publish everything that is due."""
        if self._sink is not None and self._copy is not None:
            for line in self._datapath.summaries():
                self._copy.write(line + b"\n")
                self._sink.publish(_SUMMARY.decode(line))
                self.published += 1
        now_us = self._datapath.now_us
        if self.due_us <= now_us:
            arrived = self._datapath.arrivals()
            probed = self._datapath.probes()
            for receiver in self._receivers:
                receiver.take(arrived[arrived["netns"] == receiver.netns])
                receiver.receive([one for one in probed if one[0] == receiver.host])
                if receiver.due_us <= now_us:
                    receiver.close_interval()
