"""The running plane: it joins algorithms to a datapath.

Purpose: the event loop (`ccplane.agent.plane.Plane`), the choice of an algorithm for a flow
(`ccplane.agent.rules`), changes while flows run (`ccplane.agent.changes`, `ccplane.agent.reload`,
`ccplane.agent.control`), and the command line `ccp` (`ccplane.agent.cli`).

May import: `ccp_algs`, `ccplane.datapath`, `telemetry`, `broker`, `ccplane.base`. Never `experiments`;
commands of other packages reach `ccp` through the entry-point group `ccplane.commands`.

Entry points: `ccplane.agent.serve.serve()` runs algorithms on the kernel datapath until it is told to stop;
`ccplane.agent.plane.Plane` is the same loop on any datapath; `ccplane.agent.Client` asks and changes a
running agent.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ccplane.agent.client import Client

__all__ = ["Client"]


def __getattr__(name: str) -> Any:
    """Import the client when it is first asked for: the agent itself needs none."""
    if name == "Client":
        from ccplane.agent.client import Client

        return Client
    raise AttributeError(f"module 'ccplane.agent' has no attribute {name!r}")
