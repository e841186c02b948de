"""`ccp switch`: another algorithm for flows that run."""

from __future__ import annotations

from typing import Annotated

import typer

from ccplane.agent.commands.connection import PIN_DIR, Connect, FlowId, Keys, PinDir, RuleText, client


def switch(
    algorithm: Annotated[str, typer.Argument(help="A running algorithm; `ccp reload FILE` adds one.")],
    flow: FlowId = None,
    before: Annotated[str | None, typer.Option("--from", help="For flows of this algorithm only.")] = None,
    rule: RuleText = None,
    connect: Connect = None,
    keys: Keys = None,
    pin_dir: PinDir = PIN_DIR,
) -> None:
    """Give flows another algorithm; without options all flows, and those of `ccp` to come."""
    with client(connect, keys, pin_dir) as agent:
        moved = agent.switch(algorithm, flow=flow, before=before, rule=rule)
    typer.echo(f"ccp: {algorithm} has {moved} more flow{'' if moved == 1 else 's'}")
