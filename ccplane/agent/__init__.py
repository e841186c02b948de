"""The agent: it runs algorithms on the flows of a datapath.

Purpose: the agent loop (`ccplane.agent.agent_loop.AgentLoop`), the choice of an algorithm for each flow
(`ccplane.agent.rules`), changes while flows run (`ccplane.agent.changes`, `ccplane.agent.reload`,
`ccplane.agent.control`), and the command line `ccp` (`ccplane.agent.cli`).

May import: `ccp_algs`, `ccplane.datapath`, `telemetry`, `broker`, `ccplane.base`. Never `experiments`;
commands of other packages reach `ccp` through the entry-point groups `ccplane.commands.PANEL`.

Entry points: `ccplane.agent.serve.serve()` runs algorithms on the kernel datapath until it is stopped;
`ccplane.agent.agent_loop.AgentLoop` is the same loop for any datapath; `ccplane.agent.Client` inspects and
changes a running agent.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ccplane.agent.client import Client

__all__ = ["Client"]


def __getattr__(name: str) -> Any:
    """Import the client on first use; the agent itself does not need it."""
    if name == "Client":
        from ccplane.agent.client import Client

        return Client
    raise AttributeError(f"module 'ccplane.agent' has no attribute {name!r}")
