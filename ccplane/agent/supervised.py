"""Supervision of the agent by a service manager; `ccp service install` installs the units.

The agent loop itself feeds the watchdog, together with the datapath's heartbeat. If the loop is stuck, the
service manager ends the agent with SIGABRT, and the log shows the stack of each thread.
"""

from __future__ import annotations

import faulthandler
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ccplane.agent.agent_loop import AgentLoop
from ccplane.agent.upgrade import is_main
from ccplane.base.notify import Manager, Supervised


@contextmanager
def supervised(
    agent_loop: AgentLoop, manager: Manager | None, continues: Callable[[], bool]
) -> Iterator[None]:
    """Report the state of the agent loop to the service manager, if one started this process.

    Args:
        agent_loop: The agent loop.
        manager: The service manager.
        continues: Whether the service continues with another process when the loop has ended.
    """
    if manager is None:
        yield
        return
    faulthandler.enable()
    loop = Supervised(manager, lambda: status_line(agent_loop))

    def turn() -> None:
        if is_main():
            loop.turn()

    def feed() -> None:
        if is_main():
            loop.feed()

    agent_loop.each_turn.append(turn)
    agent_loop.keepalive.also.append(feed)
    try:
        yield
    finally:
        agent_loop.each_turn.remove(turn)
        agent_loop.keepalive.also.remove(feed)
        if not continues():
            loop.stopping()


def status_line(agent_loop: AgentLoop) -> str:
    """Return the agent's state in one line."""
    counters = agent_loop.counters
    reports = f", {counters.reports} reports" if counters.reports else ""
    failed = f", {counters.flows_failed} failed" if counters.flows_failed else ""
    return f"{', '.join(agent_loop.hosts)}: {len(agent_loop.flows)} flows{reports}{failed}"
