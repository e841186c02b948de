"""A service manager watches the agent: `ccp service install` has the units.

What it hears of is the event loop itself, the same turns and breaths that tell the datapath's heartbeat. If
the loop hangs, it ends the agent with SIGABRT, and the log says where each thread was.
"""

from __future__ import annotations

import faulthandler
from collections.abc import Iterator
from contextlib import contextmanager

from ccplane.agent.plane import Plane
from ccplane.base.notify import Manager, Supervised


@contextmanager
def supervised(plane: Plane) -> Iterator[None]:
    """Tell the service manager, if one started us, how the plane's loop is, for the length of a block."""
    manager = Manager.from_environment()
    if manager is None:
        yield
        return
    faulthandler.enable()
    loop = Supervised(manager, lambda: status_line(plane))
    plane.each_turn.append(loop.turn)
    plane.breath.also.append(loop.feed)
    try:
        yield
    finally:
        plane.each_turn.remove(loop.turn)
        plane.breath.also.remove(loop.feed)
        loop.stopping()


def status_line(plane: Plane) -> str:
    """Return how the plane is, in a line."""
    counters = plane.counters
    failed = f", {counters.flows_failed} failed" if counters.flows_failed else ""
    return f"{', '.join(plane.hosts)}: {len(plane.flows)} flows, {counters.reports} reports{failed}"
