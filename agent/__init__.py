"""The running plane: it joins algorithms to a datapath.

Purpose: the event loop (`agent.plane.Plane`), the choice of an algorithm for a flow (`agent.rules`), changes
while flows run (`agent.changes`, `agent.reload`, `agent.control`), the command line `ccp` (`agent.cli`), and
an API for scripts written for pyportus (`agent.pyportus`).

May import: `ccp_algs`, `datapath`, `telemetry`, `broker`, `ccp_base`. Never `experiments`; commands of
other packages reach `ccp` through the entry-point group `ccplane.commands`.

Entry points: `agent.serve.serve()` runs algorithms on the kernel datapath until it is told to stop;
`agent.plane.Plane` is the same loop on any datapath; `agent.Client` asks and changes a running agent.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agent.client import Client

__all__ = ["Client"]


def __getattr__(name: str) -> Any:
    """Import the client when it is first asked for: the agent itself needs none."""
    if name == "Client":
        from agent.client import Client

        return Client
    raise AttributeError(f"module 'agent' has no attribute {name!r}")
