"""Options that commands share: how to reach a running agent, and which flows to change."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ccplane.agent.client import Client
from ccplane.base.options import AsJson, Connect
from ccplane.datapath.ebpf import DEFAULT_PIN_DIR

__all__ = ["PIN_DIR", "AsJson", "Connect", "Count", "FlowId", "Keys", "Match", "PinDir", "client"]

PinDir = Annotated[
    str,
    typer.Option(
        "--pin-dir",
        metavar="PATH",
        help="Datapath of the agent: its directory in a bpffs, or its socket.",
    ),
]
Keys = Annotated[
    Path | None,
    typer.Option("--keys", metavar="DIRECTORY", help="CURVE keys, for a tcp:// endpoint."),
]
FlowId = Annotated[int | None, typer.Option("--flow", metavar="ID", help="Only the flow with this id.")]
Count = Annotated[
    int | None,
    typer.Option("--count", "-n", metavar="N", help="Stop after N lines.", show_default="unlimited"),
]
Match = Annotated[
    str | None,
    typer.Option(
        "--match",
        metavar="CONDITIONS",
        help="Only flows that match, including future ones: 'dst=10.0.0.0/8 dport=80'."
        " Conditions: src, dst, sport, dport, cgroup.",
    ),
]

PIN_DIR = DEFAULT_PIN_DIR


def client(connect: str | None, keys: Path | None, pin_dir: str) -> Client:
    """Return a connection to the agent.

    Raises:
        LoadError: `control.no_agent`.
        UsageError: `control.bad_keys`.
    """
    return Client(connect, pin_dir=pin_dir, keys_dir=keys)
