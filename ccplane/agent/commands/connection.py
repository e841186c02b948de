"""How commands reach a running agent: options that they share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ccplane.agent.client import Client
from ccplane.datapath.ebpf import DEFAULT_PIN_DIR

PinDir = Annotated[
    str, typer.Option(help="The agent's datapath: a directory in a bpffs, or the socket of ccp:unix.")
]
Connect = Annotated[
    str | None, typer.Option(help="Address of the agent, such as tcp://HOST:PORT; else by --pin-dir.")
]
Keys = Annotated[Path | None, typer.Option(help="Directory of CURVE keys, for tcp://.")]
FlowId = Annotated[int | None, typer.Option("--flow", help="For this flow only, by its id.")]
RuleText = Annotated[
    str | None,
    typer.Option("--rule", help="For flows that match, those to come included: 'dst=10.0.0.0/8 dport=80'."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]

PIN_DIR = DEFAULT_PIN_DIR


def client(connect: str | None, keys: Path | None, pin_dir: str) -> Client:
    """Return a connection to the agent.

    Raises:
        LoadError: `control.no_agent`.
        UsageError: `control.bad_keys`.
    """
    return Client(connect, pin_dir=pin_dir, keys_dir=keys)
