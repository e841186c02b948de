"""A simulated run that can be watched and changed like a running agent: without root, in real time.

    from experiments.watched import Watched

    with Watched(scenario) as run:
        run.client.panel()                      # in a notebook; also .params, .load, .stream, ...

The simulator slows virtual time down to real time. The agent has a control socket, so `ccplane.agent.Client`
connects to it as to any other agent.
"""

from __future__ import annotations

import contextlib
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final

from ccplane.agent.client import Client
from ccplane.agent.control import ControlOptions
from ccplane.agent.management import managed
from ccplane.base.errors import CcpError
from ccplane.datapath import ebpf
from experiments.errors import RunError
from experiments.runs import sim
from experiments.runs.check import SIM, is_own
from experiments.runs.recording import Recording

if TYPE_CHECKING:
    from ccplane.agent.agent_loop import AgentLoop
    from ccplane.base._native import SimDatapath
    from experiments.scenario import Scenario

START_TIMEOUT_S: Final = 60.0
"""Start timeout of the simulation [s]."""

AHEAD_S: Final = 0.005
"""Maximum lead of virtual time over real time [s]; shorter sleeps are not worth their cost."""


class _EndedError(Exception):
    """Ends a run from within."""


class Watched:
    """A scenario in the simulator, with an agent that accepts clients. A context manager.

    The simulation ends with the scenario, or when it is closed. It keeps no result; `experiments.run` keeps
    results.

    Attributes:
        client: A connection to the agent; others may connect to its `address`.
    """

    def __init__(self, scenario: Scenario, *, speed: float = 1.0) -> None:
        """Start the simulation.

        Args:
            scenario: A scenario for any datapath; at least one flow has an algorithm of ccplane.
            speed: Maximum virtual seconds per second; the simulator may be slower.

        Raises:
            ScenarioError: If the scenario is invalid.
            Several: If several things are invalid.
            RunError: `run.nothing_to_watch`, without an algorithm of ccplane; `run.agent`, if the simulation
                did not start.
        """
        self._scenario = scenario.replace(datapath=SIM)
        self._scenario.validate()
        if not any(is_own(flow.algorithm) for flow in scenario.flows):
            raise RunError(
                "run.nothing_to_watch",
                "the scenario has no flow controlled by an agent",
                where=scenario.name,
                why="all flows of the scenario have kernel algorithms",
                fix="give a flow an algorithm without `kernel/` in front",
            )
        self._speed = speed
        self._directory = tempfile.TemporaryDirectory(prefix="ccplane-watched-")
        self._address = f"ipc://{self._directory.name}/control.sock"
        self._begun = threading.Event()
        self._done = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._work, name="ccp-watched", daemon=True)
        self._thread.start()
        try:
            self._wait()
            self.client = Client(self._address)
        except BaseException:
            self._end()
            raise

    def close(self) -> None:
        """Stop the simulation; may be called again."""
        self.client.close()
        self._end()

    @property
    def running(self) -> bool:
        """Whether flows are still sending."""
        return self._thread.is_alive()

    def __enter__(self) -> Watched:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _wait(self) -> None:
        end_s = time.monotonic() + START_TIMEOUT_S
        while not self._begun.wait(0.05):
            if self._thread.is_alive() and time.monotonic() < end_s:
                continue
            if isinstance(self._error, CcpError):
                raise self._error
            raise RunError(
                "run.agent",
                "the simulation did not start",
                where=self._scenario.name,
                why=repr(self._error) if self._error else f"nothing happened in {START_TIMEOUT_S:g} s",
                fix="check whether `experiments.run.run` can run the scenario",
            ) from self._error

    def _end(self) -> None:
        self._done.set()
        self._thread.join()
        self._directory.cleanup()

    # The thread

    def _work(self) -> None:
        recording = Recording(self._scenario.sample_interval_us)
        try:
            sim.record(
                self._scenario,
                recording,
                Path(self._directory.name),
                lambda _what, _passed_s: None,
                self._open,
            )
        except _EndedError:
            pass
        except BaseException as error:
            self._error = error

    @contextlib.contextmanager
    def _open(self, agent_loop: AgentLoop, datapath: SimDatapath) -> Iterator[None]:
        begin_s, begin_us = time.monotonic(), datapath.now_us

        def wait() -> None:
            while not self._done.is_set():
                virtual_s = (datapath.now_us - begin_us) / 1e6 / self._speed
                ahead_s = begin_s + virtual_s - time.monotonic()
                if ahead_s < AHEAD_S or self._done.wait(ahead_s):
                    break
            if self._done.is_set():
                raise _EndedError

        with managed(agent_loop, ebpf.compile_program, ControlOptions(self._address)):
            agent_loop.each_turn.append(wait)
            self._begun.set()
            yield
