"""Reads the data of `ccp top` from the datapath pinned in a directory, and from its agent."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeVar

from ccplane.agent import flowtable, runfile
from ccplane.agent.agent_view import view_of
from ccplane.agent.client import Client
from ccplane.agent.monitor.source import Happened, Inside, Look, Parameter, Received
from ccplane.agent.runfile import RunInfo
from ccplane.base.errors import LoadError
from ccplane.datapath import ebpf
from ccplane.datapath.protocol import DatapathView

TIMEOUT_S: Final = 1.0
"""Timeout for the agent's answer [s]."""

EVENTS_ASKED: Final = 200
"""Events requested per poll."""

R = TypeVar("R")


class Agent(Protocol):
    """Requests to the agent; see `ccplane.agent.client.Client`."""

    def algorithms(self) -> list[str]:
        """Return the names of the running algorithms."""
        ...

    def flow(self, flow_id: int) -> dict[str, Any]:
        """Return all data of one flow."""
        ...

    def events(self, limit: int) -> list[dict[str, Any]]:
        """Return the last events."""
        ...

    def set(self, values: Mapping[str, str], *, flow: int | None, algorithm: str | None) -> int:
        """Set parameters."""
        ...

    def switch(self, algorithm: str, *, flow: int | None, before: str | None) -> int:
        """Move flows to another algorithm."""
        ...

    def close(self) -> None:
        """Disconnect."""
        ...


class LoopSource:
    """Reads the datapath and asks the agent, which may stop and restart while the screen is open."""

    def __init__(
        self,
        pin_dir: str,
        view: DatapathView,
        *,
        agent: Callable[[], Agent],
        running: Callable[[], RunInfo | None],
    ) -> None:
        self._pin_dir = pin_dir
        self._view = view
        self._connect = agent
        self._running = running
        self._agent: Agent | None = None
        self._before: flowtable.Look = {}
        self._reported_until_us = 0

    def look(self) -> Look:
        """Return a snapshot of all flows, see `Source.look`."""
        now, running = flowtable.look(self._view), self._running()
        rows = flowtable.rows(self._before, now, running)
        self._before = now
        stats = {flow_id: totals for flow_id, (_, totals) in now.items()}
        return Look(rows, stats, running, self._view.counters(), time.time())

    def inside(self, flow_id: int) -> Inside:
        """Return the agent's data of a flow, see `Source.inside`."""
        row = self._ask(lambda agent: agent.flow(flow_id))
        return Inside(
            algorithm=row["algorithm"],
            parameters=[Parameter(one["name"], one["value"], about(one)) for one in row["params"]],
            state=row["state"],
            telemetry=[
                Received(
                    one["kind"],
                    one["sender"],
                    one["age_ms"] / 1000,
                    {name: value for name, value in one["fields"].items() if name != "kind"},
                )
                for one in row["telemetry"]
            ],
            report={} if row["report"] is None else row["report"]["fields"],
            report_age_s=0.0 if row["report"] is None else row["report"]["age_ms"] / 1000,
        )

    def events(self) -> Sequence[Happened]:
        """Return the events since the last call, see `Source.events`."""
        rows = self._ask(lambda agent: agent.events(EVENTS_ASKED))
        new = [row for row in rows if row["t_us"] > self._reported_until_us]
        if new:
            self._reported_until_us = new[-1]["t_us"]
        return [
            Happened(row["t_wall_us"] / 1e6, row["kind"], row["algorithm"], row["flow_id"], row["detail"])
            for row in new
        ]

    def algorithms(self) -> Sequence[str]:
        """Return the names of the running algorithms, see `Source.algorithms`."""
        return self._ask(lambda agent: agent.algorithms())

    def set_param(self, name: str, text: str, algorithm: str, flow_id: int | None) -> int:
        """Set a parameter, see `Source.set_param`."""
        return self._ask(lambda agent: agent.set({name: text}, flow=flow_id, algorithm=algorithm))

    def switch(self, algorithm: str, flow_id: int | None, before: str) -> int:
        """Move flows to another algorithm, see `Source.switch`."""
        former = before if flow_id is None else None
        return self._ask(lambda agent: agent.switch(algorithm, flow=flow_id, before=former))

    def close(self) -> None:
        """Disconnect from the agent."""
        if self._agent is not None:
            self._agent.close()
            self._agent = None

    def _ask(self, question: Callable[[Agent], R]) -> R:
        """Send a request; connect first, if necessary."""
        if self._running() is None:  # the socket of a killed agent would only time out
            self.close()
            raise LoadError(
                "control.no_agent", "no agent is running", where=self._pin_dir, fix="start one: `ccp run`"
            )
        if self._agent is None:
            self._agent = self._connect()
        try:
            return question(self._agent)
        except LoadError:
            # Otherwise the unanswered request would reach the next agent.
            self.close()
            raise


def about(parameter: Mapping[str, Any]) -> str:
    """Return unit, range and description of a parameter (a row of `Client.get_params`) on one line."""
    low, high, choices = parameter["low"], parameter["high"], parameter["choices"]
    if choices:
        extent = " | ".join(str(choice) for choice in choices)
    elif low is not None and high is not None:
        extent = f"{low:g} to {high:g}"
    elif low is not None:
        extent = f"from {low:g}"
    else:
        extent = "" if high is None else f"up to {high:g}"
    return "; ".join(part for part in (parameter["unit"], extent, parameter["doc"]) if part)


def open_source(pin_dir: str = ebpf.DEFAULT_PIN_DIR) -> LoopSource:
    """Open the datapath of a pin directory; connect to the agent on first use.

    Raises:
        LoadError: If nothing is loaded there, or permission is denied.
    """
    return LoopSource(
        pin_dir,
        view_of(pin_dir),
        agent=lambda: Client(pin_dir=pin_dir, timeout_s=TIMEOUT_S),
        running=lambda: runfile.running(pin_dir),
    )
