"""`ccp flows`: the flows of this machine that use ccplane."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.live import Live

from ccplane.agent import flowtable, runfile
from ccplane.agent import messages as ask
from ccplane.agent.agent_view import view_of
from ccplane.agent.client import Client
from ccplane.agent.commands.connection import PIN_DIR, PinDir
from ccplane.agent.flowtable import FlowRow
from ccplane.base import options
from ccplane.base.errors import CcpError
from ccplane.datapath.protocol import DatapathView

ANSWER_S: Final = 1.0
"""Time for the agent to answer what its algorithms raised [s]."""

app = typer.Typer(add_completion=False)


@app.command(epilog=options.examples("ccp flows", "ccp flows --watch --interval 500ms"))
def flows(
    watch: options.Watch = False,
    as_json: options.AsJson = False,
    interval_s: Annotated[
        float, options.duration("--interval", unit="s", min=0.01, help="Period of throughput and loss")
    ] = options.in_unit(1.0, "s"),
    pin_dir: PinDir = PIN_DIR,
) -> None:
    """Show each flow: addresses, algorithm, window, rate, RTT, throughput and loss.

    With --watch --json, print one JSON document per interval, on one line.
    """
    view = view_of(pin_dir)
    looks = _looks(view, interval_s, pin_dir)
    if as_json:
        for rows, agent in looks:
            document = {
                "agent_pid": None if agent is None else agent.pid,
                "flows": [row.as_dict() for row in rows],
                "counters": view.counters(),
            }
            typer.echo(json.dumps(document))
            if not watch:
                return
    elif watch:
        with suppress(KeyboardInterrupt), Live(auto_refresh=False) as screen:
            for rows, agent in looks:
                table = flowtable.render(rows, view.counters(), agent, _failures(rows, agent))
                screen.update(table, refresh=True)
    else:
        rows, agent = next(looks)
        # A pipe has no width: give the table what it needs instead of 80 columns.
        console = Console() if Console().is_terminal else Console(width=200)
        console.print(flowtable.render(rows, view.counters(), agent, _failures(rows, agent)))


def _looks(
    view: DatapathView, interval_s: float, pin_dir: str
) -> Iterator[tuple[list[FlowRow], runfile.RunInfo | None]]:
    """Yield the rows of each interval; even the first takes one, because throughput needs two looks."""
    before = flowtable.look(view)
    while True:
        time.sleep(interval_s)
        now = flowtable.look(view)
        agent = runfile.running(pin_dir)
        yield flowtable.rows(before, now, agent), agent
        before = now


def _failures(rows: Sequence[FlowRow], agent: runfile.RunInfo | None) -> list[str]:
    """Return what algorithms raised, each once with the number of its flows; only the agent knows."""
    if agent is None or not any(row.fallback_cause == "failed" for row in rows):
        return []
    try:
        with Client(pin_dir=agent.pin_dir, timeout_s=ANSWER_S) as client:
            raised = Counter(
                (row["algorithm"], row["failure"]) for row in client.ask(ask.Flows()) if row["failure"]
            )
    except CcpError:
        return []  # it has no control socket, or is gone
    return [f"{algorithm}.{failure}: {count} flows" for (algorithm, failure), count in raised.most_common()]
