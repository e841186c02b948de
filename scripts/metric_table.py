"""The table of an agent's metrics, from the collectors that Prometheus scrapes."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from broker.options import BusOptions
from ccp_algs.rtcp.limit import LIMIT_STATES
from ccplane.agent.agent_loop import LoopCounters
from ccplane.agent.audit import AuditLog
from ccplane.agent.events import Events
from ccplane.agent.features.rtcp.metrics import RATE_BOUNDS, RateLimitCollector
from ccplane.agent.inbox import Inbox
from ccplane.agent.metrics.families import AgentCollector
from ccplane.agent.telemetry_dispatch import TelemetryDispatch

if TYPE_CHECKING:
    from prometheus_client.core import Metric


class _Datapath:
    """A datapath without flows."""

    def counters(self) -> dict[str, int]:
        return {}

    def silences(self) -> tuple[list[tuple[int, int]], int]:
        return [(1 << 64, 0)], 0

    def wake(self) -> None: ...


def families() -> Iterator[Metric]:
    """Yield all metrics of an agent with a bus, an audit log and R-TCP."""
    with ExitStack() as around:
        audit_log = AuditLog(Path(around.enter_context(tempfile.TemporaryDirectory()), "audit"))
        around.callback(audit_log.close)
        agent_loop: Any = SimpleNamespace(
            datapath=_Datapath(),
            counters=LoopCounters(),
            not_renewed=[],
            flows={},
            events=Events(),
            each_turn=[],
        )
        inbox = Inbox(BusOptions(), sender="agent")
        dispatch = TelemetryDispatch(agent_loop, inbox, "agent", lambda: 0)
        yield from AgentCollector(agent_loop, dispatch, inbox, audit_log=audit_log).collect()
        clients: defaultdict[str, Any] = defaultdict(
            int, clients=[0] * len(LIMIT_STATES), rates=[0] * (len(RATE_BOUNDS) + 1)
        )
        rate_limits = RateLimitCollector(lambda: clients)
        around.callback(rate_limits.close)
        yield from rate_limits.collect()


def table() -> str:
    """Return the table as Markdown."""
    rows = "".join(
        f"| `{one.name}{'_total' if one.type == 'counter' else ''}` | {one.type} | {one.documentation} |\n"
        for one in sorted(families(), key=lambda one: one.name)
    )
    return f"| metric | type | meaning |\n| --- | --- | --- |\n{rows}"


if __name__ == "__main__":
    print(table())
